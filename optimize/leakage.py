"""Which labelled questions belong together: the same passage is their gold, or they ask the same in other words.

What belongs together must be in one part: a test question that was tuned on in another wording measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from optimize.gold import Documents
from optimize.labels import QuestionLabel, RoutingLabel
from optimize.metrics import words
from program.ingest.quotes import find_quote
from program.retrieval.encoders import Encoder
from program.words import content_words, names, numbers

PARAPHRASE = 0.8  # cosine (MiniLM) from which two questions are held to ask the same; see data/labeled/README.md
BLOCK = 1024  # questions compared with all others at once


@dataclass(frozen=True, slots=True)
class Row:
    """A label and where it stands."""

    path: Path
    line: int
    label: RoutingLabel

    @property
    def asked(self) -> str:
        """The question after the earlier ones it hangs on."""
        return " ".join([*(turn.question for turn in self.label.history), self.label.question])


@dataclass(frozen=True, slots=True)
class Tie:
    """Two rows, by place, that belong together. column: what ties them. likeness: cosine of the questions, or None."""

    first: int
    second: int
    column: str
    likeness: float | None = None


def same_words(rows: Sequence[Row]) -> Iterator[Tie]:
    """Rows that ask the same in the same words, punctuation and case apart, tied to the first of them."""
    seen: dict[tuple[str, ...], int] = {}
    for place, row in enumerate(rows):
        first = seen.setdefault(tuple(words(row.asked)), place)
        if first != place:
            yield Tie(first, place, "question", 1.0)


def same_gold(rows: Sequence[Row], documents: Documents) -> Iterator[Tie]:
    """Rows some of whose gold quotes overlap in their document; quotes that stand nowhere are passed over."""
    spans: dict[str, list[tuple[int, int, int]]] = {}
    for place, row in enumerate(rows):
        for gold in row.label.quotes if isinstance(row.label, QuestionLabel) else ():
            text = documents.text(gold.document)
            if text is not None and (span := find_quote(text, gold.quote)):
                spans.setdefault(text, []).append((*span, place))
    for found in spans.values():
        for (start, end, first), (begin, finish, second) in combinations(sorted(found), 2):
            if first != second and start < finish and begin < end:
                yield Tie(min(first, second), max(first, second), "quotes")


def same_meaning(rows: Sequence[Row], encoder: Encoder, bar: float = PARAPHRASE) -> Iterator[Tie]:
    """Rows whose questions are at least as near as `bar` and do not each name something that the other does not."""
    if not rows:
        return
    vectors = encoder.encode([row.asked for row in rows])
    for begin in range(0, len(rows), BLOCK):
        likeness = vectors[begin : begin + BLOCK] @ vectors.T
        for i, j in np.argwhere(likeness >= bar):
            first, second = begin + int(i), int(j)
            if first < second and not _of_different_things(rows[first].asked, rows[second].asked):
                yield Tie(first, second, "question", float(likeness[i, j]))


def nearest(rows: Sequence[Row], encoder: Encoder, n: int) -> list[Tie]:
    """The n pairs in different parts that are most alike, alikest first: those to read, for no bar finds all that ask
    the same."""
    if not rows or not n:
        return []
    vectors = encoder.encode([row.asked for row in rows])
    parts = np.array([row.label.part for row in rows])
    best: list[Tie] = []
    for begin in range(0, len(rows), BLOCK):
        likeness = vectors[begin : begin + BLOCK] @ vectors.T
        places = np.arange(begin, begin + len(likeness))
        later = (np.arange(len(rows)) > places[:, None]) & (parts[places][:, None] != parts)
        likeness = np.where(later, likeness, -1.0)
        for flat in np.argsort(-likeness, axis=None)[:n]:
            i, j = divmod(int(flat), len(rows))
            best.append(Tie(begin + i, j, "question", float(likeness[i, j])))
    best = [tie for tie in best if tie.likeness is not None and tie.likeness > -1.0]
    return sorted(best, key=lambda tie: -(tie.likeness or 0.0))[:n]


def across_parts(rows: Sequence[Row], ties: Sequence[Tie]) -> list[Tie]:
    return [tie for tie in ties if rows[tie.first].label.part != rows[tie.second].label.part]


def groups(ties: Sequence[Tie], n: int) -> list[list[int]]:
    """The places 0 to n - 1 in groups: whatever is tied, directly or through others, shares one (union-find)."""
    leader = list(range(n))

    def find(place: int) -> int:
        while leader[place] != place:
            leader[place] = place = leader[leader[place]]
        return place

    for tie in ties:
        leader[find(tie.second)] = find(tie.first)
    found: dict[int, list[int]] = {}
    for place in range(n):
        found.setdefault(find(place), []).append(place)
    return list(found.values())


def _of_different_things(first: str, second: str) -> bool:
    """Whether each has a name or a figure that the other lacks: "layers of BERT-base" and "layers of ALBERT-base"."""
    return _has_more(first, second) and _has_more(second, first)


def _has_more(text: str, other: str) -> bool:
    return bool((names(text) | numbers(text)) - content_words(other) - numbers(other))
