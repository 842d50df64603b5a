"""Every tunable number of the program, bounded: what `python -m optimize` writes and the program reads.

Defaults are the uncompiled program; a compiled artifact replaces them. The default rank weights without a cross-encoder
are fitted on six public sets (HotpotQA, 2WikiMultihopQA, SciFact, CLAPNQ, XQuAD in German and in Chinese), up to 250
questions of each, by `python bench/retrieval.py --fit`. Those with one are the same, set beside a cross-encoder's logit
by hand.
"""

from __future__ import annotations

from typing import get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from program.types import Fusion, Transform

#: The signals `rank` reads, in order. All but the first can always be had.
SIGNALS: tuple[str, ...] = (
    "cross_encoder",  # logit of the cross-encoder; 0 where there is none
    "late_interaction",  # MaxSim of the query's token vectors over the chunk's, mean per query token, [-1, 1]
    "dense",  # cosine, [-1, 1]
    "lexical",  # BM25 divided by the best BM25 of the pool, [0, 1]
    "dense_reciprocal",  # 1 / dense rank, 0 when not returned
    "lexical_reciprocal",  # 1 / lexical rank, 0 when not returned
    "fused_reciprocal",  # 1 / place in the fused pool
    "coverage",  # share of the question's idf mass found in title + text, [0, 1]
    "title",  # share of the question's idf mass found in the title, [0, 1]
    "named",  # 1 when the whole title stands in the question
    "neighbour",  # best late interaction of the pool's chunks within two places in the same document, 0 when none
    "linked",  # best late interaction of the pool's chunks of other documents that name this title, 0 when none
    "joint",  # coverage together with the best such chunk, or one whose title this text names; else its own
    "abstract",  # 1 for an abstract
)


class Bounded(BaseModel):
    """A frozen group of numbers that rejects unknown names and values out of bounds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SearchParams(Bounded):
    """How one transform's queries are searched."""

    passages: int = Field(50, ge=5, le=100)  # a second hop's passage seldom comes in the first 25
    abstracts: int = Field(5, ge=0, le=25)
    alpha: float = Field(0.4, ge=0.0, le=1.0)
    fusion: Fusion = "relative"
    question: bool = True  # beside queries that are ranked against other texts, the question has a pool of its own


class RankWeights(Bounded):
    """A logistic model over `SIGNALS`: probability = sigmoid(bias + weights . signals)."""

    bias: float
    weights: dict[str, float]

    @field_validator("weights")
    @classmethod
    def _are_of_signals(cls, weights: dict[str, float]) -> dict[str, float]:
        if unknown := sorted(set(weights) - set(SIGNALS)):
            raise ValueError(f"no such signal: {', '.join(unknown)}")
        return weights


def _default_search() -> dict[Transform, SearchParams]:
    return {name: SearchParams() for name in get_args(Transform)}


class Params(Bounded):
    """All numbers. Bars on scores are probabilities of the compiled ranker, in [0, 1]."""

    # search and fusion
    search: dict[Transform, SearchParams] = Field(default_factory=_default_search)
    title_weight: float = Field(1.0, ge=0.0, le=5.0)
    rrf_k: int = Field(60, ge=1, le=200)
    hyde: bool = False  # `clear` questions search with a hypothetical passage

    # ranking: one set of weights for each set of signals that can be had
    rank_with_cross_encoder: RankWeights = RankWeights(
        bias=-6.0,
        weights={
            "cross_encoder": 0.6,
            "late_interaction": 2.0,
            "dense": 2.5,
            "lexical": 1.0,
            "coverage": -1.5,
            "named": 1.0,
            "linked": 0.5,
            "joint": 4.0,
        },
    )
    rank_without_cross_encoder: RankWeights = RankWeights(
        bias=-10.77,
        weights={
            "late_interaction": 4.09,
            "dense": 4.21,
            "lexical": 1.28,
            "dense_reciprocal": 0.41,
            "lexical_reciprocal": 0.59,
            "fused_reciprocal": 1.28,
            "coverage": -3.29,
            "title": -2.73,
            "named": 1.59,
            "neighbour": 1.21,
            "linked": 1.69,
            "joint": 8.63,
        },
    )
    top_bar: float = Field(0.0005, ge=0.0, le=1.0)  # the first ten of the pool need this
    deep_bar: float = Field(0.0015, ge=0.0, le=1.0)  # the rest need this
    abstract_slots: int = Field(1, ge=0, le=3)
    pinned: tuple[str, ...] = Field((), max_length=5)  # documents whose best hit always keeps a place

    # evidence
    evidence_chunks: int = Field(6, ge=1, le=12)
    evidence_tokens: int = Field(500, ge=100, le=6000)  # of a clear question: quick to read
    evidence_tokens_many: int = Field(900, ge=100, le=6000)  # of all others: their answer is harder to find

    # decisions
    router_bar: float = Field(0.35, ge=0.0, le=1.0)  # the head decides from this probability on
    accept_bar: float = Field(0.07, ge=0.0, le=1.0)  # best score from which evidence is enough
    reject_bar: float = Field(0.005, ge=0.0, le=1.0)  # best score under which it is not
    support_bar: float = Field(0.5, ge=0.0, le=1.0)  # support from which a claim stands

    # bounds
    max_queries: int = Field(3, ge=1, le=6)  # sub-questions, or variants beside the question
    max_retrievals: int = Field(3, ge=1, le=5)  # the one loop's bound: hops of multi_hop
    max_corrections: int = Field(1, ge=0, le=2)  # retrievals after the first, for single
    drop_unsupported: bool = True  # else unsupported claims stay and are marked

    @field_validator("search")
    @classmethod
    def _is_complete(cls, search: dict[Transform, SearchParams]) -> dict[Transform, SearchParams]:
        if missing := sorted(set(get_args(Transform)) - set(search)):
            raise ValueError(f"no numbers for {', '.join(missing)}")
        return search

    def search_for(self, transform: Transform) -> SearchParams:
        return self.search[transform]
