"""What a reader makes of a file: one text, its sections, and the page of every place in it."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace

from program.types import ChunkKind

#: Longest title kept, in characters: title and text share the encoder's window.
TITLE_LENGTH = 150

_LINE_END = re.compile(r"\r\n?|[\v\f\x85\u2028\u2029]")
_NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff]")


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of a document's text under one heading (the heading itself is outside of it)."""

    start: int
    end: int
    heading: str = ""
    kind: ChunkKind = "passage"


@dataclass(frozen=True, slots=True)
class Table:
    """A Markdown table in a document's text, [start, end); [start, header_end) is its header row and separator line."""

    start: int
    end: int
    header_end: int


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document as it is searched and quoted. Sections are in order and do not overlap; what is in none is left out.

    tables: what `program.ingest.tables.find_tables` finds in the text, if it is Markdown; their rows are never cut.
    pages: (offset, page) where the text of a page begins, by offset, pages counted from 1; empty without pages.
    source: where the document comes from, for people, for example `arXiv:1706.03762`.
    """

    title: str
    text: str
    sections: tuple[Section, ...]
    pages: tuple[tuple[int, int], ...] = ()
    source: str = ""
    field: str = ""
    year: int | None = None
    tables: tuple[Table, ...] = ()

    def page_at(self, offset: int) -> int | None:
        """Page on which the character at `offset` stands; None when the document has no pages."""
        place = bisect_right(self.pages, offset, key=lambda entry: entry[0]) - 1
        return self.pages[max(place, 0)][1] if self.pages else None


@dataclass(frozen=True, slots=True)
class Description:
    """What is known of a document from elsewhere; what is not empty goes before what the file says of itself."""

    title: str = ""
    source: str = ""
    field: str = ""
    year: int | None = None

    def applied_to(self, document: DocumentText) -> DocumentText:
        return replace(
            document,
            title=clean_title(self.title) or document.title,
            source=self.source or document.source,
            field=self.field or document.field,
            year=self.year or document.year,
        )


class Outline:
    """What heads each section of a text that is read along: a heading without text of its own heads its parts too."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []  # (level, what it gives to those below: nothing once it has text)

    def heading(self, level: int, text: str, *, after_text: bool) -> str:
        """`Methods: Data` for Data, where it follows Methods at once and is below it.

        level: 1 for the largest; 0 where it is not known, so that it is neither above nor below another. after_text:
        whether there is text between the last heading and this one.
        """
        if after_text and self._open:
            self._open[-1] = self._open[-1][0], ""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        above = self._open[-1][1] if self._open else ""
        whole = f"{above}: {text}" if above and text else text
        if len(whole) > TITLE_LENGTH:
            whole = text
        if level:
            self._open.append((level, whole))
        return whole


def clean_text(text: str) -> str:
    """Text with line breaks as newlines and a space for every character that is no text (NUL, lone surrogates)."""
    return _NOT_TEXT.sub(" ", _LINE_END.sub("\n", text))


def clean_title(title: str) -> str:
    """A title on one line, at most TITLE_LENGTH characters, cut at a word."""
    line = " ".join(clean_text(title).split())
    if len(line) <= TITLE_LENGTH:
        return line
    return line[: TITLE_LENGTH + 1].rsplit(" ", 1)[0][:TITLE_LENGTH]


def title_from_name(stem: str) -> str:
    """A file's name as a title."""
    return clean_title(stem.replace("_", " ")) or "Untitled"


def kind_of(heading: str) -> ChunkKind:
    """An abstract is told by its heading."""
    return "abstract" if re.fullmatch(r"(?:\d+\.?\s+)?abstract[.:—–-]?", heading.strip(), re.IGNORECASE) else "passage"
