"""What a search needs of one state of the embedded index, in arrays by chunk key.

Lengths, kinds, fields and years are kept in blocks of chunks, each with the generation that changed it last, so that
a reader takes over a new state by reading the blocks that changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from program.retrieval.index import Filters
from program.retrieval.postings import BLOCK, bm25, length_norm
from program.retrieval.vector_file import Matrix, Scores, Vector, VectorFile, products

SCHEMA = """
CREATE TABLE columns (block INTEGER PRIMARY KEY, generation INTEGER NOT NULL, numbers BLOB NOT NULL);
CREATE INDEX columns_by_generation ON columns (generation);
CREATE TABLE names (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)
"""
#: The columns, int32: terms in text and in title, numbers of kind and field in `names`, year. A key without a chunk
#: has kind 0.
TEXT, TITLE, KIND, FIELD, YEAR = range(5)
NO_YEAR = -(2**31)
#: Results kept of each sort: a question asks for the same ones several times in a row, then never again.
RECENT = 16

Columns = NDArray[np.int32]
Keys = NDArray[np.intp]


@dataclass(frozen=True)
class Snapshot:
    """columns: int32 [5, keys]. matrix: float32 [keys, d]; to be used only inside the transaction that it was read in
    (or a later one that sees the same generation), because the rows of deleted chunks are used again."""

    generation: int
    columns: Columns
    matrix: Matrix
    _dense: dict[bytes, Scores] = field(default_factory=dict)
    _lexical: dict[tuple[tuple[str, ...], float], Scores] = field(default_factory=dict)
    _passing: dict[Filters, Keys] = field(default_factory=dict)

    @classmethod
    def read(cls, connection: sqlite3.Connection, vectors: VectorFile, known: Snapshot | None) -> Snapshot:
        """The state that the connection's transaction sees, made from an earlier or later one as far as that helps."""
        current = generation(connection)
        if known is not None and known.generation == current:
            return known
        if known is None or known.generation > current:
            known = cls(-1, np.zeros((5, 0), np.int32), vectors.read(0))
        query = "SELECT block, numbers FROM columns WHERE generation > ? ORDER BY block"
        changed = [
            (block * BLOCK, np.frombuffer(numbers, np.int32).reshape(-1, 5))
            for block, numbers in connection.execute(query, (known.generation,))
        ]
        before = known.columns.shape[1]
        columns = np.zeros((5, max([before, *(begin + len(rows) for begin, rows in changed[-1:])])), np.int32)
        columns[:, :before] = known.columns
        for begin, rows in changed:
            columns[:, begin : begin + len(rows)] = rows.T
        return cls(current, columns, vectors.read(columns.shape[1]))

    @cached_property
    def total(self) -> int:
        """Number of chunks."""
        return int(np.count_nonzero(self.columns[KIND]))

    @cached_property
    def _norms(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return length_norm(self.columns[TEXT]), length_norm(self.columns[TITLE])

    def dense(self, vectors: Sequence[Vector]) -> Callable[[], list[Scores]]:
        """Begin to multiply every row with each of some vectors; the call that is given waits for the products,
        float32 [keys] for each vector."""
        wanted = {vector.tobytes(): vector for vector in vectors}
        # Read once: another thread may make room in between.
        known = {key: scores for key in wanted if (scores := self._dense.get(key)) is not None}
        new = {key: vector for key, vector in wanted.items() if key not in known}
        scanning = products(self.matrix, list(new.values()))

        def finish() -> list[Scores]:
            for key, scores in zip(new, scanning(), strict=True):
                known[key] = scores
                _remember(self._dense, key, scores)
            return [known[vector.tobytes()] for vector in vectors]

        return finish

    def lexical(self, connection: sqlite3.Connection, terms: list[str], title_weight: float) -> Scores:
        """BM25 of every key, float32 [keys]."""
        key = tuple(terms), title_weight
        if (known := self._lexical.get(key)) is None:
            known = bm25(connection, terms, self.total, *self._norms, title_weight)
            _remember(self._lexical, key, known)
        return known

    def passing(self, connection: sqlite3.Connection, filters: Filters) -> Keys:
        """The keys of the chunks that pass, ascending."""
        if (known := self._passing.get(filters)) is None:
            passes = self.columns[KIND] > 0
            for column, name in ((KIND, filters.kind), (FIELD, filters.field)):
                if name is not None:
                    row = connection.execute("SELECT number FROM names WHERE name = ?", (name,)).fetchone()
                    passes &= self.columns[column] == (row[0] if row else -1)
            if filters.year is not None:
                passes &= self.columns[YEAR] == filters.year
            if filters.document is not None:
                found = connection.execute("SELECT key FROM chunks WHERE document = ?", (filters.document,)).fetchall()
                of_it = np.zeros(len(passes), np.bool_)
                of_it[[key for (key,) in found]] = True
                passes &= of_it
            known = np.flatnonzero(passes)
            _remember(self._passing, filters, known)
        return known


def generation(connection: sqlite3.Connection) -> int:
    """How many changes the state that the connection's transaction sees has had."""
    query = "SELECT CAST(value AS INTEGER) FROM about WHERE name = 'generation'"
    return int(connection.execute(query).fetchone()[0])


def write_columns(connection: sqlite3.Connection, rows: Mapping[int, tuple[int, ...]]) -> None:
    """Set the columns of some keys, as of the generation after the committed one."""
    for block, keys in groupby(sorted(rows), lambda key: key // BLOCK):
        places = list(keys)
        stored = connection.execute("SELECT numbers FROM columns WHERE block = ?", (block,)).fetchone()
        old = np.frombuffer(stored[0] if stored else b"", np.int32).reshape(-1, 5)
        new = np.zeros((max(len(old), places[-1] % BLOCK + 1), 5), np.int32)
        new[: len(old)] = old
        new[[key % BLOCK for key in places]] = [rows[key] for key in places]
        connection.execute(
            "INSERT OR REPLACE INTO columns SELECT ?, value + 1, ? FROM about WHERE name = 'generation'",
            (block, new.tobytes()),
        )


def number_of(connection: sqlite3.Connection, name: str) -> int:
    """The number that stands for a kind or field in the columns; from 1 on."""
    connection.execute("INSERT OR IGNORE INTO names (name) VALUES (?)", (name,))
    return int(connection.execute("SELECT number FROM names WHERE name = ?", (name,)).fetchone()[0])


def best(scores: Scores, keys: Keys, k: int) -> Keys:
    """The keys, of those given, with the k best scores, in no order; more than k when the last of them tie."""
    if len(keys) <= k:
        return keys
    found = scores[keys]
    chosen: Keys = keys[found >= np.partition(found, -k)[-k]]
    return chosen


def _remember(known: dict[Any, Any], key: object, value: object) -> None:
    if len(known) >= RECENT:
        known.clear()
    known[key] = value
