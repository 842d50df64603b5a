"""Sentence splitting, the same for chunking, trimming and attribution: spans are verbatim and never raise.

`sentencex` finds the stops. Around it: lines of Markdown structure stand alone, quotation marks and brackets are hidden
from it (an unbalanced one would swallow the rest of the paragraph), text goes through it in windows (its worst case is
quadratic), and a few boundaries of academic writing are mended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from sentencex import get_sentence_boundaries

from program.types import Sentence

#: Characters given to `sentencex` at once; a longer paragraph continues where its last whole sentence ended.
WINDOW = 10_000

_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s")
_TABLE_ROW = re.compile(r"\s*\|.*\|\s*$")
_RULE = re.compile(r"\s*(?:[-*_=]\s*){3,}$")
_LIST_MARK = re.compile(r"\s*(?:[-*+•‣◦▪]|\(?(?:\d{1,3}|[a-zA-Z])[.)])\s+(?=\S)")
_FIRST_MARKS = frozenset({"-", "*", "+", "•", "‣", "◦", "▪", "1", "1.", "a", "a."})
_QUOTE_MARK = re.compile(r"\s*>+\s?")

_CITATION = r"\[\d[\d,;\s–-]{0,60}\]"
_HIDDEN = re.compile(
    rf"{_CITATION}|(?<=[.!?])[*_]{{1,3}}(?=\s|$)|[\"“”„«»‹›()\[\]{{}}「」『』（）【】]|(?<!\w)['‘’]|['’](?!\w)|[\s\x00\ud800-\udfff]"
)
_CITATIONS = re.compile(rf"\s*{_CITATION}(?:\s*{_CITATION})*(?=\s|$)")
_NEVER_A_STOP = re.compile(r"(?:^|[^\w.])(?:approx|cf|e\.g|i\.e|resp|viz|vs|w\.r\.t)\.$", re.IGNORECASE)
_BEFORE_A_NUMBER = re.compile(
    r"(?:^|[^\w.])(?:app|arts?|ca|chap|def|eqn?s?|exs?|figs?|lem|nos?|pp?|prop|refs?|sects?|secs?|tabs?|thm|vols?)\.$",
    re.IGNORECASE,
)
_OPENING = "“„«‹‘([{「『（【"
_CJK_STOPS = "。！？｡．"


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of `text`, in order, without surrounding white space; a blank text has none.

    A single line break inside a paragraph does not end a sentence. A blank line does, and so does the start of a
    Markdown list item, heading, table row or code line. Time grows linearly with the text.
    """
    spans = (span for start, end in _paragraphs(text) for span in _split_paragraph(text, start, end))
    return [Sentence(text[start:end], start, end) for start, end in spans]


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Spans that no sentence crosses."""
    start: int | None = None
    in_list = False
    fenced = False
    position = 0
    for line in text.splitlines(keepends=True):
        end = position + len(line)
        fence = _FENCE.match(line) is not None
        alone = fenced or fence or _HEADING.match(line) or _TABLE_ROW.match(line) or _RULE.match(line)
        fenced = fenced != fence
        mark = _LIST_MARK.match(line)
        # A number at a line's start inside a paragraph is prose that wrapped there, unless it begins or goes on a list.
        item = mark and (start is None or in_list or mark.group().strip().strip("()") in _FIRST_MARKS)
        if start is not None and (alone or item or not line.strip()):
            yield start, position
            start = None
        if alone:
            yield position, end
        elif start is None and line.strip():
            start, in_list = position, item is not None
        position = end
    if start is not None:
        yield start, len(text)


def _split_paragraph(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Sentence spans inside one paragraph, a window at a time."""
    mark = _LIST_MARK.match(text, start, end) or _QUOTE_MARK.match(text, start, end)
    read_from = mark.end() if mark else start  # a list number is no sentence of its own
    while read_from < end:
        window_end = min(read_from + WINDOW, end)
        cuts = _cuts(text[read_from:window_end])
        if window_end < end and cuts:
            window_end = read_from + cuts.pop()  # the last piece may go on beyond the window
        edges = [start, *(read_from + cut for cut in cuts), window_end]
        for left, right in pairwise(edges):
            piece = text[left:right]
            if piece.strip():
                yield left + len(piece) - len(piece.lstrip()), left + len(piece.rstrip())
        start = read_from = window_end


def _cuts(text: str) -> list[int]:
    """Offsets inside `text` where a new sentence begins."""
    masked = _HIDDEN.sub(lambda hidden: " " * len(hidden.group()), text)
    cuts: list[int] = []
    for boundary in get_sentence_boundaries("en", masked)[:-1]:
        cut = _mend(text, masked, int(boundary["end_index"]))
        if cut is not None and (not cuts or cut > cuts[-1]):
            cuts.append(cut)
    return cuts


def _mend(text: str, masked: str, end: int) -> int | None:
    """Where the sentence that `sentencex` ended at `end` really ends; None when it goes on."""
    stop = end
    while stop > 0 and masked[stop - 1] == " ":
        stop -= 1
    begin = stop  # of the next words
    while begin < len(masked) and masked[begin] == " ":
        begin += 1
    words = masked[max(0, stop - 12) : stop]
    if _NEVER_A_STOP.search(words) or (_BEFORE_A_NUMBER.search(words) and masked[begin : begin + 1].isdigit()):
        return None
    if begin == stop and masked[stop - 1 : stop] not in _CJK_STOPS:
        return None  # torch.nn.Linear
    while stop < begin and not text[stop].isspace() and text[stop] not in _OPENING:
        stop += 1  # a closing quotation mark or bracket belongs to the sentence it touches
    citations = _CITATIONS.match(text, stop)
    return citations.end() if citations else stop
