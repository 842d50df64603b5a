"""One document's vectors on their way into the index, in files instead of in memory.

The files have no names (or are deleted with their last handle), so nothing is left of them when the process is killed.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from program.errors import LibraryError
from program.retrieval.late import Packed, packed_width


class Spool:
    """`vectors` and `tokens` read like lists of what was added, each array loaded when it is asked for."""

    def __init__(self, folder: Path | None, dimensions: int) -> None:
        """folder: where the files are kept, on a disk with room for 10 KB a passage; None for the system's own."""
        self.vectors = _Arrays(folder, np.float32, (dimensions,))
        self.tokens = _Arrays(folder, np.uint8, (-1, packed_width(dimensions)))

    def add(self, vectors: Iterable[NDArray[np.float32]], tokens: Iterable[Packed]) -> None:
        self.vectors.add(vectors)
        self.tokens.add(tokens)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.vectors.close()
        self.tokens.close()


class _Arrays(Sequence[NDArray[Any]]):
    """Arrays of one type and shape (-1 is any length), one after the other in a file."""

    def __init__(self, folder: Path | None, dtype: type, shape: tuple[int, ...]) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (`close` does)
        self._dtype = dtype
        self._shape = shape
        self._ends = array("q", [0])  # in bytes; the first array begins at the first of them

    def add(self, arrays: Iterable[NDArray[Any]]) -> None:
        try:
            self._file.seek(self._ends[-1])
            for one in arrays:
                self._ends.append(self._ends[-1] + self._file.write(one.astype(self._dtype).tobytes()))
        except OSError as error:
            raise LibraryError(f"Vectors cannot be kept ({error.strerror}).", "Free some space on the disk.") from error

    def close(self) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> NDArray[Any]: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[NDArray[Any]]: ...

    def __getitem__(self, place: int | slice) -> NDArray[Any] | Sequence[NDArray[Any]]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        begin, end = self._ends[place : place + 2]
        self._file.seek(begin)
        return np.frombuffer(self._file.read(end - begin), self._dtype).reshape(self._shape)
