"""Which passages name which: a title that stands in a question, or in the text of another document.

A question that needs two documents often words only one of them; the other is named there. So the first hits' links
are followed into the pool (`Retriever`), and count when it is ranked (`rank`). Names are compared as
`analysis.terms` reads them, whole and in order, so case, accents, plurals and punctuation do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from unicodedata import east_asian_width

from program.retrieval.analysis import terms
from program.types import Chunk
from program.words import STOP_WORDS

Name = tuple[str, ...]

_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")


@lru_cache(maxsize=2**17)  # a library's titles are read anew when one of them changes
def name_of(title: str) -> Name:
    """A title as it would stand in a text: its terms, without what brackets at its end tell apart ("Ed Wood (film)").

    Empty for a title of stop words alone, which would stand everywhere.
    """
    words = terms(_QUALIFIER.sub("", title)) or terms(title)
    # Pairs of Chinese, Japanese and Korean characters come after the characters, which say it all.
    name = tuple(word for word in words if len(word) != 2 or east_asian_width(word[0]) != "W")
    return () if STOP_WORDS.issuperset(name) else name


class Titles:
    """Titled things, to be found in texts by their names, in one pass over a text."""

    def __init__(self, titled: Iterable[tuple[str, str]]) -> None:
        """titled: what each is known by, and its title."""
        self._known: dict[Name, list[str]] = {}
        for key, title in titled:
            if name := name_of(title):
                self._known.setdefault(name, []).append(key)
        lengths: dict[str, set[int]] = {}
        for name in self._known:
            lengths.setdefault(name[0], set()).add(len(name))
        #: Lengths of the names that begin with a term, the longest first.
        self._lengths = {term: sorted(found, reverse=True) for term, found in lengths.items()}

    def named_in(self, words: Sequence[str]) -> list[str]:
        """Those whose names stand in a text, in the order in which they do. words: the text's terms."""
        found = (
            name
            for place, word in enumerate(words)
            for length in self._lengths.get(word, ())
            if (name := tuple(words[place : place + length])) in self._known
        )
        return [key for name in dict.fromkeys(found) for key in self._known[name]]


def links(chunks: Sequence[Chunk], words: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """Chunk id to the ids of the chunks, of other documents, whose titles its text names.

    words: the terms of each chunk's text, by id.
    """
    titles = Titles((chunk.id, chunk.title) for chunk in chunks)
    document = {chunk.id: chunk.document for chunk in chunks}
    return {
        chunk.id: frozenset(id for id in titles.named_in(words[chunk.id]) if document[id] != chunk.document)
        for chunk in chunks
    }
