"""Which passages name which: a title that stands in a question, or in the text of another document.

A question that needs two documents often words only one of them; the other is named there. Names are compared as
`analysis.terms` reads them, whole and in order, so case, accents, plurals and punctuation do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from unicodedata import east_asian_width

from program.retrieval.analysis import terms
from program.types import Chunk
from program.words import STOP_WORDS

Name = tuple[str, ...]

_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")


def name_of(title: str) -> Name:
    """A title as it would stand in a text: its terms, without what brackets at its end tell apart ("Ed Wood (film)").

    Empty for a title of stop words alone, which would stand everywhere.
    """
    words = terms(_QUALIFIER.sub("", title)) or terms(title)
    # Pairs of Chinese, Japanese and Korean characters come after the characters, which say it all.
    name = tuple(word for word in words if len(word) != 2 or east_asian_width(word[0]) != "W")
    return () if STOP_WORDS.issuperset(name) else name


def stands_in(name: Name, words: Sequence[str]) -> bool:
    """Whether a name stands in a text, of which `words` are the terms."""
    return bool(name) and bool(_names_in(words, {name[0]: [name]}))


def links(chunks: Sequence[Chunk], words: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """Chunk id to the ids of the chunks, of other documents, whose titles its text names.

    words: the terms of each chunk's text, by id.
    """
    titled: dict[Name, list[Chunk]] = {}
    for chunk in chunks:
        if name := name_of(chunk.title):
            titled.setdefault(name, []).append(chunk)
    names: dict[str, list[Name]] = {}
    for name in titled:
        names.setdefault(name[0], []).append(name)
    return {
        chunk.id: frozenset(
            other.id
            for name in _names_in(words[chunk.id], names)
            for other in titled[name]
            if other.document != chunk.document
        )
        for chunk in chunks
    }


def _names_in(words: Sequence[str], names: Mapping[str, Sequence[Name]]) -> set[Name]:
    """The names that stand in a text, in one pass over its terms. names: by their first term."""
    return {
        name
        for place, word in enumerate(words)
        for name in names.get(word, ())
        if tuple(words[place : place + len(name)]) == name
    }
