"""Asks a program labelled questions and records what each answer is worth and what it cost."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np

from optimize.gold import gold_ranks, quotes_in_texts
from optimize.labels import QuestionLabel, RoutingLabel
from optimize.metrics import (
    Interval,
    all_gold,
    answer_is_right,
    bootstrap_interval,
    quotes_overlap,
    recall_at_k,
    reciprocal_rank,
    refusal_scores,
)
from program.params import Params, SearchParams
from program.pipeline import AdaptiveRAG
from program.retrieval.retriever import Retrieval, Retriever
from program.types import Answer, Query

Label = TypeVar("Label", bound=RoutingLabel)

CHUNKS, TOKENS = 6, 1200  # what counts as the final evidence, at most


@dataclass(frozen=True, slots=True)
class Record:
    """One answered question. Shares are None where there was nothing to count (no gold, no citation, no claim)."""

    id: str
    gold_route: str
    route: str
    decided_by: str
    answerable: bool
    refused: bool
    right: bool
    pool_recall: float | None
    recall: float | None
    all_gold: float | None
    reciprocal_rank: float | None
    citation_precision: float | None
    faithfulness: float | None
    calls: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    seconds: float
    first_token_seconds: float | None
    fallback: bool = False
    claims: list[tuple[str, float]] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class Watched(Retriever):
    """A retriever that keeps what it found, so that gold can be looked for in the chunks themselves."""

    def __init__(self, retriever: Retriever) -> None:
        super().__init__(retriever.index, retriever.encoder, retriever.reranker)
        self.seen: list[Retrieval] = []

    def retrieve(self, queries: Sequence[Query], search: SearchParams, params: Params) -> Retrieval:
        found = super().retrieve(queries, search, params)
        self.seen.append(found)
        return found


@contextmanager
def watching(program: AdaptiveRAG) -> Iterator[Watched]:
    """The program's retriever, watched, while inside."""
    before = program.retriever
    program.retriever = watched = Watched(before)
    try:
        yield watched
    finally:
        program.retriever = before


def observe(program: AdaptiveRAG, label: QuestionLabel) -> tuple[Record, Answer, list[Retrieval]]:
    """Ask one question with its history."""
    with watching(program) as watched:
        answer = program(label.question, label.turns)
    return record_of(label, answer, watched.seen, program.params.evidence_chunks), answer, watched.seen


def record_of(label: QuestionLabel, answer: Answer, seen: Sequence[Retrieval], k: int) -> Record:
    """What an answer is worth against its label. k: how many of the ranked hits evidence is made from."""
    pool = [hit.chunk for item in seen for one in item.pools for hit in one.hits]
    ranked = [gold_ranks(item.hits, label) for item in seen]
    evidence = quotes_in_texts(answer.contexts, label)
    share = len(evidence) / len(label.quotes) if label.quotes else None
    best = [min((r for r in ranks if r), default=0) for ranks in zip(*ranked, strict=True)] if ranked else []
    return Record(
        id=label.id,
        gold_route=label.label,
        route=answer.route.label,
        decided_by=answer.route.decided_by,
        answerable=label.answerable,
        refused=answer.refused,
        right=answer.refused if not label.answerable else is_right(label, answer),
        pool_recall=len(quotes_in_texts([c.text for c in pool], label)) / len(label.quotes) if label.quotes else None,
        recall=recall_at_k(best, k) if best else (0.0 if label.quotes else None),
        all_gold=None if share is None else float(share == 1),
        reciprocal_rank=reciprocal_rank(best) if label.quotes else None,
        citation_precision=_citation_precision(label, answer),
        faithfulness=_faithfulness(answer),
        calls=answer.usage.calls,
        prompt_tokens=answer.usage.prompt_tokens,
        cached_tokens=answer.usage.cached_tokens,
        completion_tokens=answer.usage.completion_tokens,
        seconds=answer.seconds,
        first_token_seconds=answer.first_token_seconds,
        fallback=answer.route.decided_by == "fallback" or any("error" in e.detail for e in answer.trace.of("note")),
        claims=[(claim.text, claim.support) for claim in answer.claims if claim.status == "supported"],
    )


def is_right(label: QuestionLabel, answer: Answer) -> bool:
    """Whether an answer to an answerable question states the right fact."""
    return not answer.refused and answer_is_right(answer.text, label.answers)


