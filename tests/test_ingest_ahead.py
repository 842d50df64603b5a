"""Files read ahead: in order, in batches that fit, with a bound on what waits, and with what goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from program.errors import Cancelled
from program.ingest.ahead import ReadAhead
from program.ingest.files import Found
from program.ingest.plan import FileReport, Step
from program.types import Chunk


class Planning:
    """Plans a file as many passages as its name says; one called `wrong` raises, `hang` waits until it is closed."""

    def __init__(self) -> None:
        self.planned: list[str] = []
        self.closed = threading.Event()

    def step(self, file: Found) -> Step:
        self.planned.append(file.name)
        if file.name == "wrong":
            raise LookupError("wrong")
        if file.name == "hang":
            self.closed.wait()
            raise Cancelled("closed")
        chunks = [Chunk(str(place), file.name, "", "text") for place in range(int(file.name))]
        return Step(FileReport(file.name, file.name, file.name, "indexed"), chunks=chunks)

    def close(self) -> None:
        self.closed.set()


@contextmanager
def reading(names: Sequence[str], planning: Planning | None = None) -> Iterator[ReadAhead]:
    files = [Found(Path(name), name, Path(name)) for name in names]
    with ReadAhead(cast(Any, planning or Planning()), files, 10) as ahead:
        yield ahead


def batches(ahead: ReadAhead) -> list[list[str]]:
    found = []
    while steps := ahead.take(lambda: None):
        found.append([step.report.name for step in steps])
    return found


def test_what_waits_is_taken_together_as_far_as_it_fits() -> None:
    with reading(["0", "4", "0", "3", "2", "0"]) as ahead:
        ahead._thread.join()  # all read: 9 passages
        assert batches(ahead) == [["0", "4", "0", "3", "2", "0"]]
    with reading(["4", "5", "40", "0", "3"]) as ahead:
        assert [name for batch in batches(ahead) for name in batch] == ["4", "5", "40", "0", "3"]
    with reading(["4", "5", "40"]) as ahead:
        ahead._thread.join()
        assert batches(ahead) == [["4", "5"], ["40"]]


def test_a_large_file_is_a_batch_of_its_own() -> None:
    with reading(["40", "0", "0", "1", "99"]) as ahead:
        found = batches(ahead)
    assert ["40"] in found
    assert ["99"] in found


def test_reading_pauses_while_much_waits() -> None:
    planning = Planning()
    with reading(["20", "1"], planning) as ahead:
        while not ahead._ready(1):
            pass
        assert planning.planned == ["20"]
        assert batches(ahead) == [["20"], ["1"]]


def test_what_goes_wrong_is_raised_when_all_before_it_is_taken() -> None:
    with reading(["1", "1", "wrong", "1"]) as ahead:
        ahead._thread.join()
        assert len(ahead.take(lambda: None)) == 2
        with pytest.raises(LookupError):
            ahead.take(lambda: None)


def test_leaving_stops_what_is_being_read_and_a_wait_tells() -> None:
    planning = Planning()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with reading(["1", "hang"], planning) as ahead:
        assert len(ahead.take(lambda: None)) == 1
        with pytest.raises(KeyboardInterrupt):
            ahead.take(interrupt)
    assert planning.closed.is_set()
    assert not ahead._thread.is_alive()


def test_no_files() -> None:
    with reading([]) as ahead:
        assert batches(ahead) == []
