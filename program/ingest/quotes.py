"""Is a quote in a text, however either of them was typeset?

White space, hyphens and dashes, soft hyphens, invisible characters and the bar that stretches Arabic words are left out
of the comparison; compatibility forms (ligatures, Arabic letters' shapes, full width, superscripts), case and the
shapes of quotation marks are folded. Text itself is never changed for this.
"""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache

_SAME = str.maketrans(
    {"‘": "'", "’": "'", "‚": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"', "−": "-", "ـ": ""}
)
#: Unicode categories left out: dashes, invisible format characters (soft hyphen among them), controls, all spaces.
_LEFT_OUT = frozenset({"Pd", "Cf", "Cc", "Zs", "Zl", "Zp"})


def contains_quote(text: str, quote: str) -> bool:
    """Does `text` hold `quote`? A quote with nothing to compare is in no text."""
    wanted = fold(quote)
    return bool(wanted) and wanted in fold(text)


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Span of the first place where `quote` stands, so that `text[start:end]` reads as the quote; None if nowhere."""
    if not contains_quote(text, quote):
        return None
    wanted = fold(quote)
    begin = fold(text).index(wanted)
    position, start = 0, 0
    for place, character in enumerate(text):
        following = position + len(_fold_character(character))
        if position <= begin < following:
            start = place
        if following >= begin + len(wanted):
            return start, place + 1
        position = following
    return None


@lru_cache(maxsize=4096)
def fold(text: str) -> str:
    """What is compared of a text."""
    return "".join(map(_fold_character, text))


@cache
def _fold_character(character: str) -> str:
    folded = unicodedata.normalize("NFKD", character.translate(_SAME)).casefold()
    return "".join(part for part in folded if unicodedata.category(part) not in _LEFT_OUT)
