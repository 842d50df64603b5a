"""Rows of print as paragraphs: where one begins, which are headings, and cut ones put together again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

#: Type larger than the text's by this factor heads a section; smaller by SMALL is a footnote or a caption.
LARGE = 1.08
SMALL = 0.93
#: White between lines, in sizes of type, from which a document has double spacing.
WIDE = 0.5

_NUMBERED = re.compile(
    r"(?:\d{1,2}(?:\.\d{1,2}){0,3}\.?|[A-Z](?:\.|(?:\.\d{1,2}){1,3}\.?)|[IVX]{1,5}\.)\s+[^\W\d_a-z]\S*"
)
_NAMED = re.compile(
    r"(?:(?:\d{1,2}|[IVX]{1,4})\.?\s+)?(?:abstract|introduction|background|related works?|methods?|results|discussion"
    r"|conclusions?|references|bibliography|works cited|acknowledge?ments?|appendix|appendices)[.:]?",
    re.IGNORECASE,
)
_CAPTION = re.compile(r"(?:figure|fig\.|table|algorithm|listing)\s*\d+\s*[:.]", re.I)
_BULLET = re.compile(r"[•‣◦▪●∙–-]\s")
_ENDED = re.compile(r"[.!?:;。！？：؟][\"”’)\]»\d,\s\[]*$")

_Kind = Literal["body", "float", "heading", "table"]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of print, or a whole table as Markdown, alone in its block. Boxes are in points; `block` numbers the
    block it stands in, page by page; `cells` counts pieces with wide gaps between them."""

    text: str
    page: int
    block: int
    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    bold: bool
    cells: int
    in_margin: bool
    table: bool = False


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Rows that belong together; a `float` is what the text flows around: a caption, a footnote, a row of cells."""

    rows: tuple[Row, ...]
    kind: _Kind
    full: bool = False  # its last row reaches the right edge, so that the paragraph may go on elsewhere

    @property
    def text(self) -> str:
        return " ".join(row.text for row in self.rows)


def body_size(rows: list[Row]) -> float:
    """Size of type, in points, of most of the text."""
    sizes: Counter[float] = Counter()
    for row in rows:
        sizes[round(row.size * 2) / 2] += 0 if row.table else len(row.text)
    return sizes.most_common(1)[0][0]


def names_section(text: str) -> bool:
    """Does this read as the heading of a section: numbered, or one of the usual ones?"""
    return bool(_NAMED.fullmatch(text) or _NUMBERED.match(text))


def paragraphs_of(rows: list[Row], body: float) -> Iterator[Paragraph]:
    """Rows as paragraphs, block by block; a run-in heading (Abstract. We ...) becomes a heading of its own."""
    headed = False
    spacing = _spacing(rows)
    for block in _blocks(rows, spacing):
        right = max(row.x1 for row in block)
        left = min(row.x0 for row in block)
        current: list[Row] = []
        for row in block:
            if current and _breaks(current, row, left, right, body, spacing):
                yield _paragraph(current, block, body, headed, right)
                headed = headed or _is_heading(current, block, body, headed)
                current = []
            current.append(row)
        yield _paragraph(current, block, body, headed, right)
        headed = headed or _is_heading(current, block, body, headed)


def _spacing(rows: list[Row]) -> float:
    """White between two lines, in sizes of type: about 0 in print, 1 in a manuscript with double spacing."""
    gaps = [(b.y0 - a.y1) / a.size for a, b in pairwise(rows) if a.page == b.page and a.size == b.size and not a.table]
    return median([gap for gap in gaps if -0.5 < gap < 2.5] or [0.0])


def _blocks(rows: list[Row], spacing: float) -> Iterator[list[Row]]:
    """Rows by block. In double spacing each line is a block, and what follows a full line is put together with it."""
    rights: dict[int, float] = {}
    for row in rows:
        rights[row.page] = max(rights.get(row.page, 0.0), row.x1)
    block: list[Row] = []
    for row in rows:
        if block and (row.page, row.block) != (block[-1].page, block[-1].block):
            last = block[-1]
            full = last.x1 > rights[last.page] - 0.15 * (rights[last.page] - last.x0)
            same = (row.page, row.size, row.bold, row.table) == (last.page, last.size, last.bold, last.table)
            near = spacing > WIDE and abs((row.y0 - last.y1) / last.size - spacing) < 0.2
            if not (near and full and same):
                yield block
                block = []
        block.append(row)
    if block:
        yield block


def _breaks(current: list[Row], row: Row, left: float, right: float, body: float, spacing: float) -> bool:
    """Does `row` begin a new paragraph of its block?"""
    last = current[-1]
    height = max(last.size, 1.0)
    if row.bold != last.bold or abs(row.size - last.size) > 0.12 * height:
        return _looks_headed(last, body) != _looks_headed(row, body)
    if row.cells > 2 or last.cells > 2 or _BULLET.match(row.text):
        return True
    if row.y0 - last.y1 > (0.7 if spacing < WIDE else spacing + 0.2) * height:
        return True
    ended = _ENDED.search(last.text) is not None
    indented = row.x0 > left + 0.8 * height and last.x0 <= left + 0.4 * height
    return ended and (indented or last.x1 < right - 0.15 * (right - left))


def _looks_headed(row: Row, body: float) -> bool:
    return row.bold or row.size >= LARGE * body


def _paragraph(rows: list[Row], block: list[Row], body: float, headed: bool, right: float) -> Paragraph:
    if rows[0].table:
        return Paragraph(tuple(rows), "table")
    if _is_heading(rows, block, body, headed):
        return Paragraph(tuple(rows), "heading")
    text = rows[0].text
    small = max(row.size for row in rows) < SMALL * body
    if small or rows[0].cells > 2 or _CAPTION.match(text):
        return Paragraph(tuple(rows), "float")
    return Paragraph(tuple(rows), "body", len(rows) > 1 and rows[-1].x1 >= right - rows[-1].size)


def _is_heading(rows: list[Row], block: list[Row], body: float, headed: bool) -> bool:
    text = " ".join(row.text for row in rows)
    if (
        rows[0].table
        or len(text) > 120
        or len(rows) > 3
        or sum(c.isalpha() for c in text) < 3
        or any(row.cells > 2 for row in rows)
    ):
        return False
    alone = len(rows) == len(block)
    if _NAMED.fullmatch(text):
        return alone or all(_looks_headed(row, body) for row in rows)
    if text[-1] in ".,;:" or not all(_looks_headed(row, body) for row in rows) or _CAPTION.match(text):
        return False
    if _NUMBERED.match(text) or all(row.size >= LARGE * body for row in rows):
        return True
    # Bold type of the text's size heads a section too, but before the first heading it is authors' names.
    return headed and alone and len(text.split()) <= 8 and text[0].isupper()


def in_order(paragraphs: Iterator[Paragraph]) -> Iterator[Paragraph]:
    """Puts cut paragraphs together again; what stands between the parts is set after them."""
    running: Paragraph | None = None
    held: list[Paragraph] = []
    for paragraph in paragraphs:
        if running and paragraph.kind == "body" and _goes_on(running, paragraph):
            running = Paragraph(running.rows + paragraph.rows, "body", paragraph.full)
        elif running and (paragraph.kind in ("float", "table") or _interrupts(running, paragraph)):
            held.append(paragraph)
        else:
            if running:
                yield running
            yield from held
            running, held = None, []
            if paragraph.kind == "body":
                running = paragraph
            else:
                yield paragraph
    if running:
        yield running
    yield from held


def _interrupts(running: Paragraph, paragraph: Paragraph) -> bool:
    """A line in a cut sentence: the head of the next page, or of a column beside a title."""
    cut = len(running.rows) > 1 and not _ENDED.search(running.rows[-1].text)
    return cut and paragraph.kind == "body" and len(paragraph.rows) == 1


def _goes_on(first: Paragraph, second: Paragraph) -> bool:
    end, begin = first.rows[-1], second.rows[0]
    if _ENDED.search(end.text) or _BULLET.match(begin.text):
        return False
    if end.in_margin and not begin.in_margin and end.page == begin.page and end.y0 < begin.y0:
        return False  # a page's header, which stands there once only
    elsewhere = begin.page != end.page or begin.y0 < end.y0
    return begin.text[0].islower() or end.text.endswith("-") or (first.full and elsewhere)
