"""Files into an index: found, read, chunked, encoded, written, with a report for each.

While passages are encoded, another process reads the next files. The passages of several small files are encoded in
one go. A document is written in one step when all of it is encoded, so a run that is killed has lost the files that it
was encoding at most, and the next run goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from program.errors import EncoderMismatch
from program.ingest.ahead import ReadAhead
from program.ingest.chunking import chunk_id
from program.ingest.documents import Description
from program.ingest.files import Found, find_files
from program.ingest.identity import Known
from program.ingest.isolated import Limits
from program.ingest.pace import Pace
from program.ingest.plan import FileReport, Planner, Step
from program.ingest.spool import Spool
from program.ingest.unread import Unread
from program.retrieval.embedded import FILE
from program.retrieval.encoders import Encoder, Vectors, encode_passages, passage_text
from program.retrieval.index import Index
from program.retrieval.late import Packed
from program.types import Chunk

#: (files done, files, what is being done); a file half of which is encoded counts half
Progress = Callable[[float, int, str], None]

#: Most chunks that are encoded in one go.
BATCH = 64
#: Chunks whose writing takes long enough to be told.
MANY = 2000


def ingest(
    paths: Sequence[Path],
    index: Index,
    encoder: Encoder | Callable[[], Encoder],
    *,
    password: str | None = None,
    limits: Limits | None = None,
    mirror: bool = False,
    retry: bool = False,
    described: Mapping[Path, Description] | None = None,
    on_progress: Progress | None = None,
) -> list[FileReport]:
    """Index files, folders and patterns (see `find_files`); one report for each file, in the order they were found.

    A file whose content the index knows is not read again: a copy stays under the name it is known by, and where the
    known file is gone, the document takes the new name (and a new title if the old name was its title). A changed file
    replaces its old chunks in one step. A file that cannot be read stops nothing: its report says why, and what the
    index held of it stays. It is not tried again as long as nothing has changed that could help (see `unread`).

    encoder: or what loads it, called when there is something to encode. mirror: the index is to hold these files and no
    others; a name is then the same document wherever its folder lies, and documents without a file are deleted.
    retry: try again what earlier runs could not read. described: what is known of files when they are read, by their
    path as given.

    Raises LibraryError (EncoderMismatch for an encoder that the index was not made with), and what loading an encoder
    raises.
    """
    known = Known(index.documents())
    found = [file for file in find_files(paths, None if mirror else known.names()) if not _is_index(file, index)]
    load = cache(partial(_load, encoder, index.encoder))
    places = {file.name: file.real for file in found} if mirror else None
    by_name = {file.name: (described or {})[file.path] for file in found if file.path in (described or {})}
    limits, folder = limits or Limits(), Path(index.location)
    unread = Unread(folder if folder.is_dir() else None, limits, password, retry=retry)
    planner = Planner(known, unread, load, password, limits, places, by_name)
    reports = _Run(found, index, load, planner, on_progress).reports()
    if mirror:
        kept = {report.document for report in reports}
        for document in index.documents():
            if document.name not in kept:
                index.delete(document.name)
    return reports


class _Run:
    """Carries out what is planned for files, in their order, and tells how far it is."""

    def __init__(
        self,
        files: Sequence[Found],
        index: Index,
        encoder: Callable[[], Encoder],
        planner: Planner,
        on_progress: Progress | None,
    ) -> None:
        self._files = files
        self._index = index
        self._encoder = encoder
        self._planner = planner
        self._tell = on_progress or _silent
        self._work = {file.real: planner.work(file) for file in files}
        self._pace = Pace((file.real.suffix, self._work[file.real]) for file in files)
        self._reports: list[FileReport] = []
        self._reading: tuple[int, str] | None = None  # what was last said to be read

    def reports(self) -> list[FileReport]:
        """Do it all."""
        with ReadAhead(self._planner, self._files, BATCH) as ahead:
            while steps := ahead.take(self._say_reading):
                self._carry_out(steps)
        total = len(self._files)
        if total:
            self._tell(total, total, f"{total} file{'s' * (total != 1)} done")
        return self._reports

    def _carry_out(self, steps: Sequence[Step]) -> None:
        """Encode the steps' passages in one go and change the index for each, or do so for one that has more."""
        for file, step in zip(self._files[len(self._reports) :], steps, strict=False):
            self._pace.opened(file.real.suffix, self._work[file.real], len(step.chunks))
        total = sum(len(step.chunks) for step in steps)
        if total > BATCH:
            (step,) = steps
            self._carry_out_large(step)
            return
        vectors, tokens = self._encoded([chunk for step in steps for chunk in step.chunks]) if total else ((), ())
        end = 0
        for step in steps:
            begin, end = end, end + len(step.chunks)
            self._change(step, vectors[begin:end], tokens[begin:end])

    def _carry_out_large(self, step: Step) -> None:
        """Part by part, the vectors kept on the disk until all are there."""
        folder, total = Path(self._index.location), len(step.chunks)
        with Spool(folder if folder.is_dir() else None, self._encoder().dimensions) as spool:
            for begin in range(0, total, BATCH):
                part = step.chunks[begin : begin + BATCH]
                spool.add(*self._encoded(part))
                done = begin + len(part)
                self._say(done / total, f"{done} of {total} passages")
            if total > MANY:
                self._say(1, f"writing {total} passages")
            self._change(step, spool.vectors, spool.tokens)

    def _encoded(self, chunks: Sequence[Chunk]) -> tuple[Vectors, list[Packed]]:
        encoded = encode_passages(self._encoder(), [passage_text(chunk) for chunk in chunks])
        self._pace.encoded(len(chunks))
        return encoded

    def _change(self, step: Step, vectors: Vectors | Sequence[NDArray[np.float32]], tokens: Sequence[Packed]) -> None:
        """Make the step's report true."""
        if step.gone:
            self._index.delete(step.gone)
        if step.document and step.chunks:
            self._index.replace(step.document, step.chunks, vectors, tokens)
        elif step.document:
            self._index.rename(step.old, step.document, lambda c: chunk_id(c.document, c.position, c.text))
        self._say(1, f"{len(step.chunks)} of {len(step.chunks)} passages" if step.chunks else step.report.status)
        self._reports.append(step.report)

    def _say_reading(self) -> None:
        """Once for a file, and for each page that takes long: who loads the encoder meanwhile has something to say."""
        reading = len(self._reports), self._planner.doing
        if reading != self._reading:
            self._reading = reading
            self._say(0, f"reading {self._planner.doing}".rstrip())

    def _say(self, share: float, doing: str) -> None:
        """share: of the first file without report that is done."""
        place = len(self._reports)
        what = ": ".join(part for part in (str(self._pace), self._files[place].name, doing) if part)
        self._tell(place + share, len(self._files), what)


def _load(encoder: Encoder | Callable[[], Encoder], fingerprint: str) -> Encoder:
    loaded = encoder() if callable(encoder) else encoder
    if loaded.fingerprint != fingerprint:
        raise EncoderMismatch(
            f"The library was made with the encoder {fingerprint}, not with {loaded.fingerprint}.",
            "Set RAG_ENCODER to that encoder, or ingest into another folder with --index.",
        )
    return loaded


def _is_index(file: Found, index: Index) -> bool:
    """Whether this is a file of the index itself, which may lie in the folder that is ingested."""
    return file.real.name.startswith(FILE) and file.real.parent == Path(index.location).resolve()


def _silent(_done: float, _total: int, _what: str) -> None:
    """For callers who want no progress."""
