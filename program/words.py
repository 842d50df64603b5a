"""Words, numbers and names of a text, for comparing a question or a claim with a passage."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_STOP_WORDS = """
    a about also an and any are as at be been but by can could did do does for from had has have how i if in into is it
    its many me more most much my no not of on or our please should so some such tell than that the their them then
    there these they this those to was we were what when where which who whom whose why will with would you your
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
_FIGURES = {
    word: str(value)
    for value, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
}  # fmt: skip
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][a-z]+)?\d*|\w")
NEGATION = re.compile(r"\b(?:not|no|never|none|neither|nor|without|cannot)\b|n['’]t\b", re.IGNORECASE)
_CJK = re.compile(r"[぀-ヿ㐀-鿿豈-﫿가-힯]")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*")
_NAME = re.compile(r"\b(?:[A-Z][\w-]*[A-Z0-9][\w-]*|[A-Z][a-z]\w+)")
_ENDINGS = ("ization", "isation", "ations", "ation", "ings", "ing", "ies", "ed", "es", "er", "s", "e", "y")


@lru_cache(maxsize=4096)
def content_words(text: str) -> frozenset[str]:
    """What a text is about: NFKC, case-folded, stop words dropped, number words as figures, endings cut. CJK text gives
    its pairs of characters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    found: set[str] = set()
    for word in _WORD.findall(folded):
        if _CJK.search(word):
            found.update(word[i : i + 2] for i in range(max(len(word) - 1, 1)))
        elif word not in STOP_WORDS:
            found.add(_stem(_FIGURES.get(word, word)))
    return frozenset(found)


def coverage(asked: str, text: str) -> float:
    """Share in [0, 1] of the content words of `asked` that `text` has; 0 when `asked` has none."""
    wanted = content_words(asked)
    return len(wanted & content_words(text)) / len(wanted) if wanted else 0.0


def numbers(text: str) -> frozenset[str]:
    """Figures in a text, thousands separators dropped, number words to twelve included."""
    folded = unicodedata.normalize("NFKC", text)
    figures = {_figure(match) for match in _NUMBER.findall(folded)}
    spelt = {_FIGURES[word] for word in re.findall(r"[a-z]+", folded.casefold()) if word in _FIGURES}
    return frozenset(figures | (spelt - {"1", "0"}))


def names(text: str) -> frozenset[str]:
    """Capitalised words, case-folded, that do not merely open a sentence."""
    found: set[str] = set()
    for match in _NAME.finditer(text):
        word = match.group()
        opens = not text[: match.start()].rstrip(" \"'“(") or text[: match.start()].rstrip(" \"'“(")[-1] in ".!?:\n"
        if not opens or not word[1:].islower():
            found.update(_stem(part) for part in word.casefold().split("-") if part)
    return frozenset(found)


def _figure(text: str) -> str:
    plain = re.sub(r",(?=\d{3}\b)", "", text).replace(",", ".").rstrip(".")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _stem(word: str) -> str:
    if word[0].isdigit():
        return _figure(word)
    word = word.removesuffix("'s").removesuffix("’s")
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word
