"""From queries to ranked hits, over a small library and an encoder that hashes words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from program.params import SIGNALS, Params, SearchParams
from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.encoders import encode_passages, passage_text
from program.retrieval.index import Document, Search
from program.retrieval.retriever import Retriever, rank_pools, replay
from program.types import Chunk, Hit, Query
from tests.fakes import HashEncoder

OPEN = Params(top_bar=0.0, deep_bar=0.0)
TOPICS = ("attention", "dropout", "adam", "batch", "residual", "word", "graph", "policy")
ENDINGS = (
    "is a method.",
    "was tried on images.",
    "lowers the error of a model.",
    "has a rate of 0.1.",
    "needs memory.",
)


class FixedReranker:
    """Gives the logits it was made with, in turn."""

    name = "fixed"

    def __init__(self, logits: Sequence[float]) -> None:
        self._logits = logits

    def logits(self, query: str, texts: Sequence[str]) -> np.ndarray:
        return np.resize(np.array(self._logits, np.float32), len(texts))


@pytest.fixture
def encoder() -> HashEncoder:
    return HashEncoder()


@pytest.fixture
def index(tmp_path: Path, encoder: HashEncoder) -> Iterator[EmbeddedIndex]:
    index = EmbeddedIndex.open(tmp_path, encoder.fingerprint, encoder.dimensions, create=True)
    for topic in TOPICS:
        texts = [f"{topic.title()} {ending}" for ending in ENDINGS]
        chunks = [
            Chunk(f"{topic}-{place}", topic, f"On {topic}", text, kind="abstract" if place == 0 else "passage")
            for place, text in enumerate(texts)
        ]
        vectors, tokens = encode_passages(encoder, [passage_text(chunk) for chunk in chunks])
        index.replace(Document(topic, topic, topic), chunks, vectors, tokens)
    yield index
    index.close()


@pytest.fixture
def retriever(index: EmbeddedIndex, encoder: HashEncoder) -> Retriever:
    return Retriever(index, encoder)


def plain(text: str) -> Query:
    return Query(text, text)


def test_the_best_chunk_comes_first(retriever: Retriever):
    retrieval = retriever.retrieve([plain("What rate has dropout?")], SearchParams(), Params())
    assert retrieval.hits[0].chunk.id == "dropout-3"
    assert retrieval.hits[0].score > retrieval.hits[1].score
    assert {hit.chunk.id for hit in retrieval.ranked[0]} == {hit.chunk.id for hit in retrieval.hits}
    assert retrieval.notes == ()


def test_passages_and_abstracts_are_taken_apart(retriever: Retriever):
    (pool,) = retriever.pools([plain("adam memory")], SearchParams(passages=5, abstracts=2), OPEN)
    kinds = [hit.chunk.kind for hit in pool.hits]
    assert (kinds.count("passage"), kinds.count("abstract")) == (5, 2)
    (pool,) = retriever.pools([plain("adam memory")], SearchParams(passages=5, abstracts=0), OPEN)
    assert {hit.chunk.kind for hit in pool.hits} == {"passage"}


def test_a_pinned_document_is_always_found(retriever: Retriever):
    params = Params(pinned=("graph",), evidence_chunks=3)
    search = SearchParams(passages=5, abstracts=0)
    retrieval = retriever.retrieve([plain("dropout memory rate")], search, params)
    assert "graph" in {hit.chunk.document for hit in retrieval.hits[:3]}
    assert "graph" not in {hit.chunk.document for hit in retriever.retrieve([plain("dropout rate")], search, OPEN).hits}


def test_queries_with_the_same_against_share_a_pool(retriever: Retriever):
    queries = [Query("attention memory", "asked"), Query("graph rate", "asked"), plain("policy")]
    shared, alone = retriever.pools(queries, SearchParams(passages=5, abstracts=0), OPEN)
    assert (shared.against, alone.against) == ("asked", "policy")
    assert {"attention-4", "graph-3"} <= {hit.chunk.id for hit in shared.hits[:3]}
    assert len(shared.hits) == len({hit.chunk.id for hit in shared.hits})
    assert [hit.fused for hit in shared.hits] == sorted((hit.fused for hit in shared.hits), reverse=True)


def test_hits_are_ranked_against_what_was_asked_not_what_was_searched(retriever: Retriever):
    retrieval = retriever.retrieve(
        [Query("graph policy rate", "residual needs memory")], SearchParams(passages=100), OPEN
    )
    assert retrieval.hits[0].chunk.id == "residual-4"


def test_a_hyde_passage_replaces_the_text_on_the_dense_side_only(retriever: Retriever):
    query = Query("adam", "adam", dense="Batch needs memory.")
    dense = SearchParams(passages=5, abstracts=0, alpha=1.0)
    assert retriever.pools([query], dense, OPEN)[0].hits[0].chunk.id == "batch-4"
    lexical = SearchParams(passages=5, abstracts=0, alpha=0.0)
    assert {hit.chunk.document for hit in retriever.pools([query], lexical, OPEN)[0].hits} == {"adam"}


def test_every_pool_has_its_slots(retriever: Retriever):
    queries = [plain("attention memory error images"), plain("word")]
    retrieval = retriever.retrieve(queries, SearchParams(), OPEN)
    assert [hit.chunk.document for hit in retrieval.hits[:4]] == ["attention", "word", "attention", "word"]
    assert len(retrieval.ranked) == 2


def test_the_question_itself_is_searched_where_the_numbers_say_so(retriever: Retriever):
    queries = [Query("graph rate", "graph rate", itself=True), plain("policy")]
    both = retriever.retrieve(queries, SearchParams(), OPEN)
    assert [pool.against for pool in both.pools] == ["graph rate", "policy"]
    assert both.hits[0].chunk.id == "graph-3"
    alone = retriever.retrieve(queries, SearchParams(question=False), OPEN)
    assert [pool.against for pool in alone.pools] == ["policy"]


def add(index: EmbeddedIndex, encoder: HashEncoder, name: str, title: str, text: str) -> None:
    chunk = Chunk(f"{name}-0", name, title, text)
    index.replace(Document(name, title, name), [chunk], *encode_passages(encoder, [passage_text(chunk)]))


def test_what_the_first_hits_name_is_followed_into_the_pool(
    retriever: Retriever, index: EmbeddedIndex, encoder: HashEncoder
):
    search, query = SearchParams(passages=5, abstracts=0, alpha=0.0), plain("Who played Corliss in Kiss and Tell?")
    add(index, encoder, "film", "Kiss and Tell (film)", "Corliss is played by Shirley Temple.")
    retriever.pools([query], search, OPEN)
    add(index, encoder, "star", "Shirley Temple", "An ambassador to Ghana.")  # shares no word with the question
    (pool,) = retriever.pools([query], search, OPEN)
    assert pool.hits[0].chunk.document == "film"
    assert [hit.chunk.document for hit in pool.hits].count("star") == 1
    assert (pool.hits[-1].chunk.document, pool.hits[-1].dense_rank, pool.hits[-1].lexical_rank) == ("star", 0, 0)
    (replayed,) = replay(retriever.candidates([query], OPEN), search, OPEN)
    assert replayed.hits == pool.hits
    assert retriever.retrieve([query], search, Params()).hits[1].chunk.document == "star"


def test_titles_are_read_again_when_the_library_changes_but_not_its_size(
    retriever: Retriever, index: EmbeddedIndex, encoder: HashEncoder
):
    search, query = SearchParams(passages=5, abstracts=0, alpha=0.0), plain("Who played Corliss in Kiss and Tell?")
    add(index, encoder, "film", "Kiss and Tell (film)", "Corliss is played by Shirley Temple.")
    add(index, encoder, "other", "Somebody else", "An ambassador to Ghana.")
    retriever.pools([query], search, OPEN)
    index.delete("other")
    add(index, encoder, "star", "Shirley Temple", "An ambassador to Ghana.")
    (pool,) = retriever.pools([query], search, OPEN)
    assert pool.hits[-1].chunk.document == "star"


def test_all_texts_are_encoded_in_one_batch(retriever: Retriever, encoder: HashEncoder):
    encoder.calls.clear()
    retriever.retrieve([Query("one", "asked"), Query("two", "asked", dense="three")], SearchParams(), Params())
    assert encoder.calls == [["one", "asked", "three"]]


def test_queries_are_searched_side_by_side(index: EmbeddedIndex, encoder: HashEncoder):
    asked: list[list[str]] = []

    class Watched(EmbeddedIndex):
        def search_all(self, searches: Sequence[Search]) -> list[list[Hit]]:
            asked.append([search.text for search in searches])
            return super().search_all(searches)

    index.close()
    watched = Watched.open(Path(index.location), encoder.fingerprint, encoder.dimensions)
    queries = [plain("attention memory"), plain("dropout rate"), plain("graph error")]
    search = SearchParams(passages=5, abstracts=2)
    together = Retriever(watched, encoder).pools(queries, search, OPEN)
    texts = [query.text for query in queries]
    assert [set(part) for part in asked] == [set(texts)]  # all that is asked of the index is asked at once
    assert sorted(asked[0]) == sorted(3 * texts)  # passages, abstracts, and what links are followed from
    alone = [Retriever(watched, encoder).pools([query], search, OPEN)[0] for query in queries]
    watched.close()
    assert [(pool.against, pool.hits) for pool in together] == [(pool.against, pool.hits) for pool in alone]
    for one, other in zip(together, alone, strict=True):
        assert (one.signals == other.signals).all()


def test_no_queries_and_an_empty_library(tmp_path: Path, encoder: HashEncoder, retriever: Retriever):
    assert retriever.retrieve([], SearchParams(), Params()).hits == ()
    index = EmbeddedIndex.open(tmp_path / "empty", encoder.fingerprint, encoder.dimensions, create=True)
    retrieval = Retriever(index, encoder, FixedReranker([1.0])).retrieve([plain("anything")], SearchParams(), Params())
    assert (retrieval.hits, retrieval.notes) == ((), ())
    index.close()


def test_the_cross_encoder_ranks_where_there_is_one(index: EmbeddedIndex, encoder: HashEncoder):
    retriever = Retriever(index, encoder, FixedReranker([0.0, 0.0, 50.0, 0.0, 0.0, 0.0, 0.0]))
    search = SearchParams(passages=5, abstracts=2)
    (pool,) = retriever.pools([plain("dropout")], search, OPEN)
    assert pool.with_cross_encoder
    assert pool.signals[:, SIGNALS.index("cross_encoder")].tolist() == [0, 0, 50, 0, 0, 0, 0]
    assert retriever.retrieve([plain("dropout")], search, OPEN).hits[0].chunk == pool.hits[2].chunk
    assert retriever.ranker == "fixed"


@pytest.mark.parametrize("logits", [[float("nan")], [1.0, float("nan")], [float("inf"), 0.0], [0.25]])
def test_unusable_scores_keep_the_fused_order_and_say_so(
    index: EmbeddedIndex, encoder: HashEncoder, logits: list[float]
):
    retriever = Retriever(index, encoder, FixedReranker(logits))
    retrieval = retriever.retrieve(
        [plain("dropout memory rate")], SearchParams(), OPEN.model_copy(update={"abstract_slots": 0})
    )
    (pool,) = retrieval.pools
    assert not pool.with_cross_encoder
    assert [hit.chunk.id for hit in retrieval.hits] == [hit.chunk.id for hit in pool.hits]
    assert len(retrieval.notes) == 1
    assert np.isfinite([hit.score for hit in retrieval.hits]).all()


QUERIES = [
    [plain("What rate has dropout?")],
    [Query("attention memory", "asked about adam"), Query("graph rate", "asked about adam")],
    [plain("word error"), plain("policy images")],
    [Query("residual", "residual", dense="A residual model lowers the error.")],
    [Query("graph rate", "graph rate", itself=True), plain("policy images")],
]


@pytest.mark.parametrize("queries", QUERIES)
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("fusion", ["ranked", "relative"])
@pytest.mark.parametrize(("passages", "abstracts", "question"), [(5, 0, True), (12, 3, False), (100, 25, True)])
def test_replaying_candidates_gives_what_searching_gives(
    index: EmbeddedIndex,
    encoder: HashEncoder,
    queries: list[Query],
    alpha: float,
    fusion: str,
    passages: int,
    abstracts: int,
    question: bool,
):
    search = SearchParams(passages=passages, abstracts=abstracts, alpha=alpha, fusion=fusion, question=question)
    for reranker in (None, FixedReranker([3.0])):
        retriever = Retriever(index, encoder, reranker)
        params = Params(rrf_k=20, title_weight=2.0, pinned=("graph",))
        searched = retriever.pools(queries, search, params)
        replayed = replay(retriever.candidates(queries, params), search, params)
        assert [pool.hits for pool in searched] == [pool.hits for pool in replayed]
        assert [pool.note for pool in searched] == [pool.note for pool in replayed]
        for one, other in zip(searched, replayed, strict=True):
            assert np.allclose(one.signals, other.signals, atol=1e-6)
        ids = [[hit.chunk.id for hit in rank_pools(pools, params).hits] for pools in (searched, replayed)]
        assert ids[0] == ids[1]
