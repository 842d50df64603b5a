"""Sentence splitting, the same for chunking, trimming and attribution: spans are verbatim and never raise.

`sentencex` finds the stops. Around it: lines of Markdown structure stand alone and whole, quotation marks and brackets
are hidden from it (an unbalanced one would swallow the rest of the paragraph), text goes through it in windows (its
worst case is quadratic), and the boundaries it gets wrong are mended. Of 175 hard cases (tests/sentence_cases.py),
between lines split alike, it gets 141 right at 36 million characters a second; blingfire 142 (last released in 2021, no
Chinese quotation), pysbd 128 (0.2 million), syntok 124, sentence-splitter 110, NLTK's punkt 99, spaCy's sentencizer 91.
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
#: What `sentencex` sees as spaces: citations, `..., z`, emphasis after a stop, quotation marks and brackets.
_HIDDEN = re.compile(
    rf"{_CITATION}|(?:\.\s?){{2,4}}\.(?=\s?[,;])|(?<=[.!?])[*_]{{1,3}}(?=\s|$)"
    r"|[`\"“”„«»‹›()\[\]{}「」『』（）【】]|(?<!\w)['‘’]|['’](?!\w)|[\s\x00\ud800-\udfff]"
)
_CITATIONS = re.compile(rf"\s*{_CITATION}(?:\s*{_CITATION})*(?=\s|$)")
_ASIDE = re.compile(r"(?<![.!?…])\s?\([^()]{1,300}\)|(?<!`)`[^`\n]{1,300}`(?!`)")

_NEVER_A_STOP = re.compile(
    r"(?:^|[^\w.])(?i:approx|cf|e\.g|i\.e|viz|vs|w\.r\.t|ms|proc|natl|acad|sci|conf|symp)\.$"
    r"|\b[A-Z]\. [A-Z]\.$"  # A. M. Turing
    r"|\b(?:der|dem|des|vom|zum|zur|im|seit|beim) \d{1,3}\.$",  # im 19. Jahrhundert
)
_BEFORE_A_WORD = re.compile(  # in small letters: E. coli, n. Chr. und, Ludwig XIV. bestand
    r"(?:^|[^\w.])(?:resp|usw|[cmk]?m|[km]?g|ft|lb|hrs?|min|sec|[A-Z][a-z]{0,3}|[IVXLC]{2,5})\.$"
)
_BEFORE_A_NUMBER = re.compile(
    r"(?:^|[^\w.])(?:algs?|apps?|arts?|ca|chaps?|chs?|defs?|eqn?s?|exs?|figs?|lem|nos?|pp?|props?|refs?|sects?|secs?"
    r"|suppl|tabs?|thms?|vols?)\.$",
    re.IGNORECASE,
)
_BEFORE_A_LETTER = re.compile(r"(?:^|[^\w.])(?:App|Apps|Chap|Ch|Eqs?|Figs?|Sects?|Secs?|Tabs?)\.$")
_WORD = re.compile(r"[a-zà-ÿ]{2,}(?!\w)")
_NUMBER, _LETTER = re.compile(r"\d"), re.compile(r"[A-Z]\d{0,2}(?!\w)")
_AFTER_A_DAY = re.compile(
    r"(?:und \d{1,2}\.|Jahrhundert|Jan|Feb|März|Apr|Mai|Jun|Jul|Aug|Sept|Okt|Nov|Dez)[a-z]*(?!\w)"
)
_DAY = re.compile(r"(?<!\d)[0-3]?\d\.$")
#: After a closing mark, what says who spoke.
_SPEECH = re.compile(r"(?:と|って|という|など|[のをがはにも])|[^\s，。！？、]{0,3}[说說问問道答喊]")
_CLOSING = "\"'”’»›」』"
_OPENING = "“„«‹‘([{「『（【"
_CJK_STOPS = "。！？｡．"
_CJK_STOP_BEFORE_A_NUMBER = re.compile(r"[。！？｡](?=\d)")  # which `sentencex` passes over


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of `text`, in order, without surrounding white space; a blank text has none.

    A single line break inside a paragraph does not end a sentence. A blank line does, and so does the start of a
    Markdown list item, heading, table row or code line. Time grows linearly with the text.
    """
    spans = (span for start, end, whole in _paragraphs(text) for span in _split_paragraph(text, start, end, whole))
    return [Sentence(text[start:end], start, end) for start, end in spans]


def _paragraphs(text: str) -> Iterator[tuple[int, int, bool]]:
    """Spans that no sentence crosses, and whether they are one whatever they hold (a heading, a table row, code)."""
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
            yield start, position, False
            start = None
        if alone:
            yield position, end, True
        elif start is None and line.strip():
            start, in_list = position, item is not None
        position = end
    if start is not None:
        yield start, len(text), False


def _split_paragraph(text: str, start: int, end: int, whole: bool) -> Iterator[tuple[int, int]]:
    """Sentence spans inside one paragraph, a window at a time."""
    mark = _LIST_MARK.match(text, start, end) or _QUOTE_MARK.match(text, start, end)
    read_from = mark.end() if mark else start  # a list number is no sentence of its own
    while read_from < end:
        window_end = min(read_from + WINDOW, end)
        cuts = [] if whole else _cuts(text[read_from:window_end])
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
    masked = _HIDDEN.sub(lambda hidden: " " * len(hidden.group()), text).replace("…", ".")
    asides = iter([aside.span() for aside in _ASIDE.finditer(text)])
    aside = next(asides, None)
    cuts: list[int] = []
    ends = {int(boundary["end_index"]) for boundary in get_sentence_boundaries("en", masked)[:-1]}
    for end in sorted(ends.union(stop.end() for stop in _CJK_STOP_BEFORE_A_NUMBER.finditer(masked))):
        cut = _mend(text, masked, end)
        if cut is None or (cuts and cut <= cuts[-1]):
            continue
        while aside and aside[1] <= cut:
            aside = next(asides, None)
        if not aside or cut <= aside[0]:
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
    if begin == stop and masked[stop - 1 : stop] not in _CJK_STOPS:
        return None  # torch.nn.Linear
    if _goes_on(masked[max(0, stop - 16) : stop], masked[begin : begin + 12]):
        return None
    small = masked[begin : begin + 1].islower()
    while stop < begin and not text[stop].isspace() and text[stop] not in _OPENING:
        stop += 1  # a closing quotation mark or bracket belongs to the sentence it touches
    stop += 2 * text.startswith((" »", "\xa0»"), stop)
    if text[stop - 1] in _CLOSING and (
        small or (stop == begin and text[stop - 1] not in ")）" and _SPEECH.match(text, begin))
    ):
        return None  # "Why?" she asked.
    citations = _CITATIONS.match(text, stop)
    if citations and not (small and text[stop : stop + 1].isspace()):  # ... [4]. [5] disagrees.
        return citations.end()
    return stop


def _goes_on(words: str, following: str) -> bool:
    """Is the stop at the end of `words` that of an abbreviation, seeing what follows?"""
    return bool(
        following[:1] in {",", ";"}
        or _NEVER_A_STOP.search(words)
        or (_WORD.match(following) and _BEFORE_A_WORD.search(words))
        or (_NUMBER.match(following) and _BEFORE_A_NUMBER.search(words))
        or (_LETTER.match(following) and _BEFORE_A_LETTER.search(words))
        or (_AFTER_A_DAY.match(following) and _DAY.search(words))
    )
