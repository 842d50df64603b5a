"""Readers for spreadsheets: XLSX by openpyxl, and CSV. Every sheet is a section; cells read as people see them."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence

from openpyxl import load_workbook
from openpyxl.utils import get_column_letter

from program.errors import CorruptFile, NoText, TooLarge, cause_of
from program.ingest.archives import office_package
from program.ingest.blocks import Block, Grid, Heading, Paragraph, document_from_blocks, usable_title
from program.ingest.documents import DocumentText, clean_text
from program.ingest.number_formats import shown
from program.ingest.plain import decode

#: Rows of a sheet (Excel's limit), cells with something in them, and cells of the rectangles that hold them.
MAX_ROWS = 1_048_576
MAX_CELLS = 1_000_000
MAX_AREA = 20_000_000
#: Characters of one cell (Excel's limit is 32,767).
MAX_CELL = 1_000_000
#: Lines by which the delimiter of a CSV file is told.
SAMPLE_LINES = 50

_DELIMITERS = (",", ";", "\t", "|")
#: A number, but no year: years often name columns.
_NUMBER = re.compile(r"(?!(?:19|20)\d\d$)[-+(]*[$€£¥]?\s*\d[\d.,' ]*\s*[%$€£¥)]*")


def read_xlsx(data: bytes, stem: str, password: str | None) -> DocumentText:
    """A workbook: its visible sheets, with the values that formulas had when it was saved.

    Raises CorruptFile, EncryptedFile, NoText, TooLarge.
    """
    package = office_package(data, "Excel workbook", password)
    blocks: list[Block] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl tells what it does not support
        workbook = load_workbook(package, read_only=True, data_only=True)
        try:
            cells = _Budget()
            for sheet in workbook.worksheets:
                if sheet.sheet_state == "visible":
                    sheet.reset_dimensions()  # the file may say anything
                    rows = ([shown(cell.value, cell.number_format) for cell in row] for row in sheet.iter_rows())
                    found = list(_regions(cells.spent_on(rows)))
                    blocks += [Heading(sheet.title), *found] if found else []
            title = usable_title(str(workbook.properties.title or ""))
        finally:
            workbook.close()
    return document_from_blocks(blocks, stem, title=title or _caption(blocks))


def read_csv(data: bytes, stem: str, _password: str | None = None) -> DocumentText:
    """A table as text, delimited by comma, semicolon, tab or bar. Raises CorruptFile, NoText, TooLarge."""
    text = clean_text(decode(data))
    if not text.strip():
        raise NoText("The file holds no text.")
    csv.field_size_limit(MAX_CELL)
    try:
        rows = csv.reader(io.StringIO(text), delimiter=_delimiter(text), skipinitialspace=True)
        blocks = list(_regions(_Budget().spent_on(rows)))
    except csv.Error as error:
        raise CorruptFile(f"The table is damaged ({cause_of(error)}).", "Check its quotation marks.") from error
    return document_from_blocks(blocks, stem, title=_caption(blocks))


class _Budget:
    """Counts the cells of all sheets of a file against the limits."""

    def __init__(self) -> None:
        self._filled = 0
        self._area = 0

    def spent_on(self, rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
        """The rows with their cells tidied. Raises TooLarge."""
        for place, row in enumerate(rows):
            cells = [value.strip() for value in row]
            self._filled += sum(map(bool, cells))
            self._area += len(cells)
            if place >= MAX_ROWS or self._filled > MAX_CELLS or self._area > MAX_AREA:
                raise TooLarge(f"The tables have over {MAX_CELLS:,} cells.", "Divide the file into smaller ones.")
            yield cells


def _regions(rows: Iterable[list[str]]) -> Iterator[Block]:
    """What empty rows set apart: each a table with the lines of text above it."""
    region: list[list[str]] = []
    for row in rows:
        if any(row):
            region.append(row)
        elif region:
            yield from _region(region)
            region = []
    if region:
        yield from _region(region)


def _region(rows: list[list[str]]) -> Iterator[Block]:
    """Lines of one cell are text. Below them stands a table whose first row names its columns; if a number is in it, it
    names nothing: two columns are then names and values, and more go by their letters."""
    start = 0
    while start < len(rows) and sum(map(bool, rows[start])) == 1:
        yield Paragraph("".join(rows[start]))
        start += 1
    table = rows[start:]
    if table and len(table) > 1 and not any(_NUMBER.fullmatch(value) for value in table[0]):
        yield Grid(table)
    elif all(sum(map(bool, row)) <= 2 for row in table):
        yield from (Paragraph(": ".join(filter(None, row))) for row in table)
    else:
        yield Grid([[get_column_letter(column + 1) for column in range(max(map(len, table)))], *table])


def _caption(blocks: Sequence[Block]) -> str:
    """The line above the first table, which says what the file is about; "" if there is none."""
    first = [block for block in blocks[:3] if not isinstance(block, Heading)][:2]
    return first[0].text if len(first) == 2 and isinstance(first[0], Paragraph) and isinstance(first[1], Grid) else ""


def _delimiter(text: str) -> str:
    """The delimiter by which the most lines come to the same number, above one, of cells."""
    lines = text.split("\n", SAMPLE_LINES)[:SAMPLE_LINES]

    def agreement(delimiter: str) -> tuple[int, int]:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
        except csv.Error:
            return 0, 0
        counts = {width: widths.count(width) for width in widths if width > 1}
        best = max(counts, key=lambda width: (counts[width], width), default=0)
        return counts.get(best, 0), best

    return max(_DELIMITERS, key=agreement)
