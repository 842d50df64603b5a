"""Joining rankings, as pure functions: the two legs of a hybrid query, and the pools of several queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from program.types import Fusion, Hit

#: The constant of reciprocal rank fusion (Cormack, Clarke, Buettcher 2009).
RRF_K = 60


class Fused(NamedTuple):
    """Where a fusion puts a chunk: its id, its fused score, and its place in each leg (from 1; 0 when not there)."""

    id: str
    score: float
    dense_rank: int
    lexical_rank: int


#: Chunk id and score, best first.
Leg = Sequence[tuple[str, float]]


def fuse_legs(dense_leg: Leg, lexical_leg: Leg, *, alpha: float, fusion: Fusion, k: int) -> list[Fused]:
    """The k best of two legs, best first, ties by chunk id.

    alpha weighs the dense leg, 1 - alpha the lexical one; a leg of weight 0 is not read at all.
    relative: each leg's scores scaled to [0, 1] over that leg (a leg whose scores are all equal gives 1), as Weaviate's
    relative-score fusion does. ranked: weight / (RRF_K + rank).
    """
    legs = (dense_leg if alpha > 0 else (), lexical_leg if alpha < 1 else ())
    scores: dict[str, float] = {}
    for leg, weight in zip(legs, (alpha, 1 - alpha), strict=True):
        shares = _scaled([score for _, score in leg]) if fusion == "relative" else _reciprocal(len(leg))
        for (id, _), share in zip(leg, shares, strict=True):
            scores[id] = scores.get(id, 0.0) + weight * share
    dense_ranks, lexical_ranks = ({id: rank for rank, (id, _) in enumerate(leg, 1)} for leg in legs)
    best = sorted((-score, id) for id, score in scores.items())[:k]
    return [Fused(id, -score, dense_ranks.get(id, 0), lexical_ranks.get(id, 0)) for score, id in best]


def fuse(dense_leg: Sequence[Hit], lexical_leg: Sequence[Hit], *, alpha: float, fusion: Fusion, k: int) -> list[Hit]:
    """`fuse_legs` of hits; sets their `dense_rank`, `lexical_rank` and `fused`."""
    dense = [(hit.chunk.id, hit.dense) for hit in dense_leg]
    lexical = [(hit.chunk.id, hit.lexical) for hit in lexical_leg]
    found = {hit.chunk.id: hit for leg in (dense_leg, lexical_leg) for hit in leg}
    return [
        replace(found[id], dense_rank=dense_rank, lexical_rank=lexical_rank, fused=score)
        for id, score, dense_rank, lexical_rank in fuse_legs(dense, lexical, alpha=alpha, fusion=fusion, k=k)
    ]


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Hit]], k: int = RRF_K) -> list[Hit]:
    """All hits of several rankings by their sum of 1 / (k + rank), best first, ties by chunk id; sets `fused` to that
    sum. A hit found more than once keeps its best scores and its best ranks."""
    joined: dict[str, Hit] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, 1):
            known = joined.get(hit.chunk.id)
            share = 1 / (k + rank)
            joined[hit.chunk.id] = _merge(known, hit, share) if known else replace(hit, fused=share)
    return sorted(joined.values(), key=lambda hit: (-hit.fused, hit.chunk.id))


def _merge(first: Hit, second: Hit, share: float) -> Hit:
    return replace(
        first,
        dense=max(first.dense, second.dense),
        lexical=max(first.lexical, second.lexical),
        dense_rank=_best_rank(first.dense_rank, second.dense_rank),
        lexical_rank=_best_rank(first.lexical_rank, second.lexical_rank),
        fused=first.fused + share,
    )


def _best_rank(first: int, second: int) -> int:
    return min(first, second) if first and second else first or second


def _reciprocal(length: int) -> list[float]:
    return [1 / (RRF_K + rank) for rank in range(1, length + 1)]


def _scaled(scores: Sequence[float]) -> list[float]:
    if not scores:
        return []
    low, high = min(scores), max(scores)
    return [(score - low) / (high - low) if high > low else 1.0 for score in scores]
