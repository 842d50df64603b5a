"""The process that reads files: what it gives back, and what becomes of files that hang it, crash it or fill it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import ingest_work
import psutil
import pytest

from program.errors import Cancelled, CorruptFile, EncryptedFile, NoText, ProgramError, TimedOut, TooLarge
from program.ingest.isolated import MIB, IsolatedReader, Limits


@pytest.fixture
def reader() -> Iterator[IsolatedReader]:
    opened = IsolatedReader(lambda: ingest_work.behave, Limits(seconds=0.5, memory=300 * MIB))
    yield opened
    opened.close()


def process_of(reader: IsolatedReader, name: str = "x") -> int:
    return int(reader.read(b"fine", name, None).chunks[0].text.split()[-1])


def test_what_is_read_comes_back_as_it_was(reader: IsolatedReader) -> None:
    found = reader.read("naïve 中文\u2028".encode(), "ü.md", None)
    assert found.title == "Title ? é"  # the lone surrogate of `behave` is no text
    assert (found.source, found.field, found.year) == ("Source", "field", 1999)
    assert found.chunks[0].text.startswith("naïve 中文\u2028")
    assert (found.chunks[0].page, found.chunks[0].page_breaks, found.chunks[0].id) == (3, "4:5", "ü.md-0")


def test_one_process_reads_one_file_after_the_other(reader: IsolatedReader) -> None:
    assert process_of(reader) == process_of(reader) != psutil.Process().pid


def test_errors_come_back_with_their_types(reader: IsolatedReader) -> None:
    with pytest.raises(EncryptedFile, match=r"^A password is needed\. Give it\.$"):
        reader.read(b"locked", "x", "wrong")
    assert reader.read(b"locked", "x", "open").chunks
    with pytest.raises(NoText):
        reader.read(b"", "x", None)
    with pytest.raises(CorruptFile, match="RuntimeError: unforeseen"):
        reader.read(b"surprise", "x", None)


def test_what_readers_print_disturbs_nothing(reader: IsolatedReader) -> None:
    assert reader.read(b"noise", "x", None).chunks[0].text == "read ''"
    assert process_of(reader)


@pytest.mark.parametrize(
    ("what", "kind", "says"),
    [
        (b"hang", TimedOut, r"0\.5 seconds.*--time-limit"),
        (b"crash", CorruptFile, "crash"),
        (b"leave", CorruptFile, "crash"),
        pytest.param(
            b"eat", TooLarge, "300 MiB", marks=pytest.mark.skipif(sys.platform != "linux", reason="no memory limit")
        ),
    ],
)
def test_a_file_that_takes_its_process_down_is_reported_and_the_next_is_read(
    reader: IsolatedReader, what: bytes, kind: type[Exception], says: str
) -> None:
    before = process_of(reader)
    with pytest.raises(kind, match=says):
        reader.read(what, "x", None)
    assert not psutil.pid_exists(before)
    assert process_of(reader) != before


def test_the_limit_of_a_scan_is_each_pages(tmp_path: Path) -> None:
    patient = IsolatedReader(lambda: ingest_work.behave, Limits(seconds=2))
    assert patient.read(b"scan", "x", None).chunks
    assert patient.doing == ""
    patient.close()


def test_a_process_that_earlier_files_have_filled_is_no_files_fault(tmp_path: Path) -> None:
    """The second file finds its process dead, and is read by a new one."""
    with_process = IsolatedReader(lambda: ingest_work.behave, Limits())
    psutil.Process(process_of(with_process)).kill()
    assert process_of(with_process)
    with_process.close()


def test_closing_stops_a_read_under_way(reader: IsolatedReader) -> None:
    patient = IsolatedReader(lambda: ingest_work.behave, Limits(seconds=60))
    pid = process_of(patient)
    stopped: list[BaseException] = []

    def read() -> None:
        try:
            patient.read(b"hang", "x", None)
        except BaseException as error:
            stopped.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    patient.close()
    thread.join()
    assert [type(error) for error in stopped] == [Cancelled]
    assert not psutil.pid_exists(pid)
    with pytest.raises(Cancelled):
        patient.read(b"fine", "x", None)


def test_a_process_that_does_not_start_is_no_files_fault() -> None:
    reader = IsolatedReader(lambda: partial(ingest_work.behave, count=Unloadable()), Limits())
    with pytest.raises(ProgramError, match=r"does not start.*cannot be loaded there"):
        reader.read(b"fine", "x", None)
    reader.close()


class Unloadable:
    def __reduce__(self) -> tuple[object, ...]:
        return exec, ("raise ImportError('cannot be loaded there')",)


@pytest.mark.skipif(sys.platform == "win32", reason="ends otherwise there")
def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    code = f"""
import sys, threading
sys.path[:] = {sys.path!r}
import ingest_work
from program.ingest.isolated import IsolatedReader, Limits
reader = IsolatedReader(lambda: ingest_work.behave, Limits())
print(reader.read(b"fine", "x", None).chunks[0].text.split()[-1], flush=True)
threading.Event().wait()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    child.wait(timeout=30)
