"""Vectors in a file of rows, mapped into memory: opening costs nothing, and processes share what they have read.

The file knows nothing of what is in it. A row counts only if a committed transaction of the index says so, and the
index writes only rows that no reader looks at, so a crash in the middle of writing changes nothing.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from program.errors import LibraryError
from program.machine import processor_cores

Vector = NDArray[np.float32]  # [d]
Matrix = NDArray[np.float32]  # [rows, d]
Scores = NDArray[np.float32]  # [rows]

#: Rows that a thread scans at least: fewer are done before it is told of them.
LEAST = 8192


class VectorFile:
    """float32 [rows, dimensions]; the file need not exist as long as there are no rows."""

    def __init__(self, path: Path, dimensions: int) -> None:
        self._path = path
        self._dimensions = dimensions
        self._width = dimensions * np.dtype(np.float32).itemsize
        self._mapped = np.zeros((0, dimensions), np.float32)

    def read(self, rows: int) -> Matrix:
        """The first `rows` rows, float32 [rows, d], not loaded before they are used. Raises LibraryError."""
        mapped = self._mapped
        if len(mapped) < rows:
            try:
                with self._path.open("rb") as file:
                    content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError) as error:
                raise LibraryError(f"The vectors {self._path} cannot be read ({error}).", _AGAIN) from error
            whole = len(content) // self._width
            mapped = np.frombuffer(content, np.float32, whole * self._dimensions).reshape(whole, self._dimensions)
            if whole < rows:
                raise LibraryError(f"The vectors {self._path} are not all there.", _AGAIN)
            self._mapped = mapped
        return mapped[:rows]

    def close(self) -> None:
        """Let go of the file; matrices that were read stay good."""
        self._mapped = self._mapped[:0].copy()

    @contextmanager
    def writing(self) -> Iterator[Callable[[int, Matrix], None]]:
        """Gives what writes a vector to a row; all are on the disk when the body ends. Raises LibraryError."""
        try:
            with os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT | _BINARY, 0o644), "r+b") as file:
                room = os.fstat(file.fileno()).st_size
                end = 0

                def write(row: int, vector: Matrix) -> None:
                    nonlocal end
                    if (begin := row * self._width) != end:
                        file.seek(begin)
                    end = begin + file.write(vector.astype(np.float32).tobytes())

                yield write
                file.flush()
                if (end := os.fstat(file.fileno()).st_size) > room:
                    # Room ahead, so that readers need not map the file anew after each addition. It takes no disk.
                    file.truncate(end + end // 8)
                os.fsync(file.fileno())
        except OSError as error:
            hint = "Check that the folder can be written and the disk is not full."
            raise LibraryError(f"The vectors {self._path} cannot be written ({error.strerror}).", hint) from error


def products(matrix: Matrix, vectors: Sequence[Vector]) -> Callable[[], list[Scores]]:
    """Begin to multiply all rows with each vector; the call that is given waits for the results, one for each vector.

    Memory is read once, however many vectors there are, and by all cores, while the caller does something else.
    """
    if not vectors:
        return list
    scores = np.empty((len(matrix), len(vectors)), np.float32)
    many = np.stack(vectors)
    rows = max(LEAST, -(-len(matrix) // processor_cores()))

    def scan(begin: int) -> None:
        # Not `@`: row by row is faster here, and gives equal vectors equal products wherever they stand and whatever
        # stands beside them, so that ties are ties.
        part = slice(begin, begin + rows)
        np.vecdot(matrix[part, None], many, out=scores[part])

    parts = [_threads(os.getpid()).submit(scan, begin) for begin in range(0, len(matrix), rows)]

    def finish() -> list[Scores]:
        for part in parts:
            part.result()
        return [column.copy() for column in scores.T]

    return finish


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Threads of this process: one that was forked has none of its parent's."""
    return ThreadPoolExecutor(processor_cores(), f"scan-{process}")


_AGAIN = "Delete the folder and ingest again, or choose another with --index."
_BINARY = getattr(os, "O_BINARY", 0)  # Windows
