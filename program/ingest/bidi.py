"""Right-to-left text in the order it is read. A page holds glyphs at places; what a reader wants is letters in order.

The inverse, for one line of print, of the reordering in Unicode's bidirectional algorithm (UAX 9): from left to right
as the glyphs stand, back to the order in which they were written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import bidirectional, mirrored

_RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_LEFT_RUN = re.compile(r"[LN](?:[LNs-]*[LN])?")
_RIGHT_RUN = re.compile(r"R(?:[RNs-]*R)?")
_NUMBER = re.compile(r"N+(?:-N+)*")
_BRACKETS = str.maketrans("()[]{}<>«»", ")(][}{><»«")


def has_right_to_left(text: str) -> bool:
    """Is there a letter of Hebrew, Arabic or another script that is written from right to left?"""
    return _RIGHT_TO_LEFT.search(text) is not None


def mostly_right_to_left(text: str) -> bool:
    """Is most of the text in such letters?"""
    return 2 * len(_RIGHT_TO_LEFT.findall(text)) > sum(character.isalpha() for character in text)


def logical_order(glyphs: Sequence[str], right_to_left: bool) -> list[int]:
    """Indices of a line's glyphs, given from left to right, in the order they are read.

    right_to_left: the line as a whole begins at its right.
    """
    types = "".join(_type(glyph) for glyph in glyphs)
    order = list(range(len(glyphs)))
    if not right_to_left:
        for run in _RIGHT_RUN.finditer(types):
            order[run.start() : run.end()] = _backwards(types, run.start(), run.end())
        return order
    return _backwards(types, 0, len(glyphs))


def mirrored_back(text: str) -> str:
    """The text with its brackets turned round, if they close before they open."""
    first = re.search(r"[()\[\]{}«»]", text)
    return text.translate(_BRACKETS) if first and first.group() in ")]}»" else text


def _backwards(types: str, start: int, end: int) -> list[int]:
    """Indices from `end` down to `start`, words and numbers that run from left to right left as they are."""
    order: list[int] = []
    place = end
    for first, last in reversed(_forward_runs(types, start, end)):
        order += [*range(place - 1, last - 1, -1), *range(first, last)]
        place = first
    return [*order, *range(place - 1, start - 1, -1)]


def _forward_runs(types: str, start: int, end: int) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for run in _LEFT_RUN.finditer(types, start, end):
        if "L" in run.group():
            runs.append(run.span())
        else:
            runs += [number.span() for number in _NUMBER.finditer(types, *run.span())]
    return runs


def _type(glyph: str) -> str:
    """L and R for letters, N for digits, `-` for what joins digits, s for all else."""
    kind = bidirectional(glyph[0])
    if kind in ("R", "AL"):
        return "R"
    if kind in ("EN", "AN"):
        return "N"
    if kind in ("ES", "ET", "CS"):
        return "-"
    return "L" if kind == "L" and not mirrored(glyph[0]) else "s"
