"""Text to search terms: the one place where the lexical side decides what counts as the same word.

Terms hold letters, digits and dots, never spaces or quotes, so they need no escaping anywhere. Titles, texts and
questions are read alike; only questions lose their stop words.
"""

from __future__ import annotations

import re
import unicodedata

from program.words import STOP_WORDS

_ACCENT = re.compile("[\u0300-\u036f\u0640\u064b-\u0652]")  # and Arabic's vowel signs and stretching bar
_CJK = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\U00020000-\U0003134f"
_PIECE = re.compile(
    rf"(?P<cjk>[{_CJK}]+)"
    r"|(?P<number>\d+(?:[.,]\d+)+)"
    rf"|(?P<word>[^\W{_CJK}]+(?:(?:[-‐‑'’&]|\.(?=\d|[^\W\d]\b))[^\W{_CJK}]+)*)"
)
_PART = re.compile(r"\d+(?:\.\d+)+|[^\W_]+")
_THOUSANDS = re.compile(r",(?=\d{3}\b)")


def terms(text: str) -> list[str]:
    """Search terms of a text, in order, repeats kept.

    Case, width, accents and plurals are folded. A compound gives its parts and the whole ("GPT-3": gpt, 3, gpt3;
    "d_model": d, model, dmodel), so that either spelling finds the other. Decimals and arXiv numbers stay whole.
    Chinese, Japanese and Korean text gives its characters and their overlapping pairs, because nothing marks its words.
    """
    return [_singular(word) for word in _words(text)]


def query_terms(text: str) -> list[str]:
    """Distinct terms of a question in order of appearance, without stop words; with them when nothing else is left.

    A capital letter alone is never a stop word: "vitamin A", "type I error".
    """
    capitals = {letter.casefold() for letter in re.findall(r"\b[A-Z]\b", text)}
    words = _words(text)
    telling = [word for word in words if word in capitals or word not in STOP_WORDS]
    return list(dict.fromkeys(_singular(word) for word in telling or words))


def _words(text: str) -> list[str]:
    found: list[str] = []
    for match in _PIECE.finditer(_fold(text)):
        piece = match.group()
        if match.lastgroup == "cjk":
            found += [piece[i : i + n] for n in (1, 2) for i in range(len(piece) - n + 1)]
        elif match.lastgroup == "number":
            found.append(_THOUSANDS.sub("", piece).replace(",", "."))
        else:
            found += _compound(piece)
    return found


def _fold(text: str) -> str:
    """NFKC, case-folded, accents and vowel signs dropped."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFKC", _ACCENT.sub("", decomposed))


def _compound(piece: str) -> list[str]:
    if piece.isalnum():
        return [piece]
    parts = _PART.findall(re.sub(r"['’]s$", "", piece))
    return parts if len(parts) < 2 else [*parts, "".join(parts)]


def _singular(word: str) -> str:
    """The S stemmer (Harman 1991): it takes plurals off and does no other harm."""
    if len(word) > 3 and word.endswith("s"):
        if word.endswith("ies") and word[-4] not in "ae":
            return word[:-3] + "y"
        if word.endswith("es") and word[-3] not in "aeo":
            return word[:-1]
        if word[-2] not in "us":
            return word[:-1]
    return word
