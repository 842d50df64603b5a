"""Token vectors: packed to signs, compared by MaxSim."""

from __future__ import annotations

import math

import numpy as np
import pytest

from program.retrieval.late import late_interaction, pack, packed_width

SQUARE = np.array([[90, 90], [90, -90]], np.int8)  # unit vectors times 127, at right angles
EQUAL = math.sqrt(math.pi / 2)  # what two vectors whose numbers are all alike come to


def unit(generator: np.random.Generator, n: int, dimensions: int) -> np.ndarray:
    vectors = generator.standard_normal((n, dimensions))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("dimensions", [2, 8, 13, 384])
def test_packed_vectors_are_their_signs(dimensions: int):
    tokens = np.rint(unit(np.random.default_rng(0), 5, dimensions) * 127).astype(np.int8)
    packed = pack(tokens)
    assert (packed.dtype, packed.shape) == (np.uint8, (5, packed_width(dimensions)))
    assert (np.unpackbits(packed, axis=1, count=dimensions) == (tokens >= 0)).all()
    assert pack(tokens[:0]).shape == (0, packed_width(dimensions))


def test_late_interaction_is_the_mean_of_the_best_cosines():
    chunks = {"both": pack(SQUARE[::-1]), "one": pack(SQUARE[:1]), "none": pack(SQUARE[:0])}
    found = late_interaction(SQUARE, chunks)
    assert found == pytest.approx({"both": EQUAL, "one": EQUAL / 2, "none": 0.0}, abs=0.01)
    assert late_interaction(SQUARE[:0], chunks) == {"both": 0.0, "one": 0.0, "none": 0.0}
    assert late_interaction(SQUARE, {}) == {}


def test_cosines_are_estimated_without_bias():
    generator = np.random.default_rng(0)
    query = unit(generator, 40, 384)
    near = query + 0.5 * unit(generator, 40, 384)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    found = late_interaction(np.rint(query * 127).astype(np.int8), {"near": pack(np.rint(near * 127).astype(np.int8))})
    assert found["near"] == pytest.approx(float((query * near).sum(axis=1).mean()), abs=0.03)
