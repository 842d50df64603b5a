"""The lines that are drawn on a page, and where they may be those of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from program.ingest.layout import Box

#: How far apart, in points, ends of rules may be that meet.
NEAR = 3.0
#: Characters in a line that a table counts for when columns of text are looked for.
LINE = 60

Turn = Callable[[tuple[float, float, float, float]], tuple[float, float, float, float]]


@dataclass(frozen=True, slots=True)
class Rules:
    """Lines drawn on the page: level ones as (x0, x1, y), upright ones as (y0, y1, x)."""

    level: list[tuple[float, float, float]]
    upright: list[tuple[float, float, float]]


def drawn_rules(page: Any, turn: Turn) -> Rules:
    """The level and upright lines of a page, and the edges of its rectangles, in frame `turn`."""
    level: list[tuple[float, float, float]] = []
    upright: list[tuple[float, float, float]] = []

    def add(x0: float, y0: float, x1: float, y1: float) -> None:
        if y1 - y0 <= 2 and x1 - x0 >= 8:
            level.append(((y0 + y1) / 2, x0, x1))
        elif x1 - x0 <= 2 and y1 - y0 >= 3:
            upright.append(((x0 + x1) / 2, y0, y1))

    most = 0.5 * page.cropbox.width * page.cropbox.height
    for path in page.get_cdrawings():
        for kind, *shape in path["items"]:
            if kind == "l":
                (ax, ay), (bx, by) = shape[0], shape[1]
                add(*turn((min(ax, bx), min(ay, by), max(ax, bx), max(ay, by))))
            elif kind == "re":
                x0, y0, x1, y1 = turn(tuple(shape[0]))
                if min(x1 - x0, y1 - y0) <= 2:
                    add(x0, y0, x1, y1)
                elif (x1 - x0) * (y1 - y0) < most:
                    for edge in ((x0, y0, x1, y0), (x0, y1, x1, y1), (x0, y0, x0, y1), (x1, y0, x1, y1)):
                        add(*edge)
    return Rules(_merged(level), _merged(upright))


def _merged(rules: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """(at, start, end) of rules, those on one line and touching put together, as (start, end, at)."""
    merged: list[list[float]] = []
    for at, start, end in sorted((round(at), start, end) for at, start, end in rules):
        last = next(
            (rule for rule in reversed(merged[-12:]) if abs(rule[2] - at) <= 1 and start - rule[1] <= NEAR), None
        )
        if last:
            last[0], last[1] = min(last[0], start), max(last[1], end)
        else:
            merged.append([start, end, at])
    return [(start, end, at) for start, end, at in merged]


def table_regions(rules: Rules) -> Iterator[Box]:
    """Where tables may be: rules that cross each other, and three or more level ones of one width."""
    groups: list[tuple[list[tuple[float, float, float]], list[tuple[float, float, float]]]] = []
    for x0, x1, y in rules.level:
        crossing = [u for u in rules.upright if x0 - NEAR <= u[2] <= x1 + NEAR and u[0] - NEAR <= y <= u[1] + NEAR]
        joined = [group for group in groups if any(u in group[1] for u in crossing)]
        for group in joined:
            groups.remove(group)
        levels = [(x0, x1, y), *(rule for group in joined for rule in group[0])]
        groups.append((levels, [*crossing, *(rule for group in joined for rule in group[1])]))
    alone: dict[tuple[int, int], list[float]] = {}
    for levels, uprights in groups:
        if uprights and len(levels) > 1:
            yield _around(levels, uprights)
        elif not uprights:
            x0, x1, y = levels[0]
            key = next((key for key in alone if abs(key[0] - x0) < NEAR and abs(key[1] - x1) < NEAR), None)
            alone.setdefault(key or (round(x0), round(x1)), []).append(y)
    for (left, right), ys in alone.items():
        if len(ys) > 2:
            yield Box(left, min(ys), right, max(ys), LINE)


def _around(levels: list[tuple[float, float, float]], uprights: list[tuple[float, float, float]]) -> Box:
    """What the rules enclose; the last row of a table that goes on overleaf has no rule below."""
    ys = [*(y for _, _, y in levels), *(y for start, end, _ in uprights for y in (start, end))]
    return Box(min(x0 for x0, _, _ in levels), min(ys), max(x1 for _, x1, _ in levels), max(ys), LINE)
