"""Where the gold of a labelled question is: in chunks, in evidence, in rankings.

A `Case` is a labelled question with its queries and its candidates, taken once; everything the tuner tries is replayed
over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from optimize.labels import QuestionLabel
from program.errors import LabelError, ReadError
from program.ingest.quotes import contains_quote
from program.ingest.readers import read_document
from program.params import Params
from program.pipeline import AdaptiveRAG
from program.retrieval.retriever import Candidates, Retrieval, Retriever, rank_pools, replay
from program.types import Chunk, Evidence, Hit, Query, Route


@dataclass(frozen=True, slots=True)
class Case:
    """A question that retrieval is tuned on.

    asked: the question on its own, history folded in. candidates: by title weight. gold: chunk id to the places of the
    quotes it holds, for every candidate chunk that holds any.
    """

    label: QuestionLabel
    asked: str
    queries: tuple[Query, ...]
    candidates: Mapping[float, Candidates]
    gold: Mapping[str, frozenset[int]]


def take_case(
    retriever: Retriever, label: QuestionLabel, asked: str, queries: Sequence[Query], title_weights: Sequence[float]
) -> Case:
    """Search for a labelled question once, with every title weight."""
    taken = {
        weight: retriever.candidates(queries, Params.model_validate({"title_weight": weight}))
        for weight in title_weights
    }
    hits = (
        hit
        for candidates in taken.values()
        for legs in candidates.legs
        for leg in legs
        for hit in (*leg.dense, *leg.lexical)
    )
    chunks = {hit.chunk.id: hit.chunk for hit in hits}
    gold = {id: held for id, chunk in chunks.items() if (held := quotes_in(chunk, label))}
    return Case(label, asked, tuple(queries), taken, gold)


def retrieval_of(case: Case, params: Params) -> Retrieval:
    """What the program's first retrieval would come to under `params`, replayed."""
    search = params.search_for(case.label.transform)
    return rank_pools(replay(case.candidates[params.title_weight], search, params), params)


def quotes_in(chunk: Chunk, label: QuestionLabel) -> frozenset[int]:
    """Which of the label's quotes a chunk holds, by place."""
    return frozenset(
        place
        for place, gold in enumerate(label.quotes)
        if same_document(chunk.document, gold.document) and contains_quote(chunk.text, gold.quote)
    )


def quotes_in_texts(texts: Sequence[str], label: QuestionLabel) -> frozenset[int]:
    """Which of the label's quotes any of the texts holds, by place."""
    return frozenset(
        place for place, gold in enumerate(label.quotes) if any(contains_quote(text, gold.quote) for text in texts)
    )


def quotes_in_evidence(evidence: Sequence[Evidence], label: QuestionLabel) -> frozenset[int]:
    return quotes_in_texts([item.text for item in evidence], label)


def gold_ranks(
    hits: Sequence[Hit], label: QuestionLabel, gold: Mapping[str, frozenset[int]] | None = None
) -> list[int]:
    """For each quote the 1-based place of the first hit that holds it, or 0. `gold` saves reading the chunks again."""
    ranks = [0] * len(label.quotes)
    for place, hit in enumerate(hits, 1):
        held = quotes_in(hit.chunk, label) if gold is None else gold.get(hit.chunk.id, ())
        for quote in held:
            ranks[quote] = ranks[quote] or place
    return ranks


def pool_score(retrieval: Retrieval, *, hops: bool) -> float:
    """The score the grader's bars are held against: the weakest pool's best hit; for hops, the best of all."""
    scores = [max((hit.score for hit in hits), default=0.0) for hits in retrieval.ranked]
    return (max if hops else min)(scores, default=0.0)


def gold_route(label: QuestionLabel) -> Route:
    return Route(label.strategy, label.transform, "head", 1.0)


def evidence_of(program: AdaptiveRAG, label: QuestionLabel, asked: str, retrieval: Retrieval) -> tuple[Evidence, ...]:
    """The evidence the program would read after one retrieval on the label's own route."""
    return program.gather(asked, [retrieval], gold_route(label))


def same_document(name: str, labelled: str) -> bool:
    """Whether two names are of one document: the same path, or the same file name where one of them has no folder."""
    if name == labelled:
        return True
    first, second = PurePath(name), PurePath(labelled)
    return first.name == second.name and (len(first.parts) == 1 or len(second.parts) == 1)


class Documents:
    """The texts of a folder's documents, each read when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        """Raises LabelError when there is no such folder."""
        if not folder.is_dir():
            raise LabelError(f"There is no folder {folder} with the documents.", "Name it with --corpus.")
        self._files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        self._folder = folder
        self._found: dict[str, str | None] = {}

    def text(self, name: str) -> str | None:
        """None when there is no such document, or it cannot be read."""
        if name not in self._found:
            path = next((p for p in self._files if same_document(p.relative_to(self._folder).as_posix(), name)), None)
            try:
                self._found[name] = read_document(path.read_bytes(), path.name).text if path else None
            except ReadError:
                self._found[name] = None
        return self._found[name]
