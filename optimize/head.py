"""Fits the router's head: multinomial logistic regression over `program.router.head_features`.

Follow-ups are left out: the router reads them only after they were made to stand alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from optimize.labels import RoutingLabel
from optimize.metrics import macro_f1
from program.errors import LabelError
from program.retrieval.encoders import Encoder
from program.router import RouterHead, head_features
from program.shape import SHAPE_SIZE

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)  # inverse regularisation strengths that cross-validation chooses from
FOLDS = 5
SHAPE_SPREAD = 0.1  # standard deviation of a shape count as the fit sees it; an embedding's columns have 0.05


@dataclass(frozen=True, slots=True)
class HeadFit:
    """A fitted head. odds: for each training question, by id, its classes and probabilities as a head that had not seen
    the question gives them, likeliest first."""

    head: RouterHead
    strength: float
    odds: dict[str, list[tuple[str, float]]]


@dataclass(frozen=True, slots=True)
class HeadScores:
    """How often the likeliest class is right, over n questions."""

    accuracy: float
    macro_f1: float
    n: int


def fit_head(labels: Sequence[RoutingLabel], encoder: Encoder, seed: int) -> HeadFit:
    """Fit on standing-alone questions; the strength is the one with the best cross-validated likelihood.

    Raises LabelError when there are fewer than two classes, or fewer than two questions of one.
    """
    labels = standing_alone(labels)
    given = [label.label for label in labels]
    counts = Counter(given)
    if len(counts) < 2 or min(counts.values()) < 2:
        raise LabelError(
            f"The router's head needs two training questions of two classes at least; there are {dict(counts)}.",
            "Add routing labels with part train.",
        )
    features, mean, scale = _standardised(head_inputs(labels, encoder))
    folds = StratifiedKFold(min(FOLDS, *counts.values()), shuffle=True, random_state=seed)
    classes = sorted(counts)
    gold = np.array([classes.index(label) for label in given])

    def unseen(strength: float) -> NDArray[np.float64]:
        return np.asarray(cross_val_predict(_model(strength), features, given, cv=folds, method="predict_proba"))

    held_out = {strength: unseen(strength) for strength in STRENGTHS}
    strength = max(STRENGTHS, key=lambda s: float(np.log(held_out[s][np.arange(len(gold)), gold] + 1e-12).mean()))
    model = _model(strength).fit(features, given)
    weights, bias = np.asarray(model.coef_), np.asarray(model.intercept_)
    if len(classes) == 2:  # scikit-learn keeps one row for two classes
        weights, bias = np.vstack([-weights / 2, weights / 2]), np.concatenate([-bias / 2, bias / 2])
    # The scaling is folded into the weights, so that the head reads raw features.
    weights = weights / scale
    bias = bias - weights @ mean
    odds = {
        label.id: sorted(zip(classes, map(float, row), strict=True), key=lambda pair: -pair[1])
        for label, row in zip(labels, held_out[strength], strict=True)
    }
    head = RouterHead(tuple(map(str, model.classes_)), weights.astype(np.float32), bias.astype(np.float32))
    return HeadFit(head, strength, odds)


def score_head(head: RouterHead, labels: Sequence[RoutingLabel], encoder: Encoder) -> HeadScores:
    """Accuracy and macro F1 of the head's likeliest class."""
    given = [odds[0][0] for odds in head_odds(head, labels, encoder).values()]
    gold = [label.label for label in standing_alone(labels)]
    right = sum(a == b for a, b in zip(gold, given, strict=True))
    return HeadScores(right / len(gold) if gold else 0.0, macro_f1(gold, given), len(gold))


def head_odds(head: RouterHead, labels: Sequence[RoutingLabel], encoder: Encoder) -> dict[str, list[tuple[str, float]]]:
    """The head's distribution for each standing-alone question, by id, likeliest first."""
    labels = standing_alone(labels)
    if not labels:
        return {}
    vectors = encoder.encode([label.question for label in labels])
    return {label.id: head.probabilities(label.question, vector) for label, vector in zip(labels, vectors, strict=True)}


def standing_alone(labels: Sequence[RoutingLabel]) -> list[RoutingLabel]:
    return [label for label in labels if not label.history]


def head_inputs(labels: Sequence[RoutingLabel], encoder: Encoder) -> NDArray[np.float32]:
    """float32 [labels, features]."""
    vectors = encoder.encode([label.question for label in labels])
    return np.stack([head_features(label.question, vector) for label, vector in zip(labels, vectors, strict=True)])


def _standardised(
    features: NDArray[np.float32],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """(features with the shape columns centred and scaled to SHAPE_SPREAD, the means, the scales): the many shape
    counts must not outweigh an embedding whose columns are small. Embedding columns keep mean 0 and scale 1."""
    shape = slice(features.shape[1] - SHAPE_SIZE, None)
    mean, scale = np.zeros(features.shape[1]), np.ones(features.shape[1])
    mean[shape] = features[:, shape].mean(axis=0)
    scale[shape] = np.maximum(features[:, shape].std(axis=0), 0.05) / SHAPE_SPREAD
    return (features - mean) / scale, mean, scale


def _model(strength: float) -> LogisticRegression:
    return LogisticRegression(C=strength, max_iter=5000)
