"""One page of a PDF file as rows of print in reading order: lines as MuPDF gives them, tables as Markdown.

Everything is turned first so that it reads from left to right and from top to bottom: pages and texts in other
directions, vertical Japanese, and Arabic and Hebrew, whose pages are mirrored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

from program.ingest.bidi import mostly_right_to_left
from program.ingest.grids import Grid, Word, find_grids
from program.ingest.layout import Box, columns, reading_order
from program.ingest.lines import Frame, Line, bounds_of, direction_of, read_line
from program.ingest.mupdf import mupdf
from program.ingest.paragraphs import Row

#: Share of a page's height at its top and bottom where running headers and footers stand.
MARGIN = 0.1
#: Share of a page's characters from which text in another direction than most is read too.
DIRECTION_SHARE = 0.1
#: Fewest numbers, one under the other and one more each, that are a margin of line numbers.
LINE_NUMBERS = 10


def page_rows(page: Any, number: int) -> list[Row]:
    """The rows of a page in reading order. Text in another direction follows, if there is much of it."""
    pymupdf = mupdf()
    # Without the flag for glyph numbers, glyphs that no one knows come as U+FFFD instead of made-up letters.
    flags = pymupdf.TEXT_PRESERVE_LIGATURES | pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_MEDIABOX_CLIP
    blocks = [block["lines"] for block in page.get_text("rawdict", flags=flags)["blocks"] if "lines" in block]
    texts: dict[tuple[int, int], list[str]] = {}
    for line in (line for lines in blocks for line in lines):
        texts.setdefault(direction_of(line), []).extend(c["c"] for span in line["spans"] for c in span["chars"])
    everything = sum(map(len, texts.values()))
    rows: list[Row] = []
    for direction, characters in sorted(texts.items(), key=lambda item: -len(item[1])):
        if len(characters) >= DIRECTION_SHARE * everything:
            frame = Frame(direction, mostly_right_to_left("".join(characters)))
            rows += _rows_in_frame(page, blocks, frame, number, len(rows))
    return rows


def _rows_in_frame(page: Any, raw_blocks: list[Any], frame: Frame, number: int, first_block: int) -> list[Row]:
    raw = [[line for line in lines if direction_of(line) == frame.direction] for lines in raw_blocks]
    blocks = [[line for line in (read_line(line, frame) for line in lines) if line.text] for lines in raw]
    if any(line["wmode"] for lines in raw for line in lines):
        blocks = [_joined_verticals([line for lines in blocks for line in lines])]
    blocks = _even_scans(_without_doubles(_without_line_numbers(blocks)))
    grids = find_grids(page, frame.turn, [word for lines in blocks for line in lines for word in line.words])
    parts: list[list[Line] | Grid] = list(grids)
    for lines in blocks:
        outside = [line for line in lines if not any(grid.holds(line.box) for grid in grids)]
        parts += [[outside[i] for i in part] for part in columns([line.box for line in outside]) if part]
    edge = frame.turn((0.0, 0.0, page.cropbox.width, page.cropbox.height))
    rows: list[Row] = []
    boxes = [part.box if isinstance(part, Grid) else bounds_of(part) for part in parts]
    for place, index in enumerate(reading_order(boxes)):
        part = parts[index]
        if isinstance(part, Grid):
            rows.append(_table_row(part, number, first_block + place))
        else:
            rows += [_row(line, number, first_block + place, (edge[1], edge[3])) for line in _baselines(part)]
    return rows


def _row(parts: list[Line], page: int, block: int, edge: tuple[float, float]) -> Row:
    bounds = bounds_of(parts)
    margin = MARGIN * (edge[1] - edge[0])
    return Row(
        text=" ".join(" ".join(part.text for part in parts).split()),
        page=page,
        block=block,
        x0=bounds.x0,
        y0=bounds.y0,
        x1=bounds.x1,
        y1=bounds.y1,
        size=max(parts, key=lambda part: len(part.text)).size,
        bold=all(part.bold for part in parts),
        cells=1 + sum(b.box.x0 - a.box.x1 > a.size for a, b in pairwise(parts)),
        in_margin=bounds.y1 < edge[0] + margin or bounds.y0 > edge[1] - margin,
    )


def _table_row(grid: Grid, page: int, block: int) -> Row:
    box = grid.box
    return Row(grid.markdown, page, block, box.x0, box.y0, box.x1, box.y1, 1.0, False, 1, False, table=True)


def _baselines(lines: list[Line]) -> Iterator[list[Line]]:
    """Lines that follow each other on one baseline: a section's number and name, a table's row, parts of a formula."""
    row: list[Line] = []
    for line in lines:
        if row and not _on_one_baseline(bounds_of(row), line.box):
            yield row
            row = []
        row.append(line)
    if row:
        yield row


def _on_one_baseline(first: Box, second: Box) -> bool:
    shared = min(first.y1, second.y1) - max(first.y0, second.y0)
    return shared >= 0.5 * min(first.y1 - first.y0, second.y1 - second.y0)


def _joined_verticals(lines: list[Line]) -> list[Line]:
    """Lines of vertical writing, of which MuPDF makes one line for each character, put together."""
    joined: list[Line] = []
    for line in lines:
        before = joined[-1] if joined else None
        if (
            before
            and _on_one_baseline(before.box, line.box)
            and -0.5 * line.size < line.box.x0 - before.box.x1 < line.size
        ):
            bounds = bounds_of([before, line])
            box = replace(bounds, prose=before.box.prose + line.box.prose)
            words = (Word(before.text + line.text, box),)
            joined[-1] = replace(before, text=before.text + line.text, words=words, box=box)
        else:
            joined.append(line)
    return joined


def _without_doubles(blocks: list[list[Line]]) -> list[list[Line]]:
    """Without what is printed twice in one place (bold type made by printing again, a shadow), and without invisible
    text under the same text in print."""
    printed = [line for lines in blocks for line in lines if line.printed]
    hidden = any(not line.printed for lines in blocks for line in lines)
    seen: dict[str, list[Box]] = {}

    def doubled(line: Line) -> bool:
        others = seen.setdefault(line.text, [])
        if any(_covered(line.box, other) > 0.5 for other in others):
            return True
        others.append(line.box)
        return hidden and not line.printed and sum(_covered(line.box, other.box) for other in printed) > 0.5

    return [[line for line in lines if not doubled(line)] for lines in blocks]


def _covered(box: Box, other: Box) -> float:
    """Share of `box` that lies in `other`."""
    width = min(box.x1, other.x1) - max(box.x0, other.x0)
    height = min(box.y1, other.y1) - max(box.y0, other.y0)
    area = (box.x1 - box.x0) * (box.y1 - box.y0)
    return max(width, 0.0) * max(height, 0.0) / area if area > 0 else 0.0


def _even_scans(blocks: list[list[Line]]) -> list[list[Line]]:
    """With one size of type for what OCR has read: it measures every line anew, and never twice the same."""
    sizes = [line.size for lines in blocks for line in lines if not line.printed for _ in line.text]
    usual = median(sizes) if sizes else 0.0

    def even(line: Line) -> Line:
        return replace(line, size=usual) if not line.printed and 0.7 < line.size / usual < 1.4 else line

    return [[even(line) for line in lines] for lines in blocks] if usual else blocks


def _without_line_numbers(blocks: list[list[Line]]) -> list[list[Line]]:
    """Without the numbers of lines at the left of a page, as transcripts and drafts have them."""
    numbers = [line for lines in blocks for line in lines if re.fullmatch(r"\d{1,5}", line.text)]
    edges = [Counter(round(line.box.x0) for line in numbers), Counter(round(line.box.x1) for line in numbers)]
    (left, flush_left), (right, flush_right) = (edge.most_common(1)[0] if edge else (0, 0) for edge in edges)
    column = [
        line
        for line in sorted(numbers, key=lambda line: line.box.y0)
        if abs(line.box.x0 - left if flush_left > flush_right else line.box.x1 - right) < 2
    ]
    if len(column) < LINE_NUMBERS:
        return blocks
    step, times = Counter(int(b.text) - int(a.text) for a, b in pairwise(column)).most_common(1)[0]
    edge, top, bottom = max(line.box.x1 for line in column), column[0].box.y0, column[-1].box.y1
    others = [line.box for lines in blocks for line in lines if line not in column]
    beside = [box for box in others if box.y0 < bottom and box.y1 > top]
    if step < 1 or times < 0.8 * (len(column) - 1) or not beside or any(box.x0 <= edge + 1 for box in beside):
        return blocks
    return [[line for line in lines if line not in column] for lines in blocks]
