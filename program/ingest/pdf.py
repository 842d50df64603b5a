"""Reader for PDF files, by PyMuPDF: running text in reading order, with the page of every place.

A page gives blocks of lines. Lines on one baseline make a row, rows make paragraphs (one line of text each, words that
were broken at line ends mended), and a paragraph that a page or column break cuts is put together again: captions,
table rows and footnotes in between are set after it. Running headers and footers, page numbers, acknowledgments and
references are left out.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any
from unicodedata import normalize

from program.errors import CorruptFile, EncryptedFile, NoText
from program.ingest.documents import DocumentText, clean_text, clean_title, title_from_name
from program.ingest.layout import Box, columns, reading_order
from program.ingest.prose import Row, body_size, document_from_rows, names_section

#: Fewer letters and digits than this is a scan, or nothing.
MIN_CHARACTERS = 100
#: Share of a page's height at its top and bottom where running headers and footers stand.
MARGIN = 0.1
#: Share of a page's characters from which text in another direction than most is read too.
DIRECTION_SHARE = 0.1

_LOCK = threading.Lock()  # MuPDF is not made for threads
_BOLD = 16  # span flag
_PAGE_NUMBER = re.compile(r"[-–—|\s]*(?:page\s*)?(?:\d{1,4}|[ivxlc]+)(?:\s*(?:of|/)\s*\d+)?[-–—|\s]*", re.IGNORECASE)
_NO_TITLE = re.compile(r"untitled|microsoft|powerpoint|arxiv:|\.[a-z]{2,4}$|^[\W\d_]*$", re.IGNORECASE)


def read_pdf(data: bytes, stem: str, password: str | None = None) -> DocumentText:
    """Raises CorruptFile, EncryptedFile, NoText."""
    if b"%PDF-" not in data[:1024]:
        raise CorruptFile("This is not a PDF file.", "Its name may have the wrong extension.")
    pymupdf = _pymupdf()
    with _LOCK:
        try:
            with pymupdf.open(stream=data, filetype="pdf") as document:
                _unlock(document, password)
                metadata_title = str((document.metadata or {}).get("title") or "")
                pages = [_rows(document[number], number + 1) for number in range(document.page_count)]
        except (EncryptedFile, MemoryError):
            raise
        except Exception as error:  # MuPDF's errors have no common type
            raise CorruptFile(f"The PDF file is damaged ({error}).", "Open it in a viewer and save it anew.") from error
    rows = _flat(_without_margins(pages))
    if _characters(rows) < MIN_CHARACTERS:
        rows = _flat(pages)
    if _characters(rows) < MIN_CHARACTERS:
        held = f"only {_characters(rows)} letters of" if _characters(rows) else "no"
        raise NoText(f"The PDF file holds {held} text: it may be a scan.", "Run OCR on it, for example with ocrmypdf.")
    title_rows = _title_rows(rows)
    printed = clean_title(normalize("NFKC", " ".join(row.text for row in title_rows)))
    title = clean_title(normalize("NFKC", metadata_title))
    if len(title) < 5 or _NO_TITLE.search(title):
        title = printed or title_from_name(stem)
    text = document_from_rows([row for row in rows if row not in title_rows])
    return replace(text, title=title)


def _flat(pages: list[list[Row]]) -> list[Row]:
    return [row for rows in pages for row in rows]


def _characters(rows: list[Row]) -> int:
    return sum(character.isalnum() for row in rows for character in row.text)


@cache
def _pymupdf() -> ModuleType:
    import pymupdf

    pymupdf.TOOLS.mupdf_display_errors(False)  # they are raised anyway
    pymupdf.TOOLS.mupdf_display_warnings(False)
    return pymupdf  # type: ignore[no-any-return]


def _unlock(document: Any, password: str | None) -> None:
    if document.needs_pass and not document.authenticate(password or ""):
        wrong = "is wrong" if password else "is needed"
        raise EncryptedFile(f"The PDF file is encrypted and a password {wrong}.", "Give it with --password.")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line as MuPDF gives it, its box turned so that it reads from left to right."""

    text: str
    box: Box
    size: float
    bold: bool


def _rows(page: Any, number: int) -> list[Row]:
    """The rows of a page in reading order. Text in another direction follows, if there is much of it."""
    pymupdf = _pymupdf()
    # Without the flag for glyph numbers, glyphs that no one knows come as U+FFFD instead of made-up letters.
    flags = pymupdf.TEXT_PRESERVE_LIGATURES | pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_MEDIABOX_CLIP
    blocks = page.get_text("dict", flags=flags)["blocks"]
    characters: Counter[tuple[int, int]] = Counter()
    for block in blocks:
        for line in block.get("lines", ()):
            characters[_direction(line)] += sum(len(span["text"]) for span in line["spans"])
    rows: list[Row] = []
    for direction, count in characters.most_common():
        if count >= DIRECTION_SHARE * characters.total():
            edge = _turn((0.0, 0.0, page.cropbox.width, page.cropbox.height), direction)
            rows += _rows_in_direction(blocks, direction, number, len(rows), (edge[1], edge[3]))
    return rows


