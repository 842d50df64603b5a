"""The order in which the blocks of a page are read: bands from top to bottom, inside a band column after column.

A band is the tallest run of blocks through which the same vertical gutters pass (a greedy form of the recursive XY-cut;
Nagy and Seth, 1984). What only looks like columns, a table or a margin of line numbers, is told by its width and by how
much text a line holds, and stays in the order of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Narrowest gutter between two columns, in points.
GUTTER = 6.0
#: Narrowest column, as a share of the width of all columns.
COLUMN_SHARE = 0.18
#: Characters a line of running text holds at least, on average.
PROSE_LINE = 20.0


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on the page, in points from the top left; `prose` is the mean number of characters in a line."""

    x0: float
    y0: float
    x1: float
    y1: float
    prose: float


def reading_order(boxes: Sequence[Box]) -> list[int]:
    """Indices of `boxes` as they are read."""
    return _order(boxes, list(range(len(boxes))))


def columns(boxes: Sequence[Box]) -> list[list[int]]:
    """Indices of `boxes` by column of running text, left to right; one list when there are no columns."""
    return _columns(boxes, list(range(len(boxes))))


def _order(boxes: Sequence[Box], members: list[int]) -> list[int]:
    ordered: list[int] = []
    for band in _bands(boxes, members):
        parts = _columns(boxes, band)
        if len(parts) == 1:
            ordered += band
        else:
            for part in parts:
                ordered += _order(boxes, part)
    return ordered


def _bands(boxes: Sequence[Box], members: list[int]) -> list[list[int]]:
    bands: list[list[int]] = []
    for row in _groups(members, [(boxes[i].y0, boxes[i].y1) for i in members], 0.0):
        joined = sorted([*bands[-1], *row]) if bands else []
        if joined and len(_columns(boxes, joined)) > 1:
            bands[-1] = joined
        else:
            bands.append(row)
    return bands


def _columns(boxes: Sequence[Box], members: list[int]) -> list[list[int]]:
    if len(members) < 2:
        return [members]
    parts = _groups(members, [(boxes[i].x0, boxes[i].x1) for i in members], GUTTER)
    width = max(boxes[i].x1 for i in members) - min(boxes[i].x0 for i in members)
    for part in parts:
        wide = max(boxes[i].x1 for i in part) - min(boxes[i].x0 for i in part) >= COLUMN_SHARE * width
        if not wide or sum(boxes[i].prose for i in part) / len(part) < PROSE_LINE:
            return [members]
    return parts


def _groups(members: list[int], spans: list[tuple[float, float]], gap: float) -> list[list[int]]:
    """Members in groups that overlap or lie less than `gap` apart, in the order of the spans; inside a group, in the
    order given."""
    groups: list[list[int]] = []
    reach = float("-inf")
    for (start, end), member in sorted(zip(spans, members, strict=True)):
        if not groups or start - reach > gap:
            groups.append([])
        groups[-1].append(member)
        reach = max(reach, end)
    return [sorted(group) for group in groups]
