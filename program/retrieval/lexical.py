"""Words of a question against a handful of texts, in memory: for choosing among sentences, which no index holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Plus

from program.retrieval.analysis import query_terms, terms


def word_scores(asked: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """BM25+ of each text (Lv and Zhai 2011), float64 [texts]; 0 for a text that shares no term with `asked`.

    Its inverse document frequency stays positive in the smallest sets, where a word may be in every text.
    """
    split = [terms(text) for text in texts]
    if not any(split):
        return np.zeros(len(texts))
    wanted = query_terms(asked)
    scores = np.asarray(BM25Plus(split).get_scores(wanted), np.float64)
    return np.where([not set(wanted).isdisjoint(words) for words in split], scores, 0.0)
