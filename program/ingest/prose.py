"""From the rows of a laid-out document to running text: paragraphs, headings, sections."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from program.ingest.documents import DocumentText, Outline, Section, Table, clean_title, kind_of
from program.ingest.tables import find_tables
from program.tokens import count_tokens

#: Type larger than the text's by this factor heads a section; smaller by SMALL is a footnote or a caption.
LARGE = 1.08
SMALL = 0.93
#: White between lines, in sizes of type, from which a document has double spacing.
WIDE = 0.5
#: Earliest place, as a share of the document, where its references and its acknowledgments may begin.
REFERENCES_FROM = 0.3
ACKNOWLEDGMENTS_FROM = 0.5

_NUMBERED = re.compile(
    r"(?:\d{1,2}(?:\.\d{1,2}){0,3}\.?|[A-Z](?:\.|(?:\.\d{1,2}){1,3}\.?)|[IVX]{1,5}\.)\s+[^\W\d_a-z]\S*"
)
_NAMED = re.compile(
    r"(?:(?:\d{1,2}|[IVX]{1,4})\.?\s+)?(?:abstract|introduction|background|related works?|methods?|results|discussion"
    r"|conclusions?|references|bibliography|works cited|acknowledge?ments?|appendix|appendices)[.:]?",
    re.IGNORECASE,
)
_RUN_IN = re.compile(
    r"(?:(Abstract|ABSTRACT)\s*[—–:.-]|(Acknowledge?ments?|ACKNOWLEDGE?MENTS?)(?:\s*[—–:.-]|\s))\s*(?=[A-Z\"“])"
)
_LEVELS = re.compile(r"((?:\d{1,2}|[A-Z])(?:\.\d{1,2})*)\.?\s")
_NUMBER = r"(?:[\dIVX]+\.?\s+)?"
_OF_A_PAPER = re.compile(rf"{_NUMBER}(?:abstract|introduction)[.:]?", re.I)
_REFERENCES = re.compile(rf"{_NUMBER}(?:references|bibliography|works cited|literature cited)[.:]?", re.I)
_ACKNOWLEDGMENTS = re.compile(rf"{_NUMBER}acknowledge?ments?[.:]?", re.I)
_APPENDIX = re.compile(
    r"(?:[A-Z]\.?\s+)?(?:[Aa]ppendi|APPENDI|[Ss]upplement|SUPPLEMENT)|[A-Z](?:\.\d{1,2})*\.?\s+[A-Z]"
)
_CAPTION = re.compile(r"(?:figure|fig\.|table|algorithm|listing)\s*\d+\s*[:.]", re.I)
_BULLET = re.compile(r"[•‣◦▪●∙–-]\s")
_ENDED = re.compile(r"[.!?:;。！？：؟][\"”’)\]»\d,\s\[]*$")
_CJK = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")

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
class _Paragraph:
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


def document_from_rows(rows: list[Row], *, back_matter: bool = False) -> DocumentText:
    """Text with a blank line between paragraphs, its sections, tables and pages; the title is left to the caller.

    back_matter: keep a paper's acknowledgments and references too.
    """
    paragraphs = list(_in_order(_paragraphs(rows, body_size(rows))))
    headed = [(_heading_of(paragraph), paragraph) for paragraph in paragraphs]
    if not back_matter and any(_OF_A_PAPER.fullmatch(heading) for (_, heading), _ in headed):
        headed = _without_back_matter(headed)
    return _assemble([(run_in, paragraph) for (run_in, _), paragraph in headed], _vocabulary(rows))


def _paragraphs(rows: list[Row], body: float) -> Iterator[_Paragraph]:
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


def _paragraph(rows: list[Row], block: list[Row], body: float, headed: bool, right: float) -> _Paragraph:
    if rows[0].table:
        return _Paragraph(tuple(rows), "table")
    if _is_heading(rows, block, body, headed):
        return _Paragraph(tuple(rows), "heading")
    text = rows[0].text
    small = max(row.size for row in rows) < SMALL * body
    if small or rows[0].cells > 2 or _CAPTION.match(text):
        return _Paragraph(tuple(rows), "float")
    return _Paragraph(tuple(rows), "body", len(rows) > 1 and rows[-1].x1 >= right - rows[-1].size)


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


def _in_order(paragraphs: Iterator[_Paragraph]) -> Iterator[_Paragraph]:
    """Puts cut paragraphs together again; what stands between the parts is set after them."""
    running: _Paragraph | None = None
    held: list[_Paragraph] = []
    for paragraph in paragraphs:
        if running and paragraph.kind == "body" and _goes_on(running, paragraph):
            running = _Paragraph(running.rows + paragraph.rows, "body", paragraph.full)
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


def _interrupts(running: _Paragraph, paragraph: _Paragraph) -> bool:
    """A line in a cut sentence: the head of the next page, or of a column beside a title."""
    cut = len(running.rows) > 1 and not _ENDED.search(running.rows[-1].text)
    return cut and paragraph.kind == "body" and len(paragraph.rows) == 1


def _goes_on(first: _Paragraph, second: _Paragraph) -> bool:
    end, begin = first.rows[-1], second.rows[0]
    if _ENDED.search(end.text) or _BULLET.match(begin.text):
        return False
    if end.in_margin and not begin.in_margin and end.page == begin.page and end.y0 < begin.y0:
        return False  # a page's header, which stands there once only
    elsewhere = begin.page != end.page or begin.y0 < end.y0
    return begin.text[0].islower() or end.text.endswith("-") or (first.full and elsewhere)


def _heading_of(paragraph: _Paragraph) -> tuple[str, str]:
    """(what is run into the paragraph, the heading): Abstract. We ...; both are "" for most."""
    if paragraph.kind == "heading":
        return "", paragraph.text
    run_in = _RUN_IN.match(paragraph.text) if paragraph.kind in ("body", "float") else None
    return (run_in.group(), run_in.group(1) or run_in.group(2)) if run_in else ("", "")


def _without_back_matter(
    paragraphs: list[tuple[tuple[str, str], _Paragraph]],
) -> list[tuple[tuple[str, str], _Paragraph]]:
    """Without all that follows the heading of the acknowledgments or the references, but for appendices: they hold
    numbers and proofs that people ask for, and nobody's name."""
    kept: list[tuple[tuple[str, str], _Paragraph]] = []
    total = sum(len(paragraph.text) for _, paragraph in paragraphs)
    position = 0
    left_out = False
    for headed, paragraph in paragraphs:
        heading = headed[1]
        at = position / total
        if (at >= REFERENCES_FROM and _REFERENCES.fullmatch(heading)) or (
            at >= ACKNOWLEDGMENTS_FROM and _ACKNOWLEDGMENTS.fullmatch(heading)
        ):
            left_out = True
        elif heading and _APPENDIX.match(heading):
            left_out = False
        position += len(paragraph.text)
        if not left_out:
            kept.append((headed, paragraph))
    return kept


