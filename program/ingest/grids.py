"""Tables on a page, found by the rules that are drawn for them: full grids, and the three lines of a typeset table.

Columns are where the rules or the gutters between the words say; a cell set over several columns of the header stands
in each of them, and a row that is one cell over all columns begins a table of its own under that title.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from program.ingest.bidi import has_right_to_left
from program.ingest.cells import goes_on_as_header, stacked, table_rows, titled
from program.ingest.layout import Box
from program.ingest.rules import NEAR, Rules, Turn, drawn_rules, table_regions

#: Most lines drawn on a page that is searched for tables; maps and plots have more.
MOST_RULES = 5000
#: Mean number of characters in a cell from which this is running text between rules, not a table.
LONG_CELL = 60

_LEADER = re.compile(r"(?:[.·_…]\s*){3,}$")

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Word:
    """A word and its place."""

    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: its place on the page, and its text as Markdown."""

    box: Box
    markdown: str

    def holds(self, box: Box) -> bool:
        x, y = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        return self.box.x0 - 1 <= x <= self.box.x1 + 1 and self.box.y0 - 1 <= y <= self.box.y1 + 1


@dataclass(frozen=True, slots=True)
class _Piece:
    """Words with ordinary spaces between them: a cell, or a line of one."""

    text: str
    x0: float
    x1: float
    y0: float
    y1: float


def find_grids(page: Any, turn: Turn, words: Sequence[Word]) -> list[Grid]:
    """The tables of a page, in frame `turn`, from top to bottom; none overlaps another."""
    rules = drawn_rules(page, turn)
    grids: list[Grid] = []
    if len(rules.level) < 2 or len(rules.level) + len(rules.upright) > MOST_RULES:
        return grids
    for region in sorted(table_regions(rules), key=lambda box: (box.x0 - box.x1) * (box.y1 - box.y0)):
        inside = [word for word in words if Grid(region, "").holds(word.box)]
        if inside and not any(grid.holds(region) or Grid(region, "").holds(grid.box) for grid in grids):
            markdown = _markdown(region, rules, inside)
            if markdown:
                grids.append(Grid(region, markdown))
    return sorted(grids, key=lambda grid: grid.box.y0)


def _markdown(region: Box, rules: Rules, words: Sequence[Word]) -> str:
    """The table in this region; "" if it is none."""
    lines = [_pieces(line) for line in _lines(words)]
    lines = [line for line in lines if line]
    pieces = [piece for line in lines for piece in line]
    if len(lines) < 2 or sum(len(piece.text) for piece in pieces) > LONG_CELL * len(pieces):
        return ""
    width, height = region.x1 - region.x0, region.y1 - region.y0
    ys = sorted(y for x0, x1, y in rules.level if region.y0 < y < region.y1 and x1 - x0 > 0.8 * width)
    bands = [
        [line for line in lines if low <= (line[0].y0 + line[0].y1) / 2 < high]
        for low, high in pairwise([region.y0 - 1, *ys, region.y1 + 1])
    ]
    bands = [band for band in bands if band]
    titles: list[str] = []
    while len(bands) > 1 and all(len(line) == 1 for line in bands[0]):
        titles.append(" ".join(line[0].text for line in bands.pop(0)))
    notes: list[str] = []
    uprights = [u for u in rules.upright if u[1] > region.y0 and u[0] < region.y1]
    ruled = {x for _, _, x in uprights if region.x0 + 2 * NEAR < x < region.x1 - 2 * NEAR}
    ruled = {x for x in ruled if sum(u[1] - u[0] for u in uprights if abs(u[2] - x) <= 1) > 0.4 * height}
    if len(bands) < 2 and not ruled:
        return ""  # a frame around something
    while len(bands) > 1 and any(_is_prose(piece, width) for line in bands[-1] for piece in line):
        notes = [" ".join(piece.text for piece in line) for line in bands.pop()] + notes
    cuts = _cuts(bands, ruled)
    if not cuts:
        return ""
    columns = list(pairwise([region.x0 - NEAR, *cuts, region.x1 + NEAR]))
    rows: list[list[str]] = []
    for place, band in enumerate(bands):
        header = place == 0 and len(bands) > 1
        spans = _header_spans(band, rules, region) if header else {}
        for line in band:  # a cell over all columns of a grid is a title, wherever it is centred
            middle = (line[0].y0 + line[0].y1) / 2
            if len(line) == 1 and ruled and not any(y0 < middle < y1 and x in ruled for y0, y1, x in uprights):
                spans[line[0]] = region.x0, columns[0][1]
        cells = [_cells(line, columns, spans) for line in band]
        if header or (len(rows) == 1 and goes_on_as_header(rows[0], stacked(cells))):
            rows = [stacked([*rows, *cells])]
        else:
            rows += table_rows(cells, bool(ruled))
    filled = [row for row in rows if sum(map(bool, row)) > 1]
    return "\n\n".join([*titles, titled(rows), *notes]) if len(filled) > 1 and 2 * len(filled) > len(rows) else ""


def _is_prose(piece: _Piece, width: float) -> bool:
    return len(piece.text) > LONG_CELL and 2 * (piece.x1 - piece.x0) > width