def _rows_in_direction(
    blocks: list[Any], direction: tuple[int, int], page: int, first_block: int, edge: tuple[float, float]
) -> list[Row]:
    turned: list[list[_Line]] = []
    for block in blocks:
        lines = [_line(line, direction) for line in block.get("lines", ()) if _direction(line) == direction]
        lines = [line for line in lines if line.text.strip()]
        turned += [[lines[i] for i in part] for part in columns([line.box for line in lines]) if part]
    margin = MARGIN * (edge[1] - edge[0])
    rows: list[Row] = []
    for place, index in enumerate(reading_order([_bounds(lines) for lines in turned])):
        for parts in _baselines(turned[index]):
            bounds = _bounds(parts)
            rows.append(
                Row(
                    text=" ".join(" ".join(part.text for part in parts).split()),
                    page=page,
                    block=first_block + place,
                    x0=bounds.x0,
                    y0=bounds.y0,
                    x1=bounds.x1,
                    y1=bounds.y1,
                    size=max(parts, key=lambda part: len(part.text)).size,
                    bold=all(part.bold for part in parts),
                    cells=1 + sum(b.box.x0 - a.box.x1 > a.size for a, b in pairwise(parts)),
                    in_margin=bounds.y1 < edge[0] + margin or bounds.y0 > edge[1] - margin,
                )
            )
    return rows


def _baselines(lines: list[_Line]) -> Iterator[list[_Line]]:
    """Lines that follow each other on one baseline: a section's number and name, a table's row, parts of a formula."""
    row: list[_Line] = []
    for line in lines:
        if row:
            bounds = _bounds(row)
            shared = min(bounds.y1, line.box.y1) - max(bounds.y0, line.box.y0)
            if shared < 0.5 * min(bounds.y1 - bounds.y0, line.box.y1 - line.box.y0):
                yield row
                row = []
        row.append(line)
    if row:
        yield row


def _line(line: Any, direction: tuple[int, int]) -> _Line:
    spans = [span for span in line["spans"] if span["text"].strip()]
    text = clean_text("".join(span["text"] for span in line["spans"])).replace("\n", " ").replace("\t", " ")
    if not spans:
        return _Line("", Box(0, 0, 0, 0, 0), 0.0, False)
    x0, y0, x1, y1 = _turn(line["bbox"], direction)
    size = float(max(spans, key=lambda span: len(span["text"]))["size"])
    bold = all(span["flags"] & _BOLD or "bold" in span["font"].casefold() for span in spans)
    return _Line(text, Box(x0, y0, x1, y1, len(text)), size, bold)


def _direction(line: Any) -> tuple[int, int]:
    return round(line["dir"][0]), round(line["dir"][1])


def _turn(box: tuple[float, float, float, float], direction: tuple[int, int]) -> tuple[float, float, float, float]:
    """The box in a frame where text of this direction runs from left to right, lines from top to bottom."""
    x, y = direction if direction != (0, 0) else (1, 0)
    us = [u * x + v * y for u in (box[0], box[2]) for v in (box[1], box[3])]
    vs = [v * x - u * y for u in (box[0], box[2]) for v in (box[1], box[3])]
    return min(us), min(vs), max(us), max(vs)


def _bounds(lines: list[_Line]) -> Box:
    boxes = [line.box for line in lines]
    return Box(
        min(box.x0 for box in boxes),
        min(box.y0 for box in boxes),
        max(box.x1 for box in boxes),
        max(box.y1 for box in boxes),
        sum(box.prose for box in boxes) / len(boxes),
    )


def _without_margins(pages: list[list[Row]]) -> list[list[Row]]:
    """Pages without page numbers and without what comes back, but for its digits, in the margins of several pages."""
    seen = Counter(key for rows in pages for key in {_margin_key(row) for row in rows if row.in_margin})
    often = 2 if len(pages) < 5 else 3
    return [
        [
            row
            for row in rows
            if not (row.in_margin and (seen[_margin_key(row)] >= often or _PAGE_NUMBER.fullmatch(row.text)))
        ]
        for rows in pages
    ]


def _margin_key(row: Row) -> str:
    return re.sub(r"\d+", "#", row.text).casefold()


def _title_rows(rows: list[Row]) -> list[Row]:
    """The rows of the largest type on the first page, if it is larger than the text's and reads like a title."""
    first = [row for row in rows if row.page == rows[0].page and sum(c.isalpha() for c in row.text) > 2]
    if not first:
        return []
    largest = max(row.size for row in first)
    title = [row for row in first if row.size > largest - 0.5]
    words = " ".join(row.text for row in title)
    large = largest >= 1.15 * body_size(rows) and len(title) <= 4
    return title if large and 4 < len(words) <= 250 and not names_section(words) else []