def _assemble(paragraphs: list[tuple[str, _Paragraph]], vocabulary: Counter[str]) -> DocumentText:
    parts: list[str] = []
    length = 0
    sections: list[Section] = []
    pages: list[tuple[int, int]] = []
    tables: list[Table] = []
    heading, kind, start = "", kind_of(""), 0
    outline = Outline()

    def add(text: str) -> None:
        nonlocal length
        parts.append(text)
        length += len(text)

    for run_in, paragraph in paragraphs:
        if length:
            add("\n\n")
        if paragraph.kind == "heading" or run_in:
            sections.append(Section(start, length, heading, kind))
            own = clean_title(run_in.strip(" —–:.-") or _joined(paragraph.rows, vocabulary))
            kind = kind_of(own)
            number = _LEVELS.match(own)
            level = len(number.group(1).split(".")) if number else 0
            heading = outline.heading(level, own, after_text=length - start > len("\n\n"))
        before = length
        for place, row in enumerate(paragraph.rows):
            following = paragraph.rows[place + 1] if place + 1 < len(paragraph.rows) else None
            if not pages or pages[-1][1] != row.page:
                pages.append((length, row.page))
            if paragraph.kind == "table":
                tables += [
                    Table(length + found.start, length + found.end, length + found.header_end)
                    for found in find_tables(row.text)
                ]
            add(_join(row.text, following.text, vocabulary) if following else row.text)
        if paragraph.kind == "heading":
            start = length
        elif run_in:
            start = before + len(run_in)
    sections.append(Section(start, length, heading, kind))
    text = "".join(parts)
    return DocumentText(
        title="",
        text=text,
        sections=tuple(section for section in sections if text[section.start : section.end].strip()),
        pages=tuple(pages),
        tables=tuple(tables),
    )


def _joined(rows: tuple[Row, ...], vocabulary: Counter[str]) -> str:
    texts = [row.text for row in rows]
    return "".join(_join(a, b, vocabulary) for a, b in zip(texts, [*texts[1:], ""], strict=True)).strip()


def _join(line: str, following: str, vocabulary: Counter[str]) -> str:
    """`line` so that `following` can be set right behind it: with a space, without its hyphen, or as it is."""
    if line.endswith("\u00ad"):
        return line[:-1]
    broken = re.search(r"([^\W_]+)([-\u2010])$", line)
    if broken:
        return line if _keeps_hyphen(broken.group(1), following, vocabulary) else line[:-1]
    if line[-1:] and following[:1] and _CJK.match(line[-1]) and _CJK.match(following[0]):
        return line
    return line + " "


def _keeps_hyphen(left: str, following: str, vocabulary: Counter[str]) -> bool:
    """long-range or train-ing? By the document's own words first, then by which words are common."""
    right = re.match(r"[^\W\d_]*(?:-[^\W_]+)*", following)
    word = right.group() if right else ""
    if not word or word[0].isupper() or "-" in word or left[-1].isdigit():
        return True
    joined, hyphenated = (left + word).casefold(), f"{left}-{word}".casefold()
    if vocabulary[joined] or vocabulary[hyphenated]:
        return vocabulary[hyphenated] > vocabulary[joined]
    # A common word is one token of the language model's vocabulary.
    common = [len(part) > 2 and count_tokens(f" {part}") == 1 for part in (joined, left.casefold(), word.casefold())]
    return not common[0] and common[1] and common[2]


def _vocabulary(rows: list[Row]) -> Counter[str]:
    """How often each word, and each hyphenated word, stands whole on a line."""
    words: Counter[str] = Counter()
    for row in (row for row in rows if not row.table):
        found = re.findall(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*[-\u2010]?", row.text)
        words.update(word.casefold().replace("\u2010", "-") for word in found if word[-1] not in "-\u2010")
    return words
