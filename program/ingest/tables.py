"""Tables as Markdown whose every part carries its header, so that a chunk of it can be read by itself.

A chunk is a verbatim slice of its document's text. A table that is longer than a chunk is therefore written as several
tables of at most PART_TOKENS, one after the other, each with the header; one with many columns is first divided into
groups of columns, each with the first column, which names the row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from program.ingest.documents import Table, clean_text
from program.tokens import count_tokens

#: Tokens (cl100k) of a part with its header; a single row may be longer.
PART_TOKENS = 120
#: Share of them that a header may take before the columns are divided.
HEADER_SHARE = 0.5

_ROW = re.compile(r"[ \t]{0,3}\|.*\|[ \t]*")
_SEPARATOR = re.compile(r"[ \t]{0,3}\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*")
_CELL_EDGE = re.compile(r"(?<!\\)\|")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells as Markdown, the first one being the header; "" without any text.

    Line breaks in cells become spaces and `|` becomes `\\|`. Short rows are filled up, empty ones left out. The text
    ends in a newline and holds one table, or several parts with a blank line between them.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    cells = [row for row in cells if any(row)]
    width = max(map(len, cells), default=0)
    cells = [row + [""] * (width - len(row)) for row in cells]
    filled = [column for column in range(width) if any(row[column] for row in cells)]
    return "\n".join(_parts([[row[column] for column in filled] for row in cells])) if cells else ""


def repeat_headers(text: str) -> str:
    """Markdown `text` with every long table in it written in parts, as `markdown_table` does; all else as it is."""
    written: list[str] = []
    end = 0
    for table in find_tables(text):
        whole = text[table.start : table.end]
        if count_tokens(whole) > PART_TOKENS:
            header, _, *rows = whole.splitlines()
            cells = [[cell.replace("\\|", "|") for cell in _cells(row)] for row in (header, *rows)]
            written += [text[end : table.start], markdown_table(cells)]
            end = table.end
    return "".join([*written, text[end:]])


def find_tables(text: str) -> tuple[Table, ...]:
    """The tables of a Markdown text: a row, a separator line of as many cells, and the rows below it."""
    found: list[Table] = []
    before: tuple[int, str] | None = None  # the line above, if it is a row of no table yet
    open_table: tuple[int, int] | None = None
    fenced = False
    position = 0
    for line in [*text.splitlines(keepends=True), ""]:
        row = line.rstrip("\r\n")
        fenced = fenced != bool(_FENCE.match(row))
        is_row = not fenced and _ROW.fullmatch(row) is not None
        if open_table and not is_row:
            found.append(Table(open_table[0], position, open_table[1]))
            open_table = None
        under_a_row = not open_table and before and _SEPARATOR.fullmatch(row)
        if under_a_row and before and len(_cells(before[1])) == len(_cells(row)):
            open_table = before[0], position + len(line)
        before = (position, row) if is_row and not open_table else None
        position += len(line)
    return tuple(found)


def _parts(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for columns in _column_groups(rows[0]):
        lines = [_line([row[column] for column in columns]) for row in rows]
        header = lines[0] + _line(["---"] * len(columns))
        room = PART_TOKENS - count_tokens(header)
        part: list[str] = []
        left = room
        for line in lines[1:]:
            tokens = count_tokens(line)
            if part and tokens > left:
                yield header + "".join(part)
                part, left = [], room
            part.append(line)
            left -= tokens
        yield header + "".join(part)


def _column_groups(header: Sequence[str]) -> Iterator[list[int]]:
    """Columns that go side by side: all of them, or as many as a header may hold, after the first."""
    most = PART_TOKENS * HEADER_SHARE
    tokens = [count_tokens(f"| {name} | --- |") for name in header]
    group = [0]
    for column in range(1, len(header)):
        if len(group) > 1 and sum(tokens[place] for place in group) + tokens[column] > most:
            yield group
            group = [0]
        group.append(column)
    yield group


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _cell(value: str) -> str:
    return " ".join(clean_text(value).split()).replace("|", "\\|")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in _CELL_EDGE.split(line.strip()[1:-1])]
