"""Checks every claim of an answer against what it cites, and writes the citations.

Support in [0, 1] is the mean of two readings of the best supporting sentences (one, or two that follow each other):
the cosine of claim and sentences, and the share of the claim's content words found there. A figure or a name in the
claim that neither the passage nor the question has takes support away: those are what models invent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from program.retrieval.encoders import Encoder
from program.types import Citation, Claim, Evidence
from program.words import NEGATION, content_words, coverage, names, numbers

#: `[1]` as asked for, and as models write it nevertheless: `[1, 2]`, `[^1]`, `[Passage 1]`, `【1†source】`.
_MARK = re.compile(
    r"\s*[\[【]\s*(?:\^|passages?\s+|sources?\s+)?(\d{1,9}(?:\s*[,;]\s*\d{1,9})*)(?:†[^\]】]*)?\s*[\]】]", re.IGNORECASE
)
_ANY_MARK = re.compile(rf"{_MARK.pattern}|\s*[\[【][\d,;\s–-]*[\]】]", re.IGNORECASE)
_TURNED = 0.5  # a claim that denies what the passage says, or says what it denies
_STOPS = (".", "!", "?", "。", "！", "？")
_FOREIGN_NUMBER = 0.2  # what is left of the support of a claim with a figure from nowhere
_FOREIGN_NAME = 0.6
_MISATTRIBUTED = 0.5  # a figure that the passage gives to something else


@dataclass(frozen=True, slots=True)
class _Window:
    """One or two neighbouring sentences of one piece of evidence: what a quote is made of."""

    evidence: Evidence
    first: int
    last: int

    @property
    def text(self) -> str:
        return " ".join(sentence.text for sentence in self.evidence.sentences[self.first : self.last + 1])

    @property
    def span(self) -> tuple[int, int]:
        return self.evidence.sentences[self.first].start, self.evidence.sentences[self.last].end


class Attribution:
    """The check of one answer: remembers which quotes were cited, so that numbers follow first use."""

    def __init__(self, question: str, evidence: Sequence[Evidence], encoder: Encoder, support_bar: float) -> None:
        self._question = question
        self._bar = support_bar
        self._encoder = encoder
        self._windows = [window for item in evidence for window in _windows(item)]
        self._vectors = encoder.encode([window.text for window in self._windows])
        self._known = {item.n: _known(item, question) for item in evidence}
        self._citations: list[Citation] = []

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Citations so far, by number."""
        return tuple(self._citations)

    def check(self, sentence: str) -> Claim:
        """The claim in a sentence, citing what supports it.

        Marks out of bounds are dropped. What the marks point at is read first; where that does not support the claim,
        or nothing was cited, all evidence is.
        """
        text, marks = strip_marks(sentence)
        cited = {n for n in marks if n in self._known}
        best = self._best(text, cited) if cited else []
        status = "supported"
        if not best or best[0][1] < self._bar:
            best, status = self._best(text, set(self._known))[:1], "recited"
        if not best or best[0][1] < self._bar:
            return Claim(text, (), best[0][1] if best else 0.0, "unsupported")
        numbered = tuple(sorted({self._number(window, support) for window, support in best if support >= self._bar}))
        return Claim(_with_marks(text, numbered), numbered, best[0][1], status)  # type: ignore[arg-type]

    def quote(self, evidence: Evidence, position: int) -> Claim:
        """A passage's own sentence as a claim, cited to itself, without the document's own reference marks."""
        window = _Window(evidence, position, position)
        number = self._number(window, 1.0)
        return Claim(_with_marks(strip_marks(window.text)[0], (number,)), (number,), 1.0, "quoted")

    def _best(self, text: str, among: set[int]) -> list[tuple[_Window, float]]:
        """The best window of each piece of evidence in `among`, best first."""
        scored: dict[int, tuple[_Window, float]] = {}
        cosines = self._cosines(text)
        for i, window in enumerate(self._windows):
            n = window.evidence.n
            if n in among:
                support = self._support(text, window, float(cosines[i]))
                # A second sentence must earn its place: a quote is as short as it can be.
                earned = 0.02 * (window.last - window.first)
                if n not in scored or support > scored[n][1] + earned:
                    scored[n] = (window, support)
        return sorted(scored.values(), key=lambda pair: (-pair[1], pair[0].evidence.n))

    def _cosines(self, text: str) -> NDArray[np.float32]:
        product: NDArray[np.float32] = self._vectors @ self._encoder.encode([text])[0]
        return product

    def _support(self, text: str, window: _Window, cosine: float) -> float:
        said, asked = content_words(text), content_words(self._question)
        # Words repeated from the question need no support of their own, if the claim says anything else.
        new = said - asked or said
        title = window.evidence.chunk.title
        share = len(new & content_words(f"{title} {window.text}")) / len(new) if new else 0.0
        support = 0.5 * max(cosine, 0.0) + 0.5 * (share + coverage(text, f"{title} {window.text}")) / 2
        if numbers(text) - numbers(f"{title} {window.text}") - numbers(self._question):
            support *= _FOREIGN_NUMBER
        if names(text) - self._known[window.evidence.n]:
            support *= _FOREIGN_NAME
        if self._misattributed(text, window):
            support *= _MISATTRIBUTED
        if self._turned(text, window):
            support *= _TURNED
        return min(max(support, 0.0), 1.0)

    def _turned(self, text: str, window: _Window) -> bool:
        """Whether only the claim is negated, or only what the window says with the claim's own words is."""
        denied = [window.text[match.end() :].split()[:2] for match in NEGATION.finditer(window.text)]
        if NEGATION.search(text):
            return not denied and not NEGATION.search(self._question)
        said = content_words(text)
        return any(words and (about := content_words(" ".join(words))) and about <= said for words in denied)

    def _misattributed(self, text: str, window: _Window) -> bool:
        """Whether a figure of the claim is said, in the window, of something else than what the claim names.

        So it is when every sentence with the figure lacks one of the claim's names and has a name that neither claim
        nor question has: `BERT-large has 12 layers` against `BERT-base has 12 layers. BERT-large has 24 layers.`
        """
        claimed = names(text)
        familiar = claimed | names(self._question) | content_words(f"{self._question} {window.evidence.chunk.title}")
        for figure in numbers(text) - numbers(self._question):
            saying = [
                s.text for s in window.evidence.sentences[window.first : window.last + 1] if figure in numbers(s.text)
            ]
            if saying and all(claimed - content_words(said) and names(said) - familiar for said in saying):
                return True
        return False

    def _number(self, window: _Window, support: float) -> int:
        start, end = window.span
        for place, citation in enumerate(self._citations):
            if citation.document == window.evidence.chunk.document and (citation.start, citation.end) == (start, end):
                self._citations[place] = replace(citation, support=max(citation.support, support))
                return citation.n
        chunk = window.evidence.chunk
        self._citations.append(
            Citation(
                n=len(self._citations) + 1,
                quote=chunk.text[start - chunk.start : end - chunk.start],
                document=chunk.document,
                title=chunk.title,
                page=chunk.page_at(start),
                start=start,
                end=end,
                support=round(support, 4),
                kind=window.evidence.kind,
                passage=chunk.text,
                heading=chunk.heading,
            )
        )
        return len(self._citations)


def strip_marks(sentence: str) -> tuple[str, tuple[int, ...]]:
    """A sentence without its `[n]` marks, and the numbers they named, in order."""
    marks = tuple(int(n) for group in _MARK.findall(sentence) for n in re.split(r"[,;]", group))
    return " ".join(_ANY_MARK.sub("", sentence).split()), marks


def _with_marks(text: str, citations: tuple[int, ...]) -> str:
    """The text with its marks, before its full stop: a mark after it would read as the next sentence's."""
    if not citations:
        return text
    body, stop = (text[:-1], text[-1]) if text[-1:] in _STOPS else (text, "")
    return f"{body} {''.join(f'[{n}]' for n in citations)}{stop}"


def _windows(item: Evidence) -> list[_Window]:
    single = [_Window(item, i, i) for i in range(len(item.sentences))]
    adjacent = [
        _Window(item, i, i + 1)
        for i in range(len(item.sentences) - 1)
        if item.sentences[i + 1].start - item.sentences[i].end <= 3
    ]
    return single + adjacent


def _known(item: Evidence, question: str) -> frozenset[str]:
    """The words that a claim about this evidence may have as names."""
    everything = f"{question} {item.chunk.title}. {item.text}"
    return content_words(everything) | names(everything)