def sample(labels: Sequence[Label], n: int, seed: int) -> list[Label]:
    """n questions, every kind (route, answerable or not, follow-up or not) in turn, in a seeded order."""
    kinds: dict[tuple[str, bool, bool], list[Label]] = {}
    for label in labels:
        answerable = label.answerable if isinstance(label, QuestionLabel) else True
        kinds.setdefault((label.label, answerable, bool(label.history)), []).append(label)
    dice = random.Random(seed)
    for group in kinds.values():
        dice.shuffle(group)
    # Kinds with more questions come first, and come up again, so that a small sample looks like the whole.
    order = sorted(
        ((place + 0.5) / len(group), -len(group), group[place].id, group[place])
        for group in kinds.values()
        for place in range(len(group))
    )
    chosen = {item[2] for item in order[:n]}
    return [label for label in labels if label.id in chosen]


def run_over(
    program: AdaptiveRAG, labels: Sequence[QuestionLabel], step: Callable[[], None] = lambda: None
) -> list[Record]:
    """Records of all questions, in order."""
    records = []
    for label in labels:
        records.append(observe(program, label)[0])
        step()
    return records


def summary(records: Sequence[Record], seed: int = 0) -> dict[str, Any]:
    """All scores with their n and 95% intervals, JSON-able. `right` counts a due refusal as right."""

    def mean(values: Sequence[float | bool | None]) -> dict[str, float | int]:
        return _rounded(bootstrap_interval([float(value) for value in values if value is not None], seed))

    refusals = refusal_scores([r.refused for r in records], [r.answerable for r in records])
    return {
        "n": len(records),
        "right": mean([r.right for r in records]),
        "right_answerable": mean([r.right for r in records if r.answerable]),
        "citation_precision": mean([r.citation_precision for r in records]),
        "faithfulness": mean([r.faithfulness for r in records]),
        "refusal_precision": refusals.precision,
        "refusal_recall": refusals.recall,
        "routing": mean([r.route == r.gold_route for r in records]),
        "pool_recall": mean([r.pool_recall for r in records]),
        "recall_at_k": mean([r.recall for r in records]),
        "all_gold_evidence": mean([r.all_gold for r in records]),
        "mrr": mean([r.reciprocal_rank for r in records]),
        "calls": mean([r.calls for r in records]),
        "tokens": mean([r.tokens for r in records]),
        "uncached_prompt_tokens": mean([r.prompt_tokens - r.cached_tokens for r in records]),
        "seconds": mean([r.seconds for r in records]),
        "first_sentence_seconds": mean([r.first_token_seconds for r in records]),
        "fallbacks": sum(r.fallback for r in records),
    }


def cost_per_route(records: Sequence[Record]) -> dict[str, dict[str, float | int]]:
    """For every route taken: questions, and the mean calls, tokens and seconds of one."""
    routes = sorted({record.route for record in records})
    groups = {route: [record for record in records if record.route == route] for route in routes}
    return {
        route: {
            "n": len(group),
            "right": sum(r.right for r in group),
            "calls": round(float(np.mean([r.calls for r in group])), 2),
            "tokens": round(float(np.mean([r.tokens for r in group])), 1),
            "seconds": round(float(np.mean([r.seconds for r in group])), 2),
        }
        for route, group in groups.items()
    }


def to_json(records: Sequence[Record]) -> list[dict[str, Any]]:
    return [asdict(record) for record in records]


def from_json(values: Sequence[Mapping[str, Any]]) -> list[Record]:
    return [Record(**{**value, "claims": [(t, s) for t, s in value["claims"]]}) for value in values]


def _citation_precision(label: QuestionLabel, answer: Answer) -> float | None:
    """Share of citations whose quote is a gold passage, or states the answer itself."""
    if not label.answerable or not answer.citations:
        return None
    good = [
        any(quotes_overlap(citation.quote, gold.quote) for gold in label.quotes)
        or answer_is_right(citation.quote, label.answers)
        for citation in answer.citations
    ]
    return sum(good) / len(good)


def _faithfulness(answer: Answer) -> float | None:
    """Share of written claims that the evidence supports; dropped ones count against it."""
    events = answer.trace.of("synthesize")
    dropped = sum(int(event.detail.get("dropped", 0)) for event in events)
    supported = sum(claim.status in ("supported", "recited", "quoted") for claim in answer.claims)
    unsupported = sum(claim.status == "unsupported" for claim in answer.claims)
    total = supported + unsupported + dropped
    return supported / total if total else None


def _rounded(interval: Interval) -> dict[str, float | int]:
    if not interval.n:
        return {"n": 0}
    return {
        "mean": round(interval.mean, 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "n": interval.n,
    }


def all_found(label: QuestionLabel, texts: Sequence[str]) -> bool:
    """Whether every gold quote stands in one of the texts."""
    return bool(label.quotes) and all_gold(
        [1 if q in quotes_in_texts(texts, label) else 0 for q in range(len(label.quotes))], 1
    )
