"""What runs in the process that reads files (`isolated.py` starts it): bytes in, chunks out.

Each job is a line of JSON (`name`, `password`, `size`) and `size` bytes. Each answer is a line of JSON, an error or
what the file is and how many chunks it has, and then one line for each chunk; lines before it tell which page is being
read, where that takes long. Nothing that comes back is unpickled.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import Any, BinaryIO

from program.errors import CorruptFile, NoText, ReadError, TooLarge
from program.ingest.documents import Description
from program.ingest.pulse import listen
from program.types import Chunk

#: Most characters of a document's text: some 150,000 chunks.
CHARACTERS = 100_000_000
#: Seconds after its limit at which a process that nobody stopped, its parent being dead, ends itself.
GRACE = 10


@dataclass(frozen=True, slots=True)
class Passages:
    """A file as it goes into the index: what it is, the length of its text, its chunks."""

    title: str
    source: str
    field: str
    year: int | None
    characters: int
    chunks: list[Chunk]


#: (bytes, document's name, password) to passages. Raises ReadError. It must be picklable, being sent to the process.
Work = Callable[[bytes, str, str | None], Passages]


def read_passages(
    data: bytes,
    name: str,
    password: str | None,
    *,
    count: Callable[[str], int],
    window: int,
    described: Mapping[str, Description],
) -> Passages:
    """The chunks of a file, read as its name says. count, window: as `chunk_document` wants them. described: what is
    known of files, by name. Raises ReadError."""
    from program.ingest.chunking import chunk_document
    from program.ingest.readers import read_document

    document = described.get(name, Description()).applied_to(read_document(data, name, password))
    if len(document.text) > CHARACTERS:
        raise TooLarge(f"The file holds over {CHARACTERS // 10**6} million characters of text.", "Split it.")
    chunks = chunk_document(document, name, count, window)
    if not chunks:
        raise NoText("The file holds no text.")
    return Passages(document.title, document.source, document.field, document.year, len(document.text), chunks)


def serve() -> None:
    """Answer jobs until standard input ends. Standard streams are closed to readers and what they print."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's, which ends this process
    work, seconds, memory = pickle.load(jobs)  # from the parent: code's own names, nothing of a document
    _limit_memory(memory)
    answers.write(b"ready\n")
    answers.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)

    def told(page: int, pages: int) -> None:
        _alarm(int(seconds) + GRACE)
        answers.write(_json({"page": page, "pages": pages}) + b"\n")
        answers.flush()

    listen(told)
    while line := jobs.readline():
        job = json.loads(line)
        data = jobs.read(job["size"])
        if len(data) < job["size"]:
            return
        _alarm(int(seconds) + GRACE)
        for part in _answer(work, data, job["name"], job["password"]):
            answers.write(part + b"\n")
        answers.flush()
        _alarm(0)


def receive(answers: BinaryIO, on_page: Callable[[int, int], None]) -> Passages:
    """The next answer. on_page: called with each page that is told, and the number of pages.

    Raises the ReadError that was sent, EOFError when the process has ended.
    """
    while "page" in (head := json.loads(_line(answers))):
        on_page(int(head["page"]), int(head["pages"]))
    if "error" in head:
        kind = {kind.__name__: kind for kind in ReadError.__subclasses__()}.get(head["error"], CorruptFile)
        raise kind(head["message"], head["hint"])
    chunks = [Chunk(*json.loads(_line(answers))) for _ in range(head.pop("chunks"))]
    return Passages(**head, chunks=chunks)


def _answer(work: Work, data: bytes, name: str, password: str | None) -> Iterator[bytes]:
    try:
        found = work(data, name, password)
        head = {field: getattr(found, field) for field in ("title", "source", "field", "year", "characters")}
        yield _json({**head, "chunks": len(found.chunks)})
        yield from (_json(astuple(chunk)) for chunk in found.chunks)
    except ReadError as error:
        yield _json({"error": type(error).__name__, "message": str(error.args[0]), "hint": error.hint})
    except MemoryError:
        os._exit(MEMORY)  # what is left in the process is of no use
    except Exception as error:  # what a reader did not foresee is a damaged file
        message = f"The file cannot be understood ({type(error).__name__}: {str(error)[:200]})."
        yield _json({"error": "CorruptFile", "message": message, "hint": ""})


#: Exit code of a process that used up its memory.
MEMORY = 77


def _limit_memory(size: int) -> None:
    """Let allocations beyond `size` bytes fail, where the system can (Linux can; Windows and macOS cannot)."""
    if sys.platform != "win32":
        import resource

        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def _alarm(seconds: int) -> None:
    if sys.platform != "win32":
        signal.alarm(seconds)  # unhandled, it ends the process whatever that is doing


def _line(answers: BinaryIO) -> bytes:
    line = answers.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")  # lone surrogates are no text
