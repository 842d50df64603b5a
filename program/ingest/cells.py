"""Lines of cells as the rows of a table: wrapped cells, headers in several lines, titles between rows."""

from __future__ import annotations

import re
from itertools import pairwise

from program.ingest.tables import markdown_table

#: Characters of a first cell up to which its lines may be rows of their own.
SHORT_CELL = 50


def table_rows(lines: list[list[str]], ruled: bool) -> list[list[str]]:
    """The lines between two level rules as rows. In a grid (`ruled`) they are one row with wrapped cells, unless all
    of its columns are filled again; without upright rules each line is a row, unless it only goes on."""
    labels = [place for place, cells in enumerate(lines) if cells[0]]
    if len(lines) > 1 and len(labels) == 1 and labels[0] > 0:  # a cell at the height of several rows is in all of them
        label = lines[labels[0]]
        apart = [cells for cells in lines if cells is not label or any(label[1:])]
        return [[label[0], *cells[1:]] for cells in apart]
    if not ruled:
        return _unwrapped(lines)
    most = sum(map(bool, stacked(lines)))
    begin = [place for place, cells in enumerate(lines) if sum(map(bool, cells)) == most]
    if len(begin) < 2 or begin[0] > 0 or max(len(lines[place][0]) for place in begin) > SHORT_CELL:
        return [stacked(lines)]
    return [stacked(lines[first:last]) for first, last in pairwise([*begin, len(lines)])]


def goes_on_as_header(header: list[str], row: list[str]) -> bool:
    """Is a row without numbers below a header with gaps its second part?"""
    return 1 < sum(map(bool, header)) < len(header) and not any(re.match(r"\W*\d", cell) for cell in row)


def stacked(lines: list[list[str]]) -> list[str]:
    return [" ".join(filter(None, column)) for column in zip(*lines, strict=True)]


def _unwrapped(lines: list[list[str]]) -> list[list[str]]:
    """Lines as rows; one that only goes on in a cell or two joins the row above."""
    rows: list[list[str]] = []
    for cells in lines:
        texts = [text for text in cells if text]
        goes_on = len(cells) > 2 and 3 * len(texts) <= len(cells) and texts[0][0].islower()
        rows[-1:] = [stacked([rows[-1], cells])] if rows and goes_on else [*rows[-1:], cells]
    return rows


def titled(rows: list[list[str]]) -> str:
    """Markdown of the rows; one that is one cell alone is the title of a table with the rows below it."""
    parts: list[str] = []
    table: list[list[str]] = []
    header: list[str] = []
    for row in [*rows, []]:
        alone = len([cell for cell in row if cell]) == 1 and row[0] and len(row[0]) > 3
        if not row or alone:
            if len(table) > 1:
                parts.append(markdown_table(table).strip())
            parts += [row[0]] if alone else []
            table = []
        elif not table and header and row != header:
            table = [header, row]
        else:
            table.append(row)
            header = header or row
    return "\n\n".join(part for part in parts if part)
