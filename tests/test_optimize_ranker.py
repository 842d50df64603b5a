"""Fitting the ranker's weights, on candidates whose right order is known."""

from __future__ import annotations

import numpy as np
import pytest

from optimize.ranker import WITHOUT_CROSS_ENCODER, fit_weights
from program.params import SIGNALS, RankWeights
from program.retrieval.rank import probabilities

NO_WEIGHTS = RankWeights(bias=0.0, weights={})


def candidates(questions: int, seed: int, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ten candidates a question; the two gold ones have the most of 2 joint + late_interaction - title."""
    generator = np.random.default_rng(seed)
    signals = generator.random((questions, 10, len(SIGNALS)), np.float32)
    worth = 2 * of(signals, "joint") + of(signals, "late_interaction") - of(signals, "title")
    worth += noise * generator.standard_normal(worth.shape)
    gold = worth >= np.sort(worth, axis=1)[:, -2:-1]
    return signals.reshape(-1, len(SIGNALS)), gold.ravel(), np.repeat(np.arange(questions), 10)


def of(signals: np.ndarray, name: str) -> np.ndarray:
    return signals[..., SIGNALS.index(name)]


def all_gold_first(signals: np.ndarray, gold: np.ndarray, weights: RankWeights) -> float:
    """Share of the questions whose two gold candidates come first."""
    best = np.argsort(-probabilities(signals, weights).reshape(-1, 10), axis=1)[:, :2]
    return float(np.take_along_axis(gold.reshape(-1, 10), best, axis=1).all(axis=1).mean())


@pytest.mark.parametrize("strength", [None, 1.0])
def test_fitting_finds_the_order_and_probabilities(strength: float | None):
    fitted = fit_weights(*candidates(80, 0), NO_WEIGHTS, WITHOUT_CROSS_ENCODER, strength=strength)
    signals, gold, _ = candidates(80, 1)
    assert all_gold_first(signals, gold, fitted) >= 0.8
    assert "cross_encoder" not in fitted.weights
    by_weight = sorted(fitted.weights, key=lambda name: fitted.weights[name])
    assert (by_weight[-2:], by_weight[0]) == (["late_interaction", "joint"], "title")
    found = probabilities(signals, fitted)
    assert found[gold].mean() > 0.6 > 0.15 > found[~gold].mean()


def test_few_labels_do_not_undo_standing_weights():
    right = RankWeights(bias=-2.0, weights={"joint": 2.0, "late_interaction": 1.0, "title": -1.0})
    few = candidates(4, 2, noise=2.0)
    signals, gold, _ = candidates(80, 3)
    from_right = fit_weights(*few, right, WITHOUT_CROSS_ENCODER)
    from_nothing = fit_weights(*few, NO_WEIGHTS, WITHOUT_CROSS_ENCODER)
    assert all_gold_first(signals, gold, from_right) >= 0.7 > all_gold_first(signals, gold, from_nothing)
