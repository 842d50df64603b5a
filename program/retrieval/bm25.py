"""The one lexical score, whichever engine keeps the index.

    score(d) = sum over properties p and terms t of  boost(p) * idf(t) * f / (f + K1 * (1 - B + B * length / mean))

p: the title (boosted by `title_weight`) and the text of a chunk, as `analysis.terms` makes them. f: how often t is in p
of d. The mean is over the chunks that have p. It is what Weaviate's BlockMax WAND computes (Okapi BM25 of Robertson et
al. 1994 without its constant factor K1 + 1), over the whole library instead of one shard.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

K1 = 1.2
B = 0.75


@dataclass(frozen=True, slots=True)
class Extent:
    """How much a library holds. titled, worded: chunks whose title, whose text has any term; the others count terms."""

    chunks: int = 0
    titled: int = 0
    title_terms: int = 0
    worded: int = 0
    text_terms: int = 0

    @classmethod
    def of(cls, titles: Sequence[Sequence[str]], texts: Sequence[Sequence[str]]) -> Extent:
        """The extent of chunks whose titles and texts have these terms."""
        filled, terms = ([sum(map(of, field)) for field in (titles, texts)] for of in (bool, len))
        return cls(len(texts), filled[0], terms[0], filled[1], terms[1])


def idf(chunks: int, having: int) -> float:
    """ln(1 + (N - n + 0.5) / (n + 0.5)), n of N chunks having a term."""
    chunks = max(chunks, having)  # while a document is written, its chunks may be counted one by one
    return math.log(1 + (chunks - having + 0.5) / (having + 0.5))


def having(in_titles: int, in_texts: int) -> int:
    """Chunks that count as having a term: the mean, rounded down, over the properties in which it occurs at all."""
    occurs = (in_titles > 0) + (in_texts > 0)
    return (in_titles + in_texts) // occurs if occurs else 0


def score(
    weights: Mapping[str, float], title: Sequence[str], text: Sequence[str], extent: Extent, title_weight: float
) -> float:
    """BM25 of one chunk. weights: idf of each term of the query. title, text: its terms, repeats kept."""
    # While a library's first document is written, its chunks may be found before they are counted.
    parts = (
        (title, title_weight, extent.title_terms / extent.titled if extent.titled else 1.0),
        (text, 1.0, extent.text_terms / extent.worded if extent.worded else 1.0),
    )
    total = 0.0
    for terms, boost, mean in parts:
        for term, weight in weights.items():
            if found := terms.count(term):
                total += boost * weight * found / (found + K1 * (1 - B + B * len(terms) / mean))
    return float(np.float32(total))  # in which the order of summation leaves no trace, so that ties break by id
