"""Documents as readers find them, block by block, and how blocks become one Markdown text with sections and tables.

Text of a file never becomes structure: a paragraph that looks like a heading of Markdown heads no section.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from program.errors import NoText, TooLarge
from program.ingest.documents import DocumentText, Outline, Section, clean_text, clean_title, kind_of, title_from_name
from program.ingest.tables import find_tables, markdown_table

#: Most characters of a text: some 10,000 pages.
MAX_CHARACTERS = 40_000_000

_NO_TITLE = re.compile(
    r"untitled|(?:microsoft )?(?:word|excel|powerpoint)\b|(?:powerpoint )?presentation\d*$|document\d*$|[\W\d_]*$"
    r"|.*\.[a-z]{3,4}$",
    re.IGNORECASE,
)
_SPACES = re.compile(r"[^\S\n]+")


@dataclass(frozen=True, slots=True)
class Heading:
    """What heads a section. level: 1 for the document's or a chapter's title, down to 6."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text. Its line breaks are kept."""

    text: str


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list, with its mark (`-`, `2.`) in front. There are no blank lines between items."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """Preformatted text: every space counts."""

    text: str


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of cells; the first row names the columns."""

    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Page:
    """From here on it is page (or slide) `number`."""

    number: int


Block = Heading | Paragraph | Item | Code | Grid | Page


def document_from_blocks(
    blocks: Iterable[Block], stem: str, *, title: str = "", source: str = "", year: int | None = None
) -> DocumentText:
    """Blocks with blank lines between them, and a section under each heading that has text.

    The title is the given one, else the only heading of level 1, else `stem`. A heading that says the same as the title
    heads no section. Raises NoText, TooLarge.
    """
    blocks = list(blocks)
    tops = [block.text for block in blocks if isinstance(block, Heading) and block.level == 1]
    title = usable_title(title) or (clean_title(tops[0]) if len(tops) == 1 else "") or title_from_name(stem)
    parts: list[str] = []
    sections: list[Section] = []
    pages: list[tuple[int, int]] = []
    heading, kind, start, length = "", kind_of(""), 0, 0
    outline = Outline()
    for place, block in enumerate(blocks):
        if isinstance(block, Page):
            pages.append((length, block.number))
            continue
        written = _written(block)
        if isinstance(block, Item) and any(isinstance(following, Item) for following in blocks[place + 1 : place + 2]):
            written = written.removesuffix("\n")
        if isinstance(block, Heading) and written:
            sections.append(Section(start, length, heading, kind))
            own = clean_title(block.text)
            own = "" if own.casefold() == title.casefold() else own
            kind = kind_of(own)
            heading = outline.heading(block.level, own, after_text=start < length)
            start = length + len(written)
        parts.append(written)
        length += len(written)
        if length > MAX_CHARACTERS:
            raise TooLarge(f"The file holds over {MAX_CHARACTERS:,} characters.", "Divide it into smaller files.")
    sections.append(Section(start, length, heading, kind))
    text = "".join(parts)
    if not text.strip():
        raise NoText("The file holds no text.")
    filled = [section for section in sections if text[section.start : section.end].strip()]
    return DocumentText(
        title=title,
        text=text,
        sections=tuple(filled) or (Section(0, length),),  # nothing but headings is text too
        pages=tuple(pages),
        source=source,
        year=year,
        tables=find_tables(text),
    )


def usable_title(title: str) -> str:
    """A title on one line; "" for what programs put there by themselves."""
    line = clean_title(title)
    return "" if len(line) < 3 or _NO_TITLE.match(line) else line


def tidy(text: str) -> str:
    """Text with single spaces, without blank lines and without spaces around lines."""
    lines = (line.strip() for line in _SPACES.sub(" ", clean_text(text)).split("\n"))
    return "\n".join(line for line in lines if line)


def _written(block: Heading | Paragraph | Item | Code | Grid) -> str:
    """A block as Markdown with a blank line after it; "" without text."""
    match block:
        case Heading(text, level):
            line = " ".join(clean_text(text).split())
            return f"{'#' * level} {line}\n\n" if line else ""
        case Paragraph(text) | Item(text):
            lines = tidy(text)
            return f"{lines}\n\n" if lines else ""
        case Code(text):
            code = clean_text(text).strip("\n")
            return f"```\n{code}\n```\n\n" if code.strip() and "```" not in code else _written(Paragraph(code))
        case Grid(rows):
            table = markdown_table(rows)
            return f"{table}\n" if table else ""
