"""Small stand-ins for slow parts, exact enough that logic built on them can be asserted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


class HashEncoder:
    """An encoder that hashes words: texts that share words are near, all else is near zero. Deterministic, no model.

    Every word has one fixed random unit vector; a text's vector is the normalised sum of its words' vectors, its token
    vectors are the words' own, in int8.
    """

    def __init__(self, dimensions: int = 64, max_tokens: int = 254, fingerprint: str = "hash") -> None:
        self.dimensions = dimensions
        self.max_tokens = max_tokens
        self.fingerprint = f"{fingerprint}-{dimensions}"
        self.calls: list[list[str]] = []  # the batches it was asked for, so that tests can count them

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encode_with_tokens(texts)[0]

    def encode_with_tokens(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[NDArray[np.int8]]]:
        self.calls.append(list(texts))
        pooled = np.zeros((len(texts), self.dimensions), np.float32)
        tokens = []
        for row, text in enumerate(texts):
            words = np.array([self._word(word) for word in _words(text)], np.float32).reshape(-1, self.dimensions)
            tokens.append(np.rint(words * 127).astype(np.int8))
            total = words.sum(axis=0) if len(words) else self._word("")
            pooled[row] = total / np.linalg.norm(total)
        return pooled, tokens

    def count(self, text: str) -> int:
        return len(_words(text))

    def _word(self, word: str) -> NDArray[np.float32]:
        return _word_vector(word, self.dimensions)


@lru_cache(10_000)
def _word_vector(word: str, dimensions: int) -> NDArray[np.float32]:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(dimensions).astype(np.float32)
    return vector / np.linalg.norm(vector)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
