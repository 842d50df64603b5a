"""What of a text is never cut: sentences, tables and their rows, or parts of what is longer than the window."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from program.ingest.documents import DocumentText, Section, Table
from program.sentences import split_sentences
from program.tokens import count_tokens

#: Fewest tokens of a chunk.
LEAST = 20
#: Most characters that count as one token: a tokenizer may take a thousand letters in a row for one unknown word.
CHARACTERS = 10

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Piece:
    """What is never cut: a sentence, a table or one of its rows; or a part of one that is longer than the window.

    tokens: cl100k. encoded: the encoder's.
    """

    start: int
    end: int
    tokens: int
    encoded: int
    is_table: bool


@dataclass(frozen=True, slots=True)
class Sizes:
    """target, most: cl100k tokens of a chunk. window: the encoder's tokens of its text."""

    target: int
    most: int
    window: int

    def hold(self, tokens: int, encoded: int) -> bool:
        return tokens <= self.most and encoded <= self.window


def pieces_of(document: DocumentText, section: Section, sizes: Sizes, count: Count) -> Iterator[Piece]:
    """Sentences, tables and parts of what is too long, in order."""
    text = document.text
    position = section.start
    first, last = (bisect_left(document.tables, place, key=attrgetter("start")) for place in (position, section.end))
    for table in document.tables[first:last]:
        yield from _sentences(text, position, table.start, sizes, count)
        whole = _piece(text, table.start, table.end, count, is_table=True)
        if sizes.hold(whole.tokens, whole.encoded):
            yield whole
        else:
            for start, end in _rows(text, table):
                yield from _fitting(text, start, end, sizes, count, is_table=True)
        position = table.end
    yield from _sentences(text, position, section.end, sizes, count)


def _sentences(text: str, start: int, end: int, sizes: Sizes, count: Count) -> Iterator[Piece]:
    for sentence in split_sentences(text[start:end]):
        yield from _fitting(text, start + sentence.start, start + sentence.end, sizes, count)


def _fitting(text: str, start: int, end: int, sizes: Sizes, count: Count, *, is_table: bool = False) -> Iterator[Piece]:
    """A stretch as one piece if the window holds it, else in parts."""
    if end - start <= CHARACTERS * sizes.window:
        piece = _piece(text, start, end, count, is_table)
        if piece.encoded <= sizes.window:
            yield piece
            return
    parts = list(_parts(text, start, end, sizes, count, is_table))
    if len(parts) > 1 and parts[-1].tokens < LEAST:
        middle = _word_end(text, parts[-2].start, (parts[-2].start + end) // 2, end)
        parts[-2:] = [
            _piece(text, parts[-2].start, middle, count, is_table),
            _piece(text, middle, end, count, is_table),
        ]
    yield from parts


def _parts(text: str, start: int, end: int, sizes: Sizes, count: Count, is_table: bool) -> Iterator[Piece]:
    """Parts that the sizes hold, cut between words where there are any."""
    longest = CHARACTERS * sizes.window
    size = longest
    while start < end:
        stop = _word_end(text, start, min(start + size, end), end)
        piece = _piece(text, start, stop, count, is_table)
        while not sizes.hold(piece.tokens, piece.encoded) and stop - start > 1:
            stop = _word_end(text, start, start + (stop - start) // 2, end)
            piece = _piece(text, start, stop, count, is_table)
        yield piece
        size = min(2 * (stop - start), longest)  # the next part is likely alike: count little in vain
        start = stop
        while start < end and text[start].isspace():
            start += 1


def _word_end(text: str, start: int, stop: int, end: int) -> int:
    """The last end of a word at or before `stop`; `stop` itself in a word as long as half the stretch."""
    if stop >= end or text[stop].isspace():
        return stop
    for place in range(stop, start + (stop - start) // 2, -1):
        if text[place - 1].isspace():
            return place - 1
    return max(stop, start + 1)


def _rows(text: str, table: Table) -> Iterator[tuple[int, int]]:
    """The header with the first row, then each row."""
    start, end = table.start, text.find("\n", table.header_end, table.end)
    while start < table.end:
        end = end if end >= 0 else table.end
        yield start, end
        start = end + 1
        end = text.find("\n", start, table.end)


def _piece(text: str, start: int, end: int, count: Count, is_table: bool = False) -> Piece:
    while start < end and text[end - 1].isspace():
        end -= 1
    while start < end and text[start].isspace():
        start += 1
    return Piece(start, end, count_tokens(text[start:end]), count(text[start:end]), is_table)
