"""Late interaction: a question's token vectors against those of passages, which are kept as one bit a dimension.

Only the passage's side is cut down to signs; the question's keeps its full vectors, which is what makes it as good
(bench/token_vectors.py measures it against finer and other ways of keeping them).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int8]
Packed = NDArray[np.uint8]


def pack(tokens: Tokens) -> Packed:
    """The signs of token vectors [t, d] as bits, uint8 [t, packed_width(d)]."""
    return np.packbits(tokens >= 0, axis=1)


def packed_width(dimensions: int) -> int:
    """Bytes of one packed token vector."""
    return (dimensions + 7) // 8


def late_interaction(query: Tokens, chunks: Mapping[str, Packed]) -> dict[str, float]:
    """MaxSim (Khattab and Zaharia 2020): for each query token its best cosine in the chunk, then the mean.

    query: int8 [q, d], unit vectors times 127; chunks: id to packed token vectors. Cosines are estimated from the signs
    (without bias where a vector's numbers are normally distributed), so one of near equals may pass 1. Chunks without
    tokens score 0.
    """
    filled = {id: tokens for id, tokens in chunks.items() if len(tokens)}
    if not filled or not len(query):
        return dict.fromkeys(chunks, 0.0)
    dimensions = query.shape[1]
    bits = np.unpackbits(np.concatenate(list(filled.values())), axis=1, count=dimensions)
    asked = query.astype(np.float32) / 127 * np.float32(np.sqrt(np.pi / 2 / dimensions))
    cosines = 2 * (bits.astype(np.float32) @ asked.T) - asked.sum(axis=1)  # with 1 and -1 for bits that are 1 and 0
    begins = np.cumsum([0, *(len(tokens) for tokens in filled.values())])[:-1]
    scores = np.maximum.reduceat(cosines, begins, axis=0).mean(axis=1)
    return dict.fromkeys(chunks, 0.0) | {id: float(score) for id, score in zip(filled, scores, strict=True)}
