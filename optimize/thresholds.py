"""The bars between deciding for nothing, asking the language model, and refusing. Chosen on train and dev."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from program.words import names, numbers

CLEAR_PASS = 0.9  # share of answerable clear questions that must pass the accept bar without the language model
CALL_WORTH = 0.1  # routing accuracy that one language-model call must buy
SUPPORT_RANGE = (0.3, 0.7)
SUPPORT_DEFAULT = 0.5


@dataclass(frozen=True, slots=True)
class Scored:
    """A question's best rank score. `found`: its gold is among the evidence (never for an unanswerable one)."""

    score: float
    found: bool
    clear: bool


def grade_bars(scored: Sequence[Scored], accept: float, reject: float) -> tuple[float, float]:
    """(accept_bar, reject_bar); the given ones where there is nothing to learn from.

    accept: the highest bar that CLEAR_PASS of the clear questions with gold still clear, lowered to just above the best
    score of a question without gold under it (nothing is gained in between). reject: half of the lowest score of any
    question with gold, so that what is refused unread is far from everything ever found.
    """
    good = sorted(item.score for item in scored if item.found)
    clear = sorted(item.score for item in scored if item.found and item.clear) or good
    if not clear:
        return accept, reject
    highest = clear[int(np.floor((1 - CLEAR_PASS) * len(clear)))]
    under = [item.score for item in scored if not item.found and item.score < highest]
    accept_bar = (max(under) + highest) / 2 if under else highest * 0.9
    reject_bar = min(good[0] / 2, accept_bar / 2)
    return round(accept_bar, 4), round(reject_bar, 4)


def router_bar(
    odds: Mapping[str, Sequence[tuple[str, float]]], gold: Mapping[str, str], by_model: Mapping[str, str]
) -> float:
    """The head's probability from which it decides alone.

    odds: the head's classes, likeliest first, by question id. by_model: what the language model said, for the questions
    it was asked (those the head is least sure of). The bar with the best accuracy less CALL_WORTH a call wins; ties go
    to the lower one. Never above the surest question the language model was asked.
    """
    sure = {id: classes[0][1] for id, classes in odds.items()}
    known = sorted({sure[id] for id in by_model})

    def worth(bar: float) -> float:
        right = calls = 0
        for id, classes in odds.items():
            asked = sure[id] < bar and id in by_model
            calls += asked
            right += (by_model[id] if asked else classes[0][0]) == gold[id]
        return (right - CALL_WORTH * calls) / max(len(odds), 1)

    bars: list[float] = [0.0, *((low + high) / 2 for low, high in pairwise(known))]
    bars += [known[-1] + 1e-4] if known else []
    best = max(bars, key=lambda bar: (worth(bar), -bar))
    return round(best, 4)


def support_bar(right: Sequence[float], wrong: Sequence[float]) -> float:
    """The support from which a claim stands: between right claims and claims with a wrong figure or name.

    The bar with the best mean of right claims kept and wrong ones dropped, within SUPPORT_RANGE; among equals, the one
    nearest to the default.
    """
    if not right or not wrong:
        return SUPPORT_DEFAULT
    low, high = SUPPORT_RANGE
    bars = [round(float(bar), 3) for bar in np.arange(low, high + 1e-9, 0.01)]

    def worth(bar: float) -> float:
        kept = np.mean([score >= bar for score in right])
        dropped = np.mean([score < bar for score in wrong])
        return round(float(kept + dropped), 9)

    return max(bars, key=lambda bar: (worth(bar), -abs(bar - SUPPORT_DEFAULT)))


def spoilt(claim: str, others: Sequence[str]) -> list[str]:
    """The claim with one of its figures changed, and with one of its names exchanged for one from `others`: what a
    model that invents would write. Empty when it has neither."""
    wrong = []
    if figures := sorted(numbers(claim), key=len):
        # The longest figure: a short one may stand inside another.
        pattern = rf"(?<![\d.,]){re.escape(figures[-1])}(?![\d])"
        changed = re.sub(pattern, _other_figure(figures[-1]), claim, count=1)
        wrong += [changed] if changed != claim else []
    own = names(claim)
    foreign = sorted({name for text in others for name in names(text)} - own)
    if own and foreign:
        name = sorted(own, key=len)[-1]
        changed = re.sub(rf"\b{re.escape(name)}\w*", foreign[0].capitalize(), claim, count=1, flags=re.IGNORECASE)
        wrong += [changed] if changed != claim else []
    return wrong


def _other_figure(figure: str) -> str:
    return figure[:-1] + str((int(figure[-1]) + 3) % 10) if figure[-1].isdigit() else figure + "7"
