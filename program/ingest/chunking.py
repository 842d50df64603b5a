"""A document's text in chunks that fit the encoder's window: whole sentences, a little overlap, never across sections.

An abstract is chunked by itself. A section too small to stand alone joins its neighbour, so that nothing is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from program.ingest.documents import DocumentText, Section
from program.sentences import split_sentences
from program.types import Chunk

#: Tokens of a chunk with its title, as the encoder counts them: short enough to be about one thing.
TARGET = 180
#: A chunk, or a section, with fewer tokens joins its neighbour.
TINY = 30
#: Most sentences that a chunk repeats of the one before, and their greatest share of its tokens (17% on average).
OVERLAP_SENTENCES = 2
OVERLAP_SHARE = 0.25
#: Fewest tokens left to the text, however long the title is.
LEAST = 32
#: Most characters that count as one token: a tokenizer may take a thousand letters in a row for one unknown word.
CHARACTERS = 10

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A sentence, or a part of one that is longer than a chunk."""

    start: int
    end: int
    tokens: int


def chunk_document(document: DocumentText, name: str, count: Count, window: int) -> list[Chunk]:
    """Chunks in the order of the text; each one's text is `document.text[start:end]`.

    name: the document's name in the index. count: tokens of a text, as the encoder counts them. window: tokens that the
    encoder reads of title and text together. Ids depend on name, position and text alone.
    """
    count = _at_least(count)
    title = count(document.title)
    most = max(window - title, LEAST)
    target = max(min(TARGET, window) - title, LEAST)
    chunks: list[Chunk] = []
    for section, pieces in _joined_sections(document, target, count):
        for first, last in _windows(pieces, target, most):
            start, end = pieces[first].start, pieces[last].end
            text = document.text[start:end]
            chunks.append(
                Chunk(
                    id=_id(name, len(chunks), text),
                    document=name,
                    title=document.title,
                    text=text,
                    kind=section.kind,
                    heading=section.heading,
                    page=document.page_at(start),
                    start=start,
                    end=end,
                    position=len(chunks),
                    field=document.field,
                    year=document.year,
                    page_breaks=",".join(f"{at}:{page}" for at, page in document.pages if start < at < end),
                )
            )
    return chunks


def _joined_sections(document: DocumentText, target: int, count: Count) -> Iterator[tuple[Section, list[_Piece]]]:
    """Sections with their pieces. A tiny one joins the next of its kind, else the one before; the larger one's heading
    stays, and the heading between them becomes text."""
    joined: list[tuple[Section, list[_Piece]]] = []
    for section in document.sections:
        pieces = _pieces(document.text, section.start, section.end, target, count)
        if joined and joined[-1][0].kind == section.kind and min(_total(joined[-1][1]), _total(pieces)) < TINY:
            before, earlier = joined[-1]
            if _total(earlier) < TINY or section is document.sections[-1]:
                larger = section if _total(pieces) > _total(earlier) else before
                between = _pieces(document.text, before.end, section.start, target, count)
                merged = Section(before.start, section.end, larger.heading, section.kind)
                joined[-1] = merged, [*earlier, *between, *pieces]
                continue
        joined.append((section, pieces))
    return ((section, pieces) for section, pieces in joined if pieces)


def _windows(pieces: Sequence[_Piece], target: int, most: int) -> Iterator[tuple[int, int]]:
    """First and last piece of each chunk: as many as fit `target`; a tiny rest goes into the last chunk."""
    rest = _total(pieces)  # tokens from `next_new` on
    first = next_new = 0
    while next_new < len(pieces):
        tokens = sum(piece.tokens for piece in pieces[first:next_new])
        while next_new < len(pieces):
            piece = pieces[next_new]
            fits = tokens + piece.tokens <= target or (rest < TINY and tokens + rest <= most)
            if next_new > first and not fits:
                break
            tokens += piece.tokens
            rest -= piece.tokens
            next_new += 1
        yield first, next_new - 1
        if next_new < len(pieces):
            first = _overlap_from(pieces, first, next_new, target)


def _overlap_from(pieces: Sequence[_Piece], first: int, next_new: int, target: int) -> int:
    """Where the next chunk begins: some of the last sentences again, if they and the next one fit."""
    begin, repeated = next_new, 0
    while begin - 1 > first and next_new - begin < OVERLAP_SENTENCES:
        repeated += pieces[begin - 1].tokens
        if repeated > OVERLAP_SHARE * target or repeated + pieces[next_new].tokens > target:
            break
        begin -= 1
    return begin


def _pieces(text: str, start: int, end: int, target: int, count: Count) -> list[_Piece]:
    pieces: list[_Piece] = []
    for sentence in split_sentences(text[start:end]):
        span = start + sentence.start, start + sentence.end
        tokens = count(sentence.text) if len(sentence.text) <= CHARACTERS * target else target + 1
        pieces += [_Piece(*span, tokens)] if tokens <= target else _parts(text, *span, target, count)
    return pieces


def _parts(text: str, start: int, end: int, target: int, count: Count) -> Iterator[_Piece]:
    """A long sentence in parts of at most `target` tokens, cut between words where there are any."""
    size = CHARACTERS * target
    while start < end:
        stop = _word_end(text, start, min(start + size, end), end)
        tokens = count(text[start:stop])
        while tokens > target and stop - start > 1:
            stop = _word_end(text, start, start + (stop - start) // 2, end)
            tokens = count(text[start:stop])
        yield _Piece(start, stop, tokens)
        size = min(2 * (stop - start), CHARACTERS * target)  # the next part is likely alike: count little in vain
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


def _at_least(count: Count) -> Count:
    return lambda text: max(count(text), len(text) // CHARACTERS)


def _total(pieces: Sequence[_Piece]) -> int:
    return sum(piece.tokens for piece in pieces)


def _id(name: str, position: int, text: str) -> str:
    return hashlib.sha256(f"{name}\0{position}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