def _lines(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Words by baseline."""
    tall = median(word.box.y1 - word.box.y0 for word in words)
    line: list[Word] = []
    for word in sorted(words, key=lambda word: word.box.y0 + word.box.y1):
        if line and _middle(word) - _middle(line[0]) > 0.5 * tall:
            yield line
            line = []
        line.append(word)
    if line:
        yield line


def _middle(word: Word) -> float:
    return (word.box.y0 + word.box.y1) / 2


def _pieces(words: list[Word]) -> list[_Piece]:
    """A line's words in pieces with more than a space between them; dots that lead from cell to cell are left out."""
    order = {id(word): place for place, word in enumerate(words)}
    groups: list[list[Word]] = []
    for word in sorted(words, key=lambda word: word.box.x0):
        if _LEADER.match(word.text):
            continue
        if groups and word.box.x0 - groups[-1][-1].box.x1 < 0.75 * (word.box.y1 - word.box.y0):
            groups[-1].append(word)
        else:
            groups.append([word])
    return [_piece(group, order) for group in groups]


def _piece(words: list[Word], order: dict[int, int]) -> _Piece:
    if has_right_to_left("".join(word.text for word in words)):
        text = " ".join(word.text for word in sorted(words, key=lambda word: order[id(word)]))
    else:
        text = words[0].text
        for before, word in pairwise(words):
            touches = -0.3 < (word.box.x0 - before.box.x1) / (word.box.y1 - word.box.y0) < 0.08
            text += word.text if touches else f" {word.text}"
    boxes = [word.box for word in words]
    return _Piece(
        _LEADER.sub("", text).strip(),
        min(box.x0 for box in boxes),
        max(box.x1 for box in boxes),
        min(box.y0 for box in boxes),
        max(box.y1 for box in boxes),
    )


def _cuts(bands: list[list[list[_Piece]]], ruled: set[float]) -> list[float]:
    """Where columns end: at upright rules, and in the middle of gutters that three in four lines leave free. Between
    upright rules there are such gutters only where the header has several cells."""
    header = bands[0]
    lines = [line for band in bands[1:] or bands for line in band]
    most = max(map(len, lines))
    telling = [line for line in lines if 2 * len(line) >= most and len(line) > 1]
    if not ruled and 5 * len(telling) < 3 * len(lines):
        return []  # few lines have cells: running text in a frame
    edges = sorted((x, step) for line in telling for piece in line for x, step in ((piece.x0, 1), (piece.x1, -1)))
    cuts = sorted(ruled)
    depth, gutter_from = 0, None
    for x, step in edges:
        before, depth = depth, depth + step
        if depth <= len(telling) // 4 < before:
            gutter_from = x
        elif before <= len(telling) // 4 < depth and gutter_from is not None:
            cut = (gutter_from + x) / 2
            left = max((rule for rule in ruled if rule < cut), default=float("-inf"))
            right = min((rule for rule in ruled if rule > cut), default=float("inf"))
            cells = max(sum(left < (piece.x0 + piece.x1) / 2 < right for piece in line) for line in header)
            at_rule = gutter_from - NEAR <= left or right <= x + NEAR
            if x - gutter_from >= NEAR and not at_rule and (not ruled or cells > 1):
                cuts.append(cut)
            gutter_from = None
    return sorted(cuts)


def _header_spans(band: list[list[_Piece]], rules: Rules, region: Box) -> dict[_Piece, Span]:
    """Header cells over several columns: alone between two upright rules, or with a rule of their own below."""
    spans: dict[_Piece, Span] = {}
    for line in band:
        for piece in line:
            middle, centre = (piece.y0 + piece.y1) / 2, (piece.x0 + piece.x1) / 2
            xs = [x for y0, y1, x in rules.upright if y0 <= middle <= y1]
            left = max((x for x in xs if x <= centre), default=region.x0)
            right = min((x for x in xs if x > centre), default=region.x1)
            alone = all(other is piece or not left < (other.x0 + other.x1) / 2 < right for other in line)
            if xs and alone:
                spans[piece] = left, right
            for x0, x1, y in rules.level:
                below = middle < y < piece.y1 + 6
                if below and x0 <= centre <= x1 and x1 - x0 < 0.8 * (region.x1 - region.x0):
                    spans[piece] = x0, x1
    return spans


def _cells(line: list[_Piece], columns: list[Span], spans: dict[_Piece, Span]) -> list[str]:
    """The texts of a line by column. A piece that reaches into several columns stands in the one it begins in, in a
    header in all of them."""
    cells: list[list[str]] = [[] for _ in columns]
    for piece in line:
        x0, x1 = spans.get(piece, (piece.x0, piece.x1))
        shares = [max(0.0, min(x1, right) - max(x0, left)) for left, right in columns]
        if piece in spans:
            places = [i for i, (left, right) in enumerate(columns) if shares[i] >= 0.5 * min(right - left, x1 - x0)]
        elif len(line) == 1 and max(shares) < 0.6 * (x1 - x0):
            places = [0]
        else:
            places = [next(i for i, share in enumerate(shares) if share >= 0.25 * (x1 - x0) or share == max(shares))]
        for place in places or [0]:
            cells[place].append(piece.text)
    return [" ".join(texts) for texts in cells]
