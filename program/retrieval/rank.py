"""The compiled ranker: a logistic model over named signals, one pure function for the pipeline and the tuner alike.

Most signals are of a chunk on its own; `neighbour`, `linked` and `joint` are of a chunk among the others of its pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from program.params import SIGNALS, Params, RankWeights
from program.types import Hit

#: Places of the fused pool that are held to `top_bar`; the rest are held to `deep_bar`.
TOP = 10

#: Places in a document from a chunk to those it may share its subject with.
_NEIGHBOURS = (-2, -1, 1, 2)


@dataclass(frozen=True, slots=True)
class Features:
    """What is known of one chunk against one question, however it was found. See `params.SIGNALS` for the meanings.

    covered: those of the question's terms that title or text hold, with their shares of the question's idf mass.
    names: ids of the chunks of other documents whose titles the text names. cross_encoder: None where there is none.
    """

    late_interaction: float
    dense: float
    covered: Mapping[str, float]
    title: float = 0.0
    named: bool = False
    names: frozenset[str] = frozenset()
    cross_encoder: float | None = None

    @property
    def coverage(self) -> float:
        return sum(self.covered.values())


def signals(hits: Sequence[Hit], features: Mapping[str, Features], with_cross_encoder: bool) -> NDArray[np.float32]:
    """The signals of a pool, float32 [hits, len(SIGNALS)]; hits in fused order, features by chunk id."""
    best = max((hit.lexical for hit in hits), default=0.0)
    near = {(hit.chunk.document, hit.chunk.position): features[hit.chunk.id].late_interaction for hit in hits}
    naming = _naming(hits, features)
    rows = []
    for place, hit in enumerate(hits, 1):
        known = features[hit.chunk.id]
        by = [features[id] for id in naming[hit.chunk.id]]
        linked = by + [features[id] for id in known.names if id in naming]
        row = {
            "cross_encoder": (known.cross_encoder or 0.0) if with_cross_encoder else 0.0,
            "late_interaction": known.late_interaction,
            "dense": known.dense,
            "lexical": hit.lexical / best if best > 0 else 0.0,
            "dense_reciprocal": 1 / hit.dense_rank if hit.dense_rank else 0.0,
            "lexical_reciprocal": 1 / hit.lexical_rank if hit.lexical_rank else 0.0,
            "fused_reciprocal": 1 / place,
            "coverage": known.coverage,
            "title": known.title,
            "named": float(known.named),
            "neighbour": max(near.get((hit.chunk.document, hit.chunk.position + step), 0.0) for step in _NEIGHBOURS),
            "linked": max((other.late_interaction for other in by), default=0.0),
            "joint": max((_together(known, other) for other in linked), default=known.coverage),
            "abstract": float(hit.chunk.kind == "abstract"),
        }
        rows.append([row[name] for name in SIGNALS])
    return np.array(rows, np.float32).reshape(len(hits), len(SIGNALS))


def probabilities(matrix: NDArray[np.float32], weights: RankWeights) -> NDArray[np.float64]:
    """sigmoid(bias + weights . signals) for each row; a signal without a weight counts nothing."""
    vector = np.array([weights.weights.get(name, 0.0) for name in SIGNALS])
    logits = matrix.astype(np.float64) @ vector + weights.bias
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -60, 60))))


def rank(hits: Sequence[Hit], matrix: NDArray[np.float32], params: Params, with_cross_encoder: bool) -> list[Hit]:
    """The hits with their `score`, best first, ties by chunk id. matrix: float32 [hits, len(SIGNALS)]."""
    return sorted(scored(hits, matrix, params, with_cross_encoder), key=_by_score)


def scored(hits: Sequence[Hit], matrix: NDArray[np.float32], params: Params, with_cross_encoder: bool) -> list[Hit]:
    """The hits with their `score`, order kept."""
    weights = params.rank_with_cross_encoder if with_cross_encoder else params.rank_without_cross_encoder
    return [replace(hit, score=float(score)) for hit, score in zip(hits, probabilities(matrix, weights), strict=True)]


def select(
    hits: Sequence[Hit], matrix: NDArray[np.float32], params: Params, with_cross_encoder: bool, *, reorder: bool = True
) -> list[Hit]:
    """The hits of one pool that clear their bar, best first; the single best one when none does.

    The first TOP of the fused pool need `top_bar`, the others `deep_bar`; the best hit of a pinned document needs none.
    reorder False keeps the fused order (for a cross-encoder that failed).
    """
    pool = scored(hits, matrix, params, with_cross_encoder)
    ranked = sorted(pool, key=_by_score)
    pinned = _best_of_pinned(ranked, params)
    kept = [
        hit
        for place, hit in enumerate(pool)
        if hit.score >= (params.top_bar if place < TOP else params.deep_bar) or hit in pinned
    ]
    kept = kept or ranked[:1]
    return sorted(kept, key=_by_score) if reorder else kept


def merge(pools: Sequence[Sequence[Hit]], params: Params) -> list[Hit]:
    """Ranked pools as one list: each pool in turn gives its best, so that none is crowded out; every chunk once.

    Of the first `evidence_chunks` places, one is kept for each pinned document and `abstract_slots` for abstracts, if
    there are any: the best that stand further down move up to the last of those places.
    """
    merged: dict[str, Hit] = {}
    for turn in zip_longest(*pools):
        for hit in turn:
            if hit is not None:
                merged.setdefault(hit.chunk.id, hit)
    ranked = list(merged.values())
    abstracts = [hit for hit in ranked if hit.chunk.kind == "abstract"][: params.abstract_slots]
    wanted = (_best_of_pinned(ranked, params) + abstracts)[: params.evidence_chunks]
    first, rest = ranked[: params.evidence_chunks], ranked[params.evidence_chunks :]
    waiting = [hit for hit in rest if hit in wanted]
    leaving = [hit for hit in first if hit not in wanted][::-1][: len(waiting)]
    first = [hit for hit in first if hit not in leaving] + waiting
    return first + [hit for hit in ranked if hit not in first]


def _best_of_pinned(ranked: Sequence[Hit], params: Params) -> list[Hit]:
    best: dict[str, Hit] = {}
    for hit in ranked:
        best.setdefault(hit.chunk.document, hit)
    return [best[name] for name in params.pinned if name in best]


def _naming(hits: Sequence[Hit], features: Mapping[str, Features]) -> dict[str, list[str]]:
    """For each chunk of the pool, those of the pool whose text names its title."""
    naming: dict[str, list[str]] = {hit.chunk.id: [] for hit in hits}
    for id in naming:
        for other in features[id].names:
            if other in naming:
                naming[other].append(id)
    return naming


def _together(one: Features, other: Features) -> float:
    """The share of the question's idf mass that two chunks hold between them."""
    return sum({**one.covered, **other.covered}.values())


def _by_score(hit: Hit) -> tuple[float, str]:
    return -hit.score, hit.chunk.id
