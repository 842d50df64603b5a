"""What found passages, answers and refusals are worth, as pure functions. All shares are in [0, 1].

A gold quote's rank is its 1-based place in a ranking, or 0 where it was not found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from program.words import NEGATION, content_words, coverage, numbers

_WORD = re.compile(r"\d+(?:[.,]\d+)*|\w+")
_LONG = 5  # content words from which an answer may be given in other words
_SHARE = 0.6  # of its content words that then must be there
_OVERLAP = 0.6  # of the shorter quote's words that the other must hold


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over n values with its 95% bootstrap interval."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]" if self.n else "no data"


@dataclass(frozen=True, slots=True)
class RefusalScores:
    """precision: refused questions that the library cannot answer. recall: those that cannot be answered, refused.
    None where there was nothing to count."""

    precision: float | None
    recall: float | None


def recall_at_k(ranks: Sequence[int], k: int) -> float:
    """Share of gold quotes among the first k; 1 when there are none to find."""
    return sum(0 < rank <= k for rank in ranks) / len(ranks) if ranks else 1.0


def all_gold(ranks: Sequence[int], k: int) -> bool:
    """Whether every gold quote is among the first k."""
    return all(0 < rank <= k for rank in ranks)


def reciprocal_rank(ranks: Sequence[int]) -> float:
    """1 / rank of the best placed gold quote, 0 when none was found; its mean over questions is MRR."""
    return max((1 / rank for rank in ranks if rank), default=0.0)


def answer_is_right(text: str, answers: Sequence[str]) -> bool:
    """Whether a text gives one of the accepted answers. Facts joined by `;` must all be there.

    A fact is there when its words follow each other in the text, or when all its figures and content words are
    there in any order (for one of five or more content words, all figures and 60% of the words); where it denies
    something ("no gain"), the text must deny something too.
    """
    return any(all(_states(text, fact) for fact in answer.split(";") if fact.strip()) for answer in answers if answer)


def quotes_overlap(first: str, second: str) -> bool:
    """Whether two quotes are of the same passage: most of the shorter one stands in the other."""
    short, long = sorted((words(first), words(second)), key=len)
    if not short:
        return False
    pairs = set(pairwise(long))
    shared = sum(pair in pairs for pair in pairwise(short))
    return shared >= _OVERLAP * max(len(short) - 1, 1)


def refusal_scores(refused: Sequence[bool], answerable: Sequence[bool]) -> RefusalScores:
    """Scores of the decision to refuse."""
    right = sum(r and not a for r, a in zip(refused, answerable, strict=True))
    said, due = sum(refused), sum(not a for a in answerable)
    return RefusalScores(right / said if said else None, right / due if due else None)


def bootstrap_interval(values: Sequence[float], seed: int = 0, samples: int = 2000) -> Interval:
    """Mean and percentile bootstrap interval (Efron 1979) of values that belong to one question each."""
    if not len(values):
        return Interval(float("nan"), float("nan"), float("nan"), 0)
    data = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(data), size=(samples, len(data)))
    low, high = np.quantile(data[drawn].mean(axis=1), [0.025, 0.975])
    return Interval(float(data.mean()), float(low), float(high), len(data))


def macro_f1(gold: Sequence[str], given: Sequence[str]) -> float:
    """Mean over the classes in `gold` of the harmonic mean of precision and recall."""
    scores = []
    for label in sorted(set(gold)):
        hit = sum(g == label == p for g, p in zip(gold, given, strict=True))
        scores.append(2 * hit / (sum(g == label for g in gold) + sum(p == label for p in given)))
    return sum(scores) / len(scores) if scores else 0.0


def words(text: str) -> list[str]:
    """A text's words, NFKC and case-folded, thousands separators dropped, hyphens read as spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [re.sub(r",(?=\d{3}\b)", "", word) for word in _WORD.findall(folded)]


def _states(text: str, fact: str) -> bool:
    wanted, given = words(fact), words(text)
    if any(given[i : i + len(wanted)] == wanted for i in range(len(given) - len(wanted) + 1)):
        return True
    if not content_words(fact) or numbers(fact) - numbers(text):
        return False
    if NEGATION.search(fact) and not NEGATION.search(text):
        return False
    return coverage(fact, text) >= (_SHARE if len(content_words(fact)) >= _LONG else 1.0)
