"""Fusion of legs and of rankings, on numbers worked out by hand."""

from __future__ import annotations

import pytest

from program.retrieval.fusion import fuse, reciprocal_rank_fusion
from program.types import Chunk, Hit


def hit(name: str, dense: float = 0.0, lexical: float = 0.0) -> Hit:
    return Hit(Chunk(name, "document", "", name), dense, lexical)


DENSE = [hit("a", 0.9, 1.0), hit("b", 0.7), hit("c", 0.5, 3.0)]
LEXICAL = [hit("c", 0.5, 3.0), hit("d", 0.1, 2.0), hit("a", 0.9, 1.0)]


def scores(hits: list[Hit]) -> dict[str, float]:
    return {item.chunk.id: round(item.fused, 6) for item in hits}


def test_ranked():
    fused = fuse(DENSE, LEXICAL, alpha=0.5, fusion="ranked", k=10)
    expected = {"a": 1 / 61 + 1 / 63, "c": 1 / 63 + 1 / 61, "b": 1 / 62, "d": 1 / 62}
    assert scores(fused) == {name: round(score / 2, 6) for name, score in expected.items()}
    assert [item.chunk.id for item in fused] == ["a", "c", "b", "d"]  # both pairs tie


def test_relative():
    fused = fuse(DENSE, LEXICAL, alpha=0.25, fusion="relative", k=10)
    assert scores(fused) == {"c": 0.75, "d": 0.375, "a": 0.25, "b": 0.125}
    assert [item.chunk.id for item in fused] == ["c", "d", "a", "b"]


def test_equal_scores_count_as_present():
    fused = fuse([hit("a", 0.5), hit("b", 0.5)], [hit("b", 0.5, 2.0)], alpha=0.5, fusion="relative", k=10)
    assert scores(fused) == {"b": 1.0, "a": 0.5}


def test_ranks_and_scores_of_both_legs_are_kept():
    (best,) = fuse(DENSE, LEXICAL, alpha=0.5, fusion="ranked", k=1)
    assert (best.dense, best.lexical, best.dense_rank, best.lexical_rank) == (0.9, 1.0, 1, 3)


@pytest.mark.parametrize(("alpha", "expected"), [(0.0, ["c", "d", "a"]), (1.0, ["a", "b", "c"])])
@pytest.mark.parametrize("fusion", ["ranked", "relative"])
def test_a_leg_of_weight_zero_is_not_read(alpha: float, expected: list[str], fusion: str):
    fused = fuse(DENSE, LEXICAL, alpha=alpha, fusion=fusion, k=10)
    assert [item.chunk.id for item in fused] == expected
    assert all((item.lexical_rank if alpha else item.dense_rank) == 0 for item in fused)


@pytest.mark.parametrize("fusion", ["ranked", "relative"])
def test_empty_legs(fusion: str):
    assert fuse([], [], alpha=0.5, fusion=fusion, k=5) == []
    assert [item.chunk.id for item in fuse(DENSE, [], alpha=0.5, fusion=fusion, k=5)] == ["a", "b", "c"]


def test_reciprocal_rank_fusion_keeps_the_best_of_every_ranking():
    first = fuse(DENSE, [], alpha=1.0, fusion="ranked", k=3)
    second = fuse([], LEXICAL, alpha=0.0, fusion="ranked", k=3)
    joined = reciprocal_rank_fusion([first, second])
    assert scores(joined) == {
        "a": round(1 / 61 + 1 / 63, 6),
        "c": round(1 / 63 + 1 / 61, 6),
        "b": 0.016129,
        "d": 0.016129,
    }
    assert [item.chunk.id for item in joined] == ["a", "c", "b", "d"]
    assert (joined[0].dense_rank, joined[0].lexical_rank) == (1, 3)


def test_a_smaller_constant_favours_the_first_places():
    rankings = [[hit("a"), hit("b"), hit("c")], [hit("d"), hit("b"), hit("c")]]
    assert [item.chunk.id for item in reciprocal_rank_fusion(rankings, k=60)][:2] == ["b", "c"]
    assert [item.chunk.id for item in reciprocal_rank_fusion(rankings, k=1)][:2] == ["b", "a"]
    assert reciprocal_rank_fusion([], k=60) == []
