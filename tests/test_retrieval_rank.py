"""The compiled ranker, its bars and the merging of pools."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from program.params import SIGNALS, Params, RankWeights
from program.retrieval.rank import TOP, Features, merge, probabilities, rank, select, signals
from program.types import Chunk, ChunkKind, Hit


def hit(name: str, kind: ChunkKind = "passage", score: float = 0.0, **more: float) -> Hit:
    return replace(Hit(Chunk(name, "document", "", name, kind), 0.0, 0.0, score=score), **more)


def by_dense(values: list[float], **changes: object) -> tuple[list[Hit], np.ndarray, Params]:
    """Hits whose score is their `dense` signal, put through as a probability."""
    matrix = np.zeros((len(values), len(SIGNALS)), np.float32)
    matrix[:, SIGNALS.index("dense")] = [math.log(value / (1 - value)) for value in values]
    params = Params(rank_without_cross_encoder=RankWeights(bias=0, weights={"dense": 1}), **changes)  # type: ignore[arg-type]
    return [hit(f"h{place:02}") for place in range(len(values))], matrix, params


def test_signals():
    hits = [
        hit("a", dense=0.5, lexical=4.0, dense_rank=2, lexical_rank=1),
        hit("b", kind="abstract", dense=0.6, lexical=1.0, dense_rank=1),
    ]
    features = {
        "a": Features(0.1, 0.2, {"x": 0.3}, 0.4, named=True, cross_encoder=5.0),
        "b": Features(0.5, 0.6, {"x": 0.3, "y": 0.4}, 0.8, cross_encoder=-5.0),
    }
    matrix = signals(hits, features, with_cross_encoder=True)
    assert matrix.dtype == np.float32
    rows = [dict(zip(SIGNALS, map(float, row), strict=True)) for row in matrix.round(4)]
    assert rows[0] == pytest.approx(
        {
            "cross_encoder": 5, "late_interaction": 0.1, "dense": 0.2, "lexical": 1, "dense_reciprocal": 0.5,
            "lexical_reciprocal": 1, "fused_reciprocal": 1, "coverage": 0.3, "title": 0.4, "named": 1,
            "neighbour": 0, "linked": 0, "joint": 0.3, "abstract": 0,
        }
    )  # fmt: skip
    assert rows[1] == pytest.approx(
        {
            "cross_encoder": -5, "late_interaction": 0.5, "dense": 0.6, "lexical": 0.25, "dense_reciprocal": 1,
            "lexical_reciprocal": 0, "fused_reciprocal": 0.5, "coverage": 0.7, "title": 0.8, "named": 0,
            "neighbour": 0, "linked": 0, "joint": 0.7, "abstract": 1,
        }
    )  # fmt: skip
    assert (signals(hits, features, with_cross_encoder=False)[:, 0] == 0).all()
    assert signals([], {}, with_cross_encoder=False).shape == (0, len(SIGNALS))


def test_neighbours_are_near_in_the_same_document():
    places = {"a": ("d", 1), "b": ("d", 3), "c": ("d", 6), "e": ("other", 2)}
    hits = [Hit(Chunk(name, document, "", name, position=place), 0, 0) for name, (document, place) in places.items()]
    late = {"a": 0.1, "b": 0.9, "c": 0.5, "e": 0.7}
    matrix = signals(hits, {name: Features(score, 0, {}) for name, score in late.items()}, with_cross_encoder=False)
    assert matrix[:, SIGNALS.index("neighbour")].tolist() == pytest.approx([0.9, 0.1, 0, 0])


def test_a_link_counts_for_both_of_its_ends():
    """The film names its director; the biographer names the director too, and no other hit shares words with it."""
    hits = [hit(name) for name in ("film", "director", "biographer", "alone")]
    features = {
        "film": Features(0.5, 0, {"film": 0.3}, names=frozenset({"director", "not in this pool"})),
        "director": Features(0.1, 0, {"born": 0.2}),
        "biographer": Features(0.4, 0, {"born": 0.2, "wrote": 0.1}, names=frozenset({"director"})),
        "alone": Features(0.9, 0, {"film": 0.3, "born": 0.2}),
    }
    matrix = signals(hits, features, with_cross_encoder=False)
    assert matrix[:, SIGNALS.index("linked")].tolist() == pytest.approx([0, 0.5, 0, 0])
    assert matrix[:, SIGNALS.index("joint")].tolist() == pytest.approx([0.5, 0.5, 0.3, 0.5])


def test_probability_is_the_sigmoid_of_the_weighted_sum():
    matrix = np.zeros((2, len(SIGNALS)), np.float32)
    matrix[1, SIGNALS.index("dense")] = 1e6
    found = probabilities(matrix, RankWeights(bias=-1.0, weights={"dense": 2.0}))
    assert found == pytest.approx([1 / (1 + math.e), 1.0])


def test_ranking_sorts_by_score_and_breaks_ties_by_id():
    hits, matrix, params = by_dense([0.2, 0.9, 0.9])
    ranked = rank([hits[0], hits[2], hits[1]], matrix[[0, 2, 1]], params, with_cross_encoder=False)
    assert [item.chunk.id for item in ranked] == ["h01", "h02", "h00"]
    assert [item.score for item in ranked] == pytest.approx([0.9, 0.9, 0.2])


def test_the_cross_encoder_has_weights_of_its_own():
    hits, matrix, params = by_dense([0.2, 0.8])
    params = params.model_copy(update={"rank_with_cross_encoder": RankWeights(bias=0, weights={"dense": -1})})
    assert rank(hits, matrix, params, with_cross_encoder=True)[0].chunk.id == "h00"
    assert rank(hits, matrix, params, with_cross_encoder=False)[0].chunk.id == "h01"


def test_bars_are_lower_for_the_first_of_the_pool():
    hits, matrix, params = by_dense([0.1] * (TOP + 2), top_bar=0.05, deep_bar=0.2)
    kept = select(hits, matrix, params, with_cross_encoder=False)
    assert [item.chunk.id for item in kept] == [f"h{place:02}" for place in range(TOP)]


def test_the_single_best_is_kept_when_none_clears_its_bar():
    hits, matrix, params = by_dense([0.1, 0.3, 0.2], top_bar=0.5, deep_bar=0.5)
    assert [item.chunk.id for item in select(hits, matrix, params, with_cross_encoder=False)] == ["h01"]
    assert select([], matrix[:0], params, with_cross_encoder=False) == []


def test_the_best_hit_of_a_pinned_document_needs_no_bar():
    hits, matrix, params = by_dense([0.9, 0.1, 0.3, 0.2], top_bar=0.5, deep_bar=0.5, pinned=("pinned", "not found"))
    for place in (1, 2):
        hits[place] = replace(hits[place], chunk=replace(hits[place].chunk, document="pinned"))
    assert [item.chunk.id for item in select(hits, matrix, params, with_cross_encoder=False)] == ["h00", "h02"]


def test_a_place_is_kept_for_a_pinned_document():
    pool = [hit(name) for name in "abcd"] + [hit("A", "abstract")]
    pool += [replace(item, chunk=replace(item.chunk, document="pinned")) for item in (hit("p"), hit("q"))]
    assert names(merge([pool], Params(evidence_chunks=4, pinned=("pinned",)))) == "abAp" + "cdq"
    assert names(merge([pool], Params(evidence_chunks=1, pinned=("pinned",)))) == "p" + "abcdAq"
    assert names(merge([pool], Params(evidence_chunks=7, pinned=("pinned",)))) == "abcdApq"  # it is in anyway


def test_the_fused_order_can_be_kept():
    hits, matrix, params = by_dense([0.3, 0.9, 0.6])
    kept = select(hits, matrix, params, with_cross_encoder=False, reorder=False)
    assert [item.chunk.id for item in kept] == ["h00", "h01", "h02"]


def names(hits: list[Hit]) -> str:
    return "".join(item.chunk.id for item in hits)


def test_pools_take_turns_and_every_chunk_comes_once():
    pools = [[hit("a"), hit("b"), hit("c"), hit("d")], [hit("a"), hit("x")], [hit("y")]]
    assert names(merge(pools, Params(evidence_chunks=3, abstract_slots=0))) == "aybxcd"
    assert merge([], Params()) == []


@pytest.mark.parametrize(
    ("kinds", "slots", "expected"),
    [
        ("PPPPA", 1, "0124 3"),  # the best abstract further down takes the last place
        ("PPPPA", 0, "0123 4"),
        ("PPAPA", 1, "0123 4"),  # there is one already
        ("PPAPA", 2, "0124 3"),
        ("PPPPP", 2, "0123 4"),  # there are none
    ],
)
def test_places_are_kept_for_abstracts(kinds: str, slots: int, expected: str):
    pool = [hit(str(place), "abstract" if kind == "A" else "passage") for place, kind in enumerate(kinds)]
    merged = merge([pool], Params(evidence_chunks=4, abstract_slots=slots))
    assert names(merged) == expected.replace(" ", "")
