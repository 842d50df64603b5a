"""What every index must do. Another engine joins by adding its way to open an empty index to `ENGINES`.

ATOMIC names the engines in which a change of a document is one step for readers. For the others the weaker contract is
asserted in the same place: a reader may see old and new chunks together, but never neither.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from program.errors import EncoderMismatch, LibraryError
from program.retrieval.analysis import query_terms, terms
from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.encoders import encode_passages, passage_text
from program.retrieval.fusion import fuse
from program.retrieval.index import Document, Filters, Index, Search
from program.retrieval.weaviate import WeaviateIndex, remove
from program.retrieval.weaviate_nodes import Address
from program.settings import Settings
from program.types import Chunk, ChunkKind, Fusion, Hit
from tests.fakes import HashEncoder

ENCODER = HashEncoder()
Opener = Callable[[Path, HashEncoder], Index]


def open_embedded(path: Path, encoder: HashEncoder, request: pytest.FixtureRequest) -> Index:
    return EmbeddedIndex.open(path, encoder.fingerprint, encoder.dimensions, create=True)


def open_weaviate(path: Path, encoder: HashEncoder, request: pytest.FixtureRequest) -> Index:
    settings: Settings = request.getfixturevalue("weaviate")
    name = f"Contract_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    address = Address.from_settings(settings.model_copy(update={"weaviate_collection": name}))
    index = WeaviateIndex.open(address, encoder.fingerprint, encoder.dimensions, create=True)
    request.addfinalizer(lambda: remove(address))
    return index


ENGINES = {"embedded": open_embedded, "weaviate": open_weaviate}
ATOMIC = {"embedded"}

TEXTS = {
    "attention": "The transformer relies on self-attention alone, with d_model = 512 and eight heads.",
    "dropout": "Dropout removes units at random while training, which lessens overfitting.",
    "gpt": "GPT-3 has many parameters and learns tasks from a few examples.",
    "adam": "Adam keeps running averages of gradients; its default step is 0.001.",
    "chinese": "卷积神经网络在图像识别中非常有效。",
    "letters": "The language C is older than R, and vitamin A is not a language.",
    "arxiv": "See arXiv 1706.03762 for the first description.",
}


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def opener(engine: str, request: pytest.FixtureRequest) -> Opener:
    return lambda path, encoder: ENGINES[engine](path, encoder, request)


@pytest.fixture
def empty(opener: Opener, tmp_path: Path) -> Iterator[Index]:
    index = opener(tmp_path / "index", ENCODER)
    yield index
    index.close()


@pytest.fixture
def library(empty: Index) -> Index:
    for name, text in TEXTS.items():
        put(empty, name, [text], year=2017 if name == "attention" else None, field="nlp" if name == "gpt" else "")
    return empty


def chunk(document: str, place: int, text: str, **more: object) -> Chunk:
    return Chunk(f"{document}-{place}", document, f"Article on {document}", text, position=place, **more)  # type: ignore[arg-type]


def put(
    index: Index, name: str, texts: list[str], kind: ChunkKind = "passage", year: int | None = None, field: str = ""
):
    chunks = [chunk(name, place, text, kind=kind, year=year, field=field) for place, text in enumerate(texts)]
    vectors, tokens = encode_passages(ENCODER, [passage_text(item) for item in chunks])
    index.replace(
        Document(name, name.title(), f"sha-{name}-{len(texts)}", field=field, year=year), chunks, vectors, tokens
    )


def find(
    index: Index, text: str, k: int = 5, alpha: float = 0.5, fusion: Fusion = "ranked", **more: object
) -> list[Hit]:
    return index.search(text, ENCODER.encode([text])[0], k=k, alpha=alpha, fusion=fusion, **more)  # type: ignore[arg-type]


def ids(hits: list[Hit]) -> list[str]:
    return [hit.chunk.id for hit in hits]


def test_chunks_come_back_as_they_were(library: Index):
    (hit,) = find(library, "self-attention transformer", k=1)
    assert hit.chunk == chunk("attention", 0, TEXTS["attention"], year=2017)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("fusion", ["ranked", "relative"])
def test_every_hit_carries_its_cosine_and_its_bm25_whichever_leg_found_it(library: Index, alpha: float, fusion: Fusion):
    text = "dropout and overfitting of GPT-3"
    vector = ENCODER.encode([text])[0]
    lexical = {hit.chunk.id: hit.lexical for hit in find(library, text, k=50, alpha=0.0)}
    assert set(lexical) >= {"dropout-0", "gpt-0"}
    hits = find(library, text, k=50, alpha=alpha, fusion=fusion)
    for hit in hits:
        assert hit.dense == pytest.approx(float(ENCODER.encode([passage_text(hit.chunk)])[0] @ vector), abs=1e-5)
        assert hit.lexical == pytest.approx(lexical.get(hit.chunk.id, 0.0))
    assert len(hits) == (len(lexical) if alpha == 0 else len(TEXTS))


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("fusion", ["ranked", "relative"])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_a_search_is_the_fusion_of_its_two_legs(library: Index, alpha: float, fusion: Fusion, k: int):
    text = "training with examples and gradients"
    dense, lexical = find(library, text, k=100, alpha=1.0), find(library, text, k=100, alpha=0.0)
    assert fuse(dense, lexical, alpha=alpha, fusion=fusion, k=k) == find(library, text, k, alpha, fusion)


def test_searches_side_by_side_find_what_each_finds_alone(library: Index, opener: Opener, tmp_path: Path):
    searches = [
        Search(text, ENCODER.encode([text])[0], k, alpha, "relative", filters, title_weight)
        for text in ("self-attention", "removes units", "gradients of C", "", "self-attention")
        for k, alpha in ((1, 0.0), (4, 0.4), (50, 1.0))
        for filters, title_weight in ((Filters(), 1.0), (Filters(document="gpt"), 0.0))
    ]
    together = library.search_all(searches)
    library.close()
    other = opener(tmp_path / "index", ENCODER)  # which remembers nothing of the first
    assert together == [other.search_all([search])[0] for search in searches]
    assert other.search_all([]) == []
    other.close()


def test_legs_say_who_found_a_hit(library: Index):
    assert all(hit.dense_rank == 0 and hit.lexical_rank for hit in find(library, "gradients", alpha=0.0))
    assert all(hit.lexical_rank == 0 and hit.dense_rank for hit in find(library, "gradients", alpha=1.0))


K1, B = 1.2, 0.75


def bm25_as_stated(chunks: list[Chunk], query: str, title_weight: float) -> dict[str, float]:
    """The score that every engine gives, in the words of its definition: sum over fields and terms of
    weight idf f / (f + k1 (1 - b + b length / mean length)), the mean over the chunks that have the field at all,
    idf = ln(1 + (N - n + 0.5) / (n + 0.5)), n the mean (rounded down) of the term's document frequencies in the fields
    in which it occurs."""
    fields = [
        (1.0, {item.id: terms(item.text) for item in chunks}),
        (title_weight, {item.id: terms(item.title) for item in chunks}),
    ]
    scores: dict[str, float] = dict.fromkeys((item.id for item in chunks), 0.0)
    for term in query_terms(query):
        frequencies = [sum(term in words for words in texts.values()) for _, texts in fields]
        n = sum(frequencies) // max(sum(frequency > 0 for frequency in frequencies), 1)
        idf = math.log(1 + (len(chunks) - n + 0.5) / (n + 0.5))
        for weight, texts in fields:
            lengths = [len(words) for words in texts.values() if words]
            for id, words in texts.items():
                if f := words.count(term):
                    mean = sum(lengths) / len(lengths)
                    scores[id] += weight * idf * f / (f + K1 * (1 - B + B * len(words) / mean))
    return {id: score for id, score in scores.items() if score > 0}


def random_chunks(seed: int, documents: int) -> list[list[Chunk]]:
    """Some documents of one to four chunks, of few different words and unequal lengths; some without a title."""
    generator = np.random.default_rng(seed)
    words = [f"word{number}" for number in range(40)]

    def text(least: int, most: int) -> str:
        return " ".join(generator.choice(words, size=generator.integers(least, most)))

    return [
        [Chunk(f"d{d:02}-{place}", f"d{d:02}", text(0, 5), text(4, 30)) for place in range(generator.integers(1, 5))]
        for d in range(documents)
    ]


def put_chunks(index: Index, chunks: list[Chunk]) -> None:
    vectors, tokens = encode_passages(ENCODER, [passage_text(item) for item in chunks])
    index.replace(Document(chunks[0].document, "", ""), chunks, vectors, tokens)


@pytest.mark.parametrize("title_weight", [0.0, 1.0, 2.5])
def test_the_lexical_score_is_the_one_stated(empty: Index, title_weight: float):
    """After adding, and after replacing and deleting, which must leave no trace in lengths and frequencies."""
    held = {chunks[0].document: chunks for chunks in random_chunks(1, 20)}
    for chunks in held.values():
        put_chunks(empty, chunks)
    for changed in (False, True):
        if changed:
            for chunks in random_chunks(2, 6):
                put_chunks(empty, chunks)
                held[chunks[0].document] = chunks
            for name in ("d05", "d11"):
                empty.delete(name)
                del held[name]
        now = [item for chunks in held.values() for item in chunks]
        for query in ("word1", "word2 word3 word3", "word10 and word7 word21 word33", "word4 absent"):
            expected = bm25_as_stated(now, query, title_weight)
            found = find(empty, query, k=100, alpha=0.0, title_weight=title_weight)
            assert {hit.chunk.id: hit.lexical for hit in found} == pytest.approx(expected, rel=1e-4)
            assert ids(found) == sorted(ids(found), key=lambda id: (-round(expected[id], 4), id))


def test_the_lexical_score_agrees_with_another_bm25(empty: Index):
    """With rank-bm25, for each word alone and up to the inverse document frequency, of which it has another notion."""
    chunks = [replace(chunk, title="") for chunks in random_chunks(3, 20) for chunk in chunks]
    for name in {item.document for item in chunks}:
        put_chunks(empty, [item for item in chunks if item.document == name])
    oracle = BM25Okapi([terms(item.text) for item in chunks], k1=K1, b=B)
    for word in ("word1", "word10", "word39"):
        having = sum(word in terms(item.text) for item in chunks)
        idf = math.log(1 + (len(chunks) - having + 0.5) / (having + 0.5))
        scores = oracle.get_scores([word]) / oracle.idf[word] / (K1 + 1) * idf
        expected = {item.id: score for item, score in zip(chunks, scores, strict=True) if score}
        found = {hit.chunk.id: hit.lexical for hit in find(empty, word, k=100, alpha=0.0)}
        assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("GPT3", "gpt"),
        ("gpt 3", "gpt"),
        ("ＧＰＴ－３", "gpt"),
        ("1706.03762", "arxiv"),
        ("0.001", "adam"),
        ("dmodel", "attention"),
        ("self attention", "attention"),
        ("C", "letters"),
        ("vitamin A", "letters"),
        ("神经网络", "chinese"),
        ("图像识别有什么用？", "chinese"),
    ],
)
def test_words_are_found_however_they_are_written(library: Index, text: str, document: str):
    assert ids(find(library, text, alpha=0.0))[0] == f"{document}-0"


@pytest.mark.parametrize("text", ["", "   ", "?!", "xyzzy", '"', "***", "\x00"])
def test_a_question_without_known_words_has_no_lexical_hits_but_dense_ones(library: Index, text: str):
    assert find(library, text, alpha=0.0) == []
    assert len(find(library, text, alpha=0.5, k=3)) == 3


def test_stop_words_alone_find_only_chunks_that_hold_them(library: Index):
    hits = find(library, "what is it with these", k=50, alpha=0.0)
    assert hits
    assert all(hit.lexical > 0 and {"is", "it", "with"} & set(terms(hit.chunk.text)) for hit in hits)


SYNTAX = (
    'dropout" OR "adam', "title: dropout", "dropout NEAR adam", "NOT dropout", "dropout*", "(dropout",
    "drop'out; --", "^dropout + -",
)  # fmt: skip


@pytest.mark.parametrize("text", SYNTAX)
def test_query_syntax_is_only_words(library: Index, text: str):
    assert isinstance(find(library, text), list)
    assert find(library, f"{text} zzz dropout", alpha=0.0)[0].lexical > 0


def test_a_very_long_question_is_answered(library: Index):
    text = " ".join(f"filler{number}" for number in range(5000)) + " " + " ".join(TEXTS.values()) + " dropout units"
    assert len(find(library, text, k=3)) == 3
    assert "dropout-0" in ids(find(library, text, alpha=0.0))


def test_k_may_exceed_the_corpus_and_an_empty_index_finds_nothing(library: Index, opener: Opener, tmp_path: Path):
    assert len(find(library, "dropout", k=1000)) == len(TEXTS)
    other = opener(tmp_path / "other", ENCODER)
    assert find(other, "dropout") == []
    assert (len(other), other.documents(), other.token_vectors(["x"])) == (0, [], {})
    other.close()


def test_ties_break_by_chunk_id(empty: Index):
    for name in ("b", "c", "a"):
        item = Chunk(f"id-{name}", name, "", "the very same words")
        vectors, tokens = encode_passages(ENCODER, [item.text])
        empty.replace(Document(name, "", ""), [item], vectors, tokens)
    for alpha in (0.0, 0.5, 1.0):
        assert ids(find(empty, "same words", k=2, alpha=alpha)) == ["id-a", "id-b"]


def test_filters(library: Index):
    put(library, "summary", ["A summary about dropout."], kind="abstract")
    assert ids(find(library, "dropout", filters=Filters(kind="abstract"))) == ["summary-0"]
    assert ids(find(library, "dropout", filters=Filters(document="adam"))) == ["adam-0"]
    assert ids(find(library, "dropout", filters=Filters(year=2017))) == ["attention-0"]
    assert ids(find(library, "dropout", filters=Filters(field="nlp", kind="passage"))) == ["gpt-0"]
    assert find(library, "dropout", filters=Filters(year=1900)) == []


def test_titles_are_searched_and_weighted(empty: Index):
    for name, title, text in (("t", "Residual networks", "Some words."), ("b", "Other", "Residual networks help.")):
        item = Chunk(name, name, title, text)
        vectors, tokens = encode_passages(ENCODER, [passage_text(item)])
        empty.replace(Document(name, title, ""), [item], vectors, tokens)
    light, heavy = (find(empty, "residual networks", alpha=0.0, title_weight=weight) for weight in (0.2, 5.0))
    assert (ids(light)[0], ids(heavy)[0]) == ("b", "t")
    assert ids(find(empty, "residual networks", alpha=0.0, title_weight=0.0)) == ["b"]


def test_replacing_changes_both_sides_at_once(library: Index):
    put(library, "dropout", ["Batch normalisation steadies training.", "It also adds noise."])
    assert "dropout-0" not in ids(find(library, "overfitting", alpha=0.0))
    assert ids(find(library, "Article on dropout batch normalisation steadies training", k=1, alpha=1.0)) == [
        "dropout-0"
    ]
    assert ids(find(library, "noise", alpha=0.0)) == ["dropout-1"]
    assert len(library) == len(TEXTS) + 1
    assert {item.name: item.chunks for item in library.documents()}["dropout"] == 2


def test_writing_twice_changes_nothing(library: Index):
    before = find(library, "dropout training", k=50)
    put(library, "dropout", [TEXTS["dropout"]])
    assert find(library, "dropout training", k=50) == before


def test_a_replacement_that_fails_leaves_the_old_document(library: Index):
    before = find(library, "dropout", k=50), library.documents()
    twin = chunk("dropout", 0, "first"), chunk("dropout", 0, "second, under the same id")
    vectors, tokens = encode_passages(ENCODER, ["first", "second"])
    with pytest.raises(LibraryError, match=r"\w"):
        library.replace(Document("dropout", "", "other"), twin, vectors, tokens)
    assert (find(library, "dropout", k=50), library.documents()) == before


@pytest.mark.parametrize("fault", ["rows", "width", "tokens", "nan"])
def test_vectors_that_do_not_fit_are_refused(library: Index, fault: str):
    vectors, tokens = encode_passages(ENCODER, ["one"])
    if fault == "rows":
        vectors = np.concatenate([vectors, vectors])
    elif fault == "width":
        vectors = vectors[:, :-1]
    elif fault == "tokens":
        tokens = [tokens[0][:, :-1]]
    else:
        vectors = vectors * np.float32("nan")
    with pytest.raises(ValueError, match=r"vectors"):
        library.replace(Document("new", "", ""), [chunk("new", 0, "one")], vectors, tokens)
    assert len(library) == len(TEXTS)


def test_a_search_while_the_first_document_is_written_finds_old_or_new(empty: Index):
    found: list[list[Hit]] = []

    class Asked(list[np.ndarray]):
        def __iter__(self) -> Iterator[np.ndarray]:
            for place, vector in enumerate(super().__iter__()):
                if place % 40 == 0:
                    found.append(find(empty, "zeppelin", k=500, alpha=0.0))
                yield vector

    texts = [f"zeppelin {place}" for place in range(250)]
    chunks = [chunk("ship", place, text) for place, text in enumerate(texts)]
    vectors, tokens = encode_passages(ENCODER, texts)
    empty.replace(Document("ship", "Ship", "sha"), chunks, Asked(vectors), tokens)
    assert len(found) > 1
    assert all(hit.lexical > 0 for hits in found for hit in hits)
    assert len(find(empty, "zeppelin", k=500, alpha=0.0)) == 250


def test_deleting(library: Index):
    assert library.delete("gpt")
    assert not library.delete("gpt")
    assert find(library, "GPT-3", alpha=0.0) == []
    assert "gpt-0" not in ids(find(library, "GPT-3", k=50))
    assert [item.name for item in library.documents()] == sorted(set(TEXTS) - {"gpt"})


def renamed(index: Index, old: str, new: str) -> None:
    (document,) = (item for item in index.documents() if item.name == old)
    index.rename(old, replace(document, name=new), lambda c: f"{c.document}-{c.position}")


def test_renaming_keeps_everything_but_name_and_ids(library: Index):
    put(library, "dropout", [TEXTS["dropout"], "It also adds noise."])
    before = find(library, "dropout", k=50)
    vectors, tokens = library.vectors(["dropout-0"]), library.token_vectors(["dropout-1"])
    renamed(library, "dropout", "other")

    def under_its_new_name(hit: Hit) -> Hit:
        if hit.chunk.document != "dropout":
            return hit
        new = replace(hit.chunk, document="other", id=hit.chunk.id.replace("dropout", "other"))
        return replace(hit, chunk=new)

    assert find(library, "dropout", k=50) == [under_its_new_name(hit) for hit in before]
    assert (library.vectors(["other-0"])["other-0"] == vectors["dropout-0"]).all()
    assert (library.token_vectors(["other-1"])["other-1"] == tokens["dropout-1"]).all()
    assert library.vectors(["dropout-0"]) == library.token_vectors(["dropout-1"]) == {}
    assert {item.name: item.chunks for item in library.documents()}["other"] == 2
    assert not library.delete("dropout")


def test_a_document_of_the_new_name_goes(library: Index):
    renamed(library, "dropout", "gpt")
    assert find(library, "GPT-3 parameters", alpha=0.0) == []
    assert ids(find(library, "overfitting", alpha=0.0)) == ["gpt-0"]
    assert len(library) == len(library.documents()) == len(TEXTS) - 1


def test_renaming_to_the_same_name_changes_what_is_known_of_the_file(library: Index):
    before = find(library, "dropout", k=50)
    (document,) = (item for item in library.documents() if item.name == "dropout")
    library.rename("dropout", replace(document, path="/new/place", stamp="x", chunks=99), lambda c: c.id)
    assert find(library, "dropout", k=50) == before
    assert replace(document, path="/new/place", stamp="x") in library.documents()


def test_renaming_what_is_not_there_changes_nothing(library: Index):
    before = library.documents()
    for name, new in (("absent", "dropout"), ("absent", "absent")):
        with pytest.raises(LibraryError, match="absent"):
            library.rename(name, Document(new, "", ""), lambda c: c.id)
    assert library.documents() == before


def test_vectors_may_come_one_by_one(library: Index):
    """Each is asked for once, in order, so that they need not all be in memory."""

    class Asked(list[np.ndarray]):
        def __iter__(self):
            for place in range(len(self)):
                asked.append(place)
                yield self[place]

    asked: list[int] = []
    chunks = [chunk("new", place, text) for place, text in enumerate(("zeppelin one", "zeppelin two"))]
    vectors, tokens = encode_passages(ENCODER, [passage_text(item) for item in chunks])
    library.replace(Document("new", "", ""), chunks, Asked(vectors), Asked(tokens))
    assert asked == [0, 0, 1, 1]
    assert ids(find(library, "zeppelin", alpha=0.0)) == ["new-0", "new-1"]
    assert np.allclose(library.vectors(["new-1"])["new-1"], vectors[1])


def test_a_document_without_chunks_is_remembered(empty: Index):
    put(empty, "nothing", ["text"])
    empty.replace(Document("nothing", "", "new"), [], np.zeros((0, ENCODER.dimensions), np.float32), [])
    assert (len(empty), [item.sha256 for item in empty.documents()]) == (0, ["new"])


def test_vectors_and_token_vectors_come_back(library: Index):
    vectors, tokens = encode_passages(ENCODER, [passage_text(chunk("gpt", 0, TEXTS["gpt"]))])
    assert np.allclose(library.vectors(["gpt-0", "unknown"])["gpt-0"], vectors[0])
    found = library.token_vectors(["gpt-0", "unknown"])
    assert list(found) == ["gpt-0"]
    assert found["gpt-0"].dtype == np.uint8
    assert (found["gpt-0"] == tokens[0]).all()


def test_the_generation_is_another_after_every_change(library: Index):
    seen = [library.generation()]
    changes: list[Callable[[], object]] = [
        lambda: put(library, "new", ["A zeppelin rose."]),
        lambda: put(library, "new", ["A zeppelin fell."]),
        lambda: library.rename("new", replace(library.documents()[0], name="newer"), lambda item: f"renamed-{item.id}"),
        lambda: library.delete("gpt"),
    ]
    for change in changes:
        change()
        assert library.generation() == library.generation() not in seen
        seen.append(library.generation())


def test_a_closed_index_is_a_library_error(library: Index):
    library.close()
    for asked in (lambda: len(library), lambda: find(library, "zeppelin"), library.documents, library.generation):
        with pytest.raises(LibraryError):
            asked()
    library.close()


def test_inverse_document_frequency(library: Index):
    idf = library.inverse_document_frequency(["article", "dropout", "unknown"])
    assert idf["dropout"] == pytest.approx(np.log(1 + (7 - 1 + 0.5) / 1.5))
    assert 0 < idf["article"] < idf["dropout"] < idf["unknown"]


def test_what_is_written_is_there_after_reopening(library: Index, opener: Opener, tmp_path: Path):
    before = find(library, "dropout training", k=50), library.documents()
    library.close()
    again = opener(tmp_path / "index", ENCODER)
    assert (find(again, "dropout training", k=50), again.documents()) == before
    assert again.encoder == ENCODER.fingerprint
    again.close()


def test_another_encoder_is_refused(library: Index, opener: Opener, tmp_path: Path):
    with pytest.raises(EncoderMismatch, match="hash-64"):
        opener(tmp_path / "index", HashEncoder(fingerprint="other"))


def test_a_second_reader_sees_the_writer_s_commits(library: Index, opener: Opener, tmp_path: Path):
    reader = opener(tmp_path / "index", ENCODER)
    assert find(reader, "zeppelin", alpha=0.0) == []
    put(library, "new", ["A zeppelin rose."])
    assert ids(find(reader, "zeppelin", alpha=0.0)) == ["new-0"]
    assert ids(find(reader, "Article on new A zeppelin rose", k=1, alpha=1.0)) == ["new-0"]
    reader.close()


def test_readers_in_other_threads_see_all_of_a_document_or_nothing_of_it(library: Index, engine: str):
    """Versions of one document alternate between one and three chunks; a search must see a whole version. Where a
    change is not one step, it may see chunks of both, but once the document is there, never none of it."""
    versions = [["zeppelin one"], ["zeppelin two", "zeppelin two again", "zeppelin two still"]]
    seen: list[tuple[str, ...]] = []
    failures: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                for alpha in (0.0, 1.0):
                    hits = find(library, "zeppelin", k=50, alpha=alpha, filters=Filters(document="ship"))
                    seen.append(tuple(sorted(hit.chunk.text for hit in hits)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    put(library, "ship", versions[1])
    for thread in threads:
        thread.start()
    for turn in range(10):
        put(library, "ship", versions[turn % 2])
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert seen
    if engine in ATOMIC:
        assert set(seen) <= {tuple(sorted(version)) for version in versions}
    else:
        assert all(found and set(found) <= {*versions[0], *versions[1]} for found in seen)
