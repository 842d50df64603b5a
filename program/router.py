"""Which strategy and transform a question gets: the learned head when it is sure, else the language model.

The head is a multinomial logistic regression over the question's embedding and a few counts of its shape, fitted by
`python -m optimize`. It costs one encoding; the language model costs a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import dspy
import numpy as np
from numpy.typing import NDArray

from program.errors import OutputError
from program.lm import call
from program.shape import shape
from program.signatures import RouteQuestion
from program.types import ROUTE_LABELS, Route


def head_features(question: str, vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the head reads: the question's unit embedding [d], then its shape; float32 [d + SHAPE_SIZE]."""
    return np.concatenate([vector, shape(question)]).astype(np.float32)


@dataclass(frozen=True, slots=True)
class RouterHead:
    """Multinomial logistic regression: softmax(weights @ features + bias).

    weights: float32 [labels, features]; bias: float32 [labels]; labels: a permutation or subset of ROUTE_LABELS.
    """

    labels: tuple[str, ...]
    weights: NDArray[np.float32]
    bias: NDArray[np.float32]

    def probabilities(self, question: str, vector: NDArray[np.float32]) -> list[tuple[str, float]]:
        """Labels with their probabilities, likeliest first; ties in the order of `labels`."""
        logits = self.weights @ head_features(question, vector) + self.bias
        odds = np.exp(logits - logits.max())
        shares = odds / odds.sum()
        order = np.argsort(-shares, kind="stable")
        return [(self.labels[i], float(shares[i])) for i in order]


class Router(dspy.Module):
    """Head first; the language model, with the head's view as a hint, when the head is not sure."""

    def __init__(self) -> None:
        super().__init__()
        self.decide = dspy.Predict(RouteQuestion)

    def by_head(self, head: RouterHead | None, question: str, vector: NDArray[np.float32]) -> list[tuple[str, float]]:
        """The head's distribution, or a flat one where there is no head."""
        if head is None:
            return [(label, 1 / len(ROUTE_LABELS)) for label in ROUTE_LABELS]
        return head.probabilities(question, vector)

    def forward(self, question: str, odds: Sequence[tuple[str, float]]) -> Route:
        """Ask the language model. A label outside the ten becomes `clear`, decided by `fallback`.

        Raises LanguageModelError when there is no answer at all.
        """
        try:
            label = call(self.decide, question=question, hint=hint(odds)).label
            return Route.from_label(label, "language_model", dict(odds).get(label, 0.0))
        except (OutputError, KeyError):
            return Route.from_label("clear", "fallback", 0.0)


def hint(odds: Sequence[tuple[str, float]]) -> str:
    """The head's three likeliest classes as the language model reads them; used alike in training and serving."""
    best = [f"{label} {share:.0%}" for label, share in odds[:3] if share > 1.5 / len(ROUTE_LABELS)]
    return ", ".join(best) or "none"
