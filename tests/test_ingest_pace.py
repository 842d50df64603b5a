"""The rate and the time left that progress tells, by a clock that the test sets; and vectors kept in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from program.errors import LibraryError
from program.ingest.pace import ENOUGH, Pace
from program.ingest.spool import Spool
from program.retrieval.late import packed_width


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_is_that_of_all_files_at_the_rate_so_far() -> None:
    clock = Clock()
    pace = Pace([(".md", 1000), (".md", 3000), (".pdf", 8000), (".md", 0)], clock)
    assert str(pace) == ""
    pace.opened(".md", 1000, 100)
    clock.now += 2
    pace.encoded(ENOUGH - 1)
    assert str(pace) == ""  # too few to tell
    clock.now += 3
    pace.encoded(100 - ENOUGH + 1)
    # 20 a second; left are 300 in the other Markdown file, and hardly one in the PDF file, as such files are
    assert str(pace) == "20 passages/s, 15 s left"
    pace.opened(".md", 0, 0)  # unchanged
    pace.opened(".pdf", 8000, 100)
    assert str(pace) == "20 passages/s, 20 s left"
    pace.encoded(100)
    clock.now += 395
    assert str(pace) == "0.5 passages/s, 10 min left"
    pace.opened(".md", 3000, 0)  # it could not be read
    assert str(pace) == "0.5 passages/s, 0 s left"


def test_hours() -> None:
    clock = Clock()
    pace = Pace([(".txt", 10)], clock)
    pace.opened(".txt", 10, 36_100)
    clock.now += 50
    pace.encoded(100)
    assert str(pace) == "2.0 passages/s, 5.0 h left"


def test_vectors_come_back_from_their_files(tmp_path: Path) -> None:
    vectors = np.arange(12, dtype=np.float32).reshape(3, 4)
    tokens = [np.full((length, packed_width(4)), length, np.uint8) for length in (2, 0, 5)]
    with Spool(tmp_path, 4) as spool:
        spool.add(vectors[:2], tokens[:2])
        assert (spool.vectors[1] == vectors[1]).all()
        spool.add(vectors[2:], tokens[2:])
        assert (np.stack(list(spool.vectors)) == vectors).all()
        assert [array.tolist() for array in spool.tokens] == [array.tolist() for array in tokens]
        assert (spool.vectors[-1].dtype, spool.tokens[0].dtype) == (np.float32, np.uint8)
        assert [array.shape for array in spool.tokens[1:]] == [(0, 1), (5, 1)]
        with pytest.raises(IndexError):
            spool.vectors[3]
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_library_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Spool(tmp_path, 4) as spool, spool.tokens._file:
        monkeypatch.setattr(spool.tokens, "_file", Full())
        with pytest.raises(LibraryError, match="No space left"):
            spool.add(np.zeros((1, 4), np.float32), [np.zeros((1, packed_width(4)), np.uint8)])


class Full:
    def seek(self, _offset: int) -> None: ...

    def write(self, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    def close(self) -> None: ...
