"""Joining rankings, as pure functions: the two legs of a hybrid query, and the pools of several queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from program.types import Fusion, Hit

#: The constant of reciprocal rank fusion (Cormack, Clarke, Buettcher 2009).
RRF_K = 60


def fuse(dense_leg: Sequence[Hit], lexical_leg: Sequence[Hit], *, alpha: float, fusion: Fusion, k: int) -> list[Hit]:
    """The k best hits of two legs, best first, ties by chunk id; sets `dense_rank`, `lexical_rank` and `fused`.

    alpha weighs the dense leg, 1 - alpha the lexical one; a leg of weight 0 is not read at all.
    relative: each leg's scores scaled to [0, 1] over that leg (a leg whose scores are all equal gives 1), as Weaviate's
    relative-score fusion does. ranked: weight / (RRF_K + rank).
    """
    dense_leg = dense_leg if alpha > 0 else ()
    lexical_leg = lexical_leg if alpha < 1 else ()
    if fusion == "relative":
        dense_shares = _scaled([hit.dense for hit in dense_leg])
        lexical_shares = _scaled([hit.lexical for hit in lexical_leg])
    else:
        dense_shares = [1 / (RRF_K + rank) for rank in range(1, len(dense_leg) + 1)]
        lexical_shares = [1 / (RRF_K + rank) for rank in range(1, len(lexical_leg) + 1)]
    found = {hit.chunk.id: hit for leg in (dense_leg, lexical_leg) for hit in leg}
    dense_ranks = {hit.chunk.id: rank for rank, hit in enumerate(dense_leg, 1)}
    lexical_ranks = {hit.chunk.id: rank for rank, hit in enumerate(lexical_leg, 1)}
    scores = dict.fromkeys(found, 0.0)
    for leg, shares, weight in ((dense_leg, dense_shares, alpha), (lexical_leg, lexical_shares, 1 - alpha)):
        for hit, share in zip(leg, shares, strict=True):
            scores[hit.chunk.id] += weight * share
    return [
        replace(found[id], dense_rank=dense_ranks.get(id, 0), lexical_rank=lexical_ranks.get(id, 0), fused=scores[id])
        for id in sorted(found, key=lambda id: (-scores[id], id))[:k]
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


def _scaled(scores: Sequence[float]) -> list[float]:
    if not scores:
        return []
    low, high = min(scores), max(scores)
    return [(score - low) / (high - low) if high > low else 1.0 for score in scores]
