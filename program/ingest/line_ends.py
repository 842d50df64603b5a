"""Lines of print put together again: with a space, without the hyphen of a broken word, or as they are."""

from __future__ import annotations

import re
from collections import Counter

from program.ingest.paragraphs import Row
from program.tokens import count_tokens

_CJK = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")


def joined_rows(rows: tuple[Row, ...], vocabulary: Counter[str]) -> str:
    """The rows as one line. vocabulary: as `vocabulary_of` gives it."""
    texts = [row.text for row in rows]
    return "".join(set_before(a, b, vocabulary) for a, b in zip(texts, [*texts[1:], ""], strict=True)).strip()


def set_before(line: str, following: str, vocabulary: Counter[str]) -> str:
    """`line` so that `following` can be set right behind it: with a space, without its hyphen, or as it is."""
    if line.endswith("\u00ad"):
        return line[:-1]
    broken = re.search(r"([^\W_]+)([-\u2010])$", line)
    if broken:
        return line if _keeps_hyphen(broken.group(1), following, vocabulary) else line[:-1]
    if line[-1:] and following[:1] and _CJK.match(line[-1]) and _CJK.match(following[0]):
        return line
    return line + " "


def _keeps_hyphen(left: str, following: str, vocabulary: Counter[str]) -> bool:
    """long-range or train-ing? By the document's own words first, then by which words are common."""
    right = re.match(r"[^\W\d_]*(?:-[^\W_]+)*", following)
    word = right.group() if right else ""
    if not word or word[0].isupper() or "-" in word or left[-1].isdigit():
        return True
    joined, hyphenated = (left + word).casefold(), f"{left}-{word}".casefold()
    if vocabulary[joined] or vocabulary[hyphenated]:
        return vocabulary[hyphenated] > vocabulary[joined]
    # A common word is one token of the language model's vocabulary.
    common = [len(part) > 2 and count_tokens(f" {part}") == 1 for part in (joined, left.casefold(), word.casefold())]
    return not common[0] and common[1] and common[2]


def vocabulary_of(rows: list[Row]) -> Counter[str]:
    """How often each word, and each hyphenated word, stands whole on a line."""
    words: Counter[str] = Counter()
    for row in (row for row in rows if not row.table):
        found = re.findall(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*[-\u2010]?", row.text)
        words.update(word.casefold().replace("\u2010", "-") for word in found if word[-1] not in "-\u2010")
    return words
