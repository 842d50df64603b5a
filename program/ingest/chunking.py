"""A document's text in chunks: whole sentences and whole table rows, a little overlap, never across sections.

A chunk grows to the target and takes the sentence that crosses it while that stays within the slack and the encoder's
window. The last one or two sentences come again at the start of the next chunk. An abstract is chunked by itself.

No chunk is under LEAST tokens, for it would match everything and answer nothing. So that nothing is lost with it, a
smaller section joins its neighbour, and a smaller rest takes the sentence before it along; only a document that is
smaller as a whole stays as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

from program.ingest.documents import DocumentText, Section
from program.ingest.pieces import CHARACTERS, LEAST, Count, Piece, Sizes, pieces_of
from program.tokens import count_tokens
from program.types import Chunk

#: Tokens (cl100k) of a chunk's text. Of 120 to 390, this puts most of the labelled quotes into an answer's evidence
#: (`bench/chunking.py`); larger ones are found more often, and leave fewer places among what the answer reads.
TARGET = 180
#: Share of the target that a chunk may have more, so that its last sentence is whole.
SLACK = 0.2
#: Share of the target up to which a chunk repeats the last sentence, and the last two, of the one before.
OVERLAP_SHARES = (0.4, 0.25)
#: Fewest of the encoder's tokens left to the text, however long the title is.
ROOM = 32
#: Most characters between two sections that join: a heading or two, not a part that the reader left out.
GAP = 300


def chunk_document(
    document: DocumentText, name: str, count: Count, window: int, *, target: int = TARGET
) -> list[Chunk]:
    """Chunks in the order of the text; each one's text is `document.text[start:end]`.

    name: the document's name in the index. count: tokens of a text, as the encoder counts them. window: tokens that the
    encoder reads of title and text together. target: tokens (cl100k) of a chunk. A sentence is cut only where it is
    longer than the window. Ids depend on name, position and text alone.
    """
    sizes = Sizes(target, round(target * (1 + SLACK)), max(window - count(document.title), ROOM))
    found: list[tuple[Section, int, int]] = []
    for section in _joined_sections(document):
        pieces = list(pieces_of(document, section, sizes, _at_least(count)))
        found += ((section, pieces[first].start, pieces[end - 1].end) for first, end in _windows(pieces, sizes))
    kept = [span for span in found if not _is_tiny(document.text[span[1] : span[2]])] or found[:1]
    return [_chunk(document, name, position, *span) for position, span in enumerate(kept)]


def _chunk(document: DocumentText, name: str, position: int, section: Section, start: int, end: int) -> Chunk:
    text = document.text[start:end]
    return Chunk(
        id=chunk_id(name, position, text),
        document=name,
        title=document.title,
        text=text,
        kind=section.kind,
        heading=section.heading,
        page=document.page_at(start),
        start=start,
        end=end,
        position=position,
        field=document.field,
        year=document.year,
        page_breaks=",".join(f"{at}:{page}" for at, page in document.pages if start < at < end),
    )


def _joined_sections(document: DocumentText) -> list[Section]:
    """Sections, tiny ones joined to the next, or to the one before where nothing follows."""
    joined: list[Section] = []
    for section in document.sections:
        if (
            joined
            and _is_tiny(document.text[joined[-1].start : joined[-1].end])
            and section.start - joined[-1].end <= GAP
        ):
            section = _join(document, joined.pop(), section, joined)
        joined.append(section)
    kept: list[Section] = []
    for section in joined:
        if kept and _is_tiny(document.text[section.start : section.end]) and section.start - kept[-1].end <= GAP:
            section = _join(document, kept.pop(), section, kept)
        kept.append(section)
    return kept


def _is_tiny(text: str) -> bool:
    return count_tokens(text.strip()[: 10 * CHARACTERS * LEAST]) < LEAST


def _join(document: DocumentText, first: Section, second: Section, before: Sequence[Section]) -> Section:
    """One section with the heading and the kind of the larger; the other's heading becomes part of its text."""
    if first.end - first.start >= second.end - second.start:
        return Section(first.start, second.end, first.heading, first.kind)
    start = first.start
    floor = before[-1].end if before else 0
    own = first.heading.rpartition(": ")[2]  # of `Methods: Data`, only Data stands right above the text
    heading = document.text.rfind(own, floor, start) if own else -1
    if heading >= 0 and not re.search(r"\w", document.text[heading + len(own) : start]):
        start = max(document.text.rfind("\n", floor, heading) + 1, floor)
    return Section(start, second.end, second.heading, second.kind)


def _windows(pieces: Sequence[Piece], sizes: Sizes) -> Iterator[tuple[int, int]]:
    """Range of pieces of each chunk."""
    first = end = 0
    while end < len(pieces):
        tokens, encoded = _tokens(pieces[first:end]), _encoded(pieces[first:end])
        new = end
        while end < len(pieces):
            piece = pieces[end]
            if end > new and (tokens >= sizes.target or not sizes.hold(tokens + piece.tokens, encoded + piece.encoded)):
                break
            tokens += piece.tokens
            encoded += piece.encoded
            end += 1
        yield first, end
        first = _overlap_from(pieces, first, end, sizes)


def _overlap_from(pieces: Sequence[Piece], first: int, end: int, sizes: Sizes) -> int:
    """Where the chunk after pieces[first:end] begins: one or two sentences back, if they are short and the next fits.

    A rest that is too small for a chunk takes as much before it along as makes it large enough.
    """
    rest = _tokens(pieces[end : end + LEAST])
    following = pieces[end : end + 1]
    begin = end
    while begin - 1 > first:
        repeated = pieces[begin - 1 : end]
        tokens, encoded = _tokens(repeated), _encoded(repeated)
        share = OVERLAP_SHARES[end - begin] if end - begin < len(OVERLAP_SHARES) else 0.0
        is_short = tokens <= share * sizes.target and not any(piece.is_table for piece in repeated)
        is_needed = _tokens(repeated[1:]) + rest < LEAST
        fits = sizes.hold(tokens + _tokens(following), encoded + _encoded(following))
        if not fits or not (is_short or is_needed):
            break
        begin -= 1
    return begin


def _at_least(count: Count) -> Count:
    return lambda text: max(count(text), len(text) // CHARACTERS)


def _tokens(pieces: Sequence[Piece]) -> int:
    return sum(piece.tokens for piece in pieces)


def _encoded(pieces: Sequence[Piece]) -> int:
    return sum(piece.encoded for piece in pieces)


def chunk_id(name: str, position: int, text: str) -> str:
    return hashlib.sha256(f"{name}\0{position}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
