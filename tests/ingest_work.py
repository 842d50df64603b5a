"""Work for the process that reads files, and a process that ingests and stops where a test wants to kill it."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from program.errors import EncryptedFile, NoText
from program.ingest.pulse import begins
from program.ingest.worker import Passages
from program.types import Chunk


def behave(
    data: bytes,
    name: str,
    password: str | None,
    *,
    count: Callable[[str], int] = len,
    window: int = 9,
    described: object = None,
) -> Passages:
    """Does what the file's bytes say."""
    what = data.decode()
    if what == "hang":
        threading.Event().wait()
    if what == "scan":  # longer than the limit of 2 seconds, no page of it
        for page in (1, 2, 3):
            begins(page, 3)
            time.sleep(0.9)
    if what == "eat":
        return _passages(name, str(len(bytes(400 * 1024**2))))
    if what == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "leave":
        os._exit(0)
    if what == "noise":
        print("noise")
        os.write(1, b"more noise\n" * 100_000)
        os.write(2, b"more noise\n" * 100_000)
        return _passages(name, f"read {sys.stdin.read()!r}")
    if what == "locked" and password != "open":
        raise EncryptedFile("A password is needed.", "Give it.")
    if what == "surprise":
        raise RuntimeError("unforeseen")
    if not what:
        raise NoText("Nothing.")
    return _passages(name, f"{what} in {os.getpid()}")


def one_passage(
    data: bytes, name: str, password: str | None, *, count: Callable[[str], int], window: int, described: object
) -> Passages:
    """The first line is the title, the rest is a passage; quicker than real reading."""
    title, _, text = data.decode().partition("\n")
    id = hashlib.sha256(f"{name}\0{0}\0{text}".encode()).hexdigest()[:32]
    return Passages(title, "", "", None, len(text), [Chunk(id, name, title, text, end=len(text))])


def _passages(name: str, text: str) -> Passages:
    chunk = Chunk(f"{name}-0", name, "Title", text, end=len(text), page=3, page_breaks="4:5")
    return Passages("Title \ud800 é", "Source", "field", 1999, len(text), [chunk])


def ingest_until(moment: str, folder: str, place: str) -> None:
    """Ingest a folder; at the moment, say so and wait to be killed."""
    from fakes import HashEncoder

    from program.ingest import batch, ingest
    from program.retrieval.embedded import EmbeddedIndex

    what, _, number = moment.rpartition(" ")
    batch.BATCH = 8
    seen = 0

    def reach(here: str) -> None:
        nonlocal seen
        if here == what:
            seen += 1
            if seen == int(number):
                print(f"at {moment}", flush=True)
                threading.Event().wait()

    class Encoder(HashEncoder):
        def encode_with_tokens(self, texts):  # type: ignore[no-untyped-def]
            reach(f"encoding {texts[0].partition(chr(10))[0]}")
            return super().encode_with_tokens(texts)

        def __reduce__(self):  # type: ignore[no-untyped-def]
            return HashEncoder, ()

    class Index(EmbeddedIndex):
        def replace(self, *arguments):  # type: ignore[no-untyped-def]
            super().replace(*arguments)
            reach("written")

        def rename(self, name, document, id_of):  # type: ignore[no-untyped-def]
            super().rename(name, document, lambda chunk: reach("renaming") or id_of(chunk))

        def _insert_chunk(self, *arguments):  # type: ignore[no-untyped-def]
            reach("writing")
            super()._insert_chunk(*arguments)

    encoder = Encoder()
    with closing(Index.open(Path(place), encoder.fingerprint, encoder.dimensions, create=True)) as index:
        ingest([Path(folder)], index, encoder, on_progress=lambda *step: reach("progress"))
    print("done", flush=True)


if __name__ == "__main__":
    ingest_until(*sys.argv[1:])
