"""Fits the ranker's weights: a pairwise logistic regression of gold over the rest, pulled towards standing weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from program.params import SIGNALS, RankWeights

WITHOUT_CROSS_ENCODER = tuple(name for name in SIGNALS if name != "cross_encoder")
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
CALIBRATION = 10.0
ANCHOR = 10.0  # what the standing ranker's logit is multiplied with, so that keeping it is not penalised


def fit_weights(
    signals: NDArray[np.float32],
    gold: NDArray[np.bool_],
    groups: NDArray[np.intp],
    standing: RankWeights,
    names: Sequence[str],
    *,
    strength: float | None = None,
) -> RankWeights:
    """Weights of the signals called `names`, from candidates of which some are gold and some are not.

    signals: float32 [candidates, len(SIGNALS)]; gold: bool [candidates]; groups: each candidate's question.
    strength: the inverse of the regularisation's; None chooses it by cross-validation.

    Pairwise logistic regression (RankNet, Burges et al. 2005, with a linear scorer): in each question the gold should
    score above the rest; then a logistic regression of "is gold" on that score makes it a probability. It is pulled
    towards the standing weights, not towards none: their logit is a feature of its own, so large that using it is not
    penalised, and the others are what is left to correct.
    """
    signals = signals[:, [SIGNALS.index(name) for name in names]]
    known = np.array([standing.weights.get(name, 0.0) for name in names])
    scale = np.where(signals.std(axis=0) > 0, signals.std(axis=0), 1.0)
    features = np.column_stack([ANCHOR * (signals @ known), signals / scale])
    pairs, of, weight = _pairs(features, gold, groups)
    coefficients = _pairwise(pairs, weight, strength or _strength(pairs, of, weight))
    weights = ANCHOR * coefficients[0] * known + coefficients[1:] / scale
    scores = (signals @ weights)[:, None]
    calibration = LogisticRegression(C=CALIBRATION, max_iter=5000).fit(scores, gold)
    weights, bias = weights * calibration.coef_[0][0], float(calibration.intercept_[0])
    return RankWeights(
        bias=round(bias, 6), weights={n: round(float(w), 6) for n, w in zip(names, weights, strict=True)}
    )


def _pairs(
    features: NDArray[np.float64], gold: NDArray[np.bool_], groups: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.float64]]:
    """Gold minus other, for every such pair of a question; its question; its weight (every question counts alike)."""
    rows, of, weights = [], [], []
    for group in np.unique(groups):
        mine = features[groups == group]
        good, rest = mine[gold[groups == group]], mine[~gold[groups == group]]
        if len(good) and len(rest):
            made = (good[:, None, :] - rest[None, :, :]).reshape(-1, features.shape[1])
            rows.append(made)
            of.append(np.full(len(made), group))
            weights.append(np.full(len(made), 1 / len(made)))
    return np.concatenate(rows), np.concatenate(of), np.concatenate(weights)


def _strength(pairs: NDArray[np.float64], of: NDArray[np.intp], weight: NDArray[np.float64]) -> float:
    """The strongest regularisation whose loss on held-out questions is within a standard error of the best."""
    questions = np.unique(of)
    if len(questions) < 5:
        return STRENGTHS[0]

    def losses(strength: float) -> NDArray[np.float64]:
        found = np.zeros(len(questions))
        for train, held_out in GroupKFold(5).split(pairs, groups=of):
            coefficients = _pairwise(pairs[train], weight[train], strength)
            loss = weight[held_out] * np.logaddexp(0, -(pairs[held_out] @ coefficients))
            np.add.at(found, np.searchsorted(questions, of[held_out]), loss)
        return found

    by_strength = {strength: losses(strength) for strength in STRENGTHS}
    best = min(by_strength.values(), key=lambda loss: float(loss.mean()))
    bound = best.mean() + best.std() / np.sqrt(len(best))
    return next(strength for strength in STRENGTHS if by_strength[strength].mean() <= bound)


def _pairwise(pairs: NDArray[np.float64], weight: NDArray[np.float64], strength: float) -> NDArray[np.float64]:
    """Coefficients under which the pairs' differences come out positive."""
    way = np.where(
        np.arange(len(pairs)) % 2, -1, 1
    )  # a pair says the same either way round, and two classes are needed
    model = LogisticRegression(C=2 * strength, fit_intercept=False, max_iter=5000)
    return np.asarray(model.fit(pairs * way[:, None], way, sample_weight=weight).coef_[0])
