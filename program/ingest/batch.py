"""Files into an index: found, read, chunked, encoded, written, with a report for each.

While one file is encoded, another process reads the next. A document is written in one step when all of it is encoded,
so a run that is killed has lost that file at most, and the next run goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache, partial
from pathlib import Path

from program.errors import EncoderMismatch
from program.ingest.chunking import chunk_id
from program.ingest.documents import Description
from program.ingest.files import Found, find_files
from program.ingest.identity import Known
from program.ingest.isolated import Limits
from program.ingest.pace import Pace
from program.ingest.plan import FileReport, Planner, Step
from program.ingest.spool import Spool
from program.retrieval.embedded import FILE
from program.retrieval.encoders import Encoder, passage_text
from program.retrieval.index import Index

#: (files done, files, what is being done); a file half of which is encoded counts half
Progress = Callable[[float, int, str], None]

#: Chunks encoded between two reports of progress.
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
    described: Mapping[Path, Description] | None = None,
    on_progress: Progress | None = None,
) -> list[FileReport]:
    """Index files, folders and patterns (see `find_files`); one report for each file, in the order they were found.

    A file whose content the index knows is not read again: a copy stays under the name it is known by, and where the
    known file is gone, the document takes the new name (its title stays). A changed file replaces its old chunks in one
    step. A file that cannot be read stops nothing: its report says why, and what the index held of it stays.

    encoder: or what loads it, called when there is something to encode. mirror: the index is to hold these files and no
    others; a name is then the same document wherever its folder lies, and documents without a file are deleted.
    described: what is known of files when they are read, by their path as given.

    Raises LibraryError (EncoderMismatch for an encoder that the index was not made with), and what loading an encoder
    raises.
    """
    known = Known(index.documents())
    found = [file for file in find_files(paths, None if mirror else known.names()) if not _is_index(file, index)]
    load = cache(partial(_load, encoder, index.encoder))
    places = {file.name: file.real for file in found} if mirror else None
    by_name = {file.name: (described or {})[file.path] for file in found if file.path in (described or {})}
    planner = Planner(known, load, password, limits or Limits(), places, by_name)
    reports = _run(found, index, load, planner, on_progress)
    if mirror:
        kept = {report.document for report in reports}
        for document in index.documents():
            if document.name not in kept:
                index.delete(document.name)
    return reports


def _run(
    found: Sequence[Found],
    index: Index,
    encoder: Callable[[], Encoder],
    planner: Planner,
    on_progress: Progress | None,
) -> list[FileReport]:
    """Plan each file, one ahead, and carry the plans out."""
    tell = on_progress or _silent
    work = {file.real: planner.work(file) for file in found}
    pace = Pace((file.real.suffix, work[file.real]) for file in found)
    reports: list[FileReport] = []
    # Leaving, the planner stops reading before its thread is waited for.
    with ThreadPoolExecutor(1, "read-ahead") as thread, closing(planner):
        ahead = [thread.submit(planner.step, file) for file in found[:1]]
        for place, file in enumerate(found):
            if not ahead[0].done():
                tell(place, len(found), _line(pace, file, "reading"))
            step = ahead.pop().result()
            ahead += [thread.submit(planner.step, following) for following in found[place + 1 : place + 2]]
            pace.opened(file.real.suffix, work[file.real], len(step.chunks))

            def say(share: float, doing: str, file: Found = file, place: int = place) -> None:
                tell(place + share, len(found), _line(pace, file, doing))

            _carry_out(step, index, encoder, pace, say)
            reports.append(step.report)
    if reports:
        tell(len(found), len(found), f"{len(found)} file{'s' * (len(found) != 1)} done")
    return reports


def _carry_out(
    step: Step, index: Index, encoder: Callable[[], Encoder], pace: Pace, say: Callable[[float, str], None]
) -> None:
    """Change the index as planned. say: (share of the file that is encoded, what is being done)."""
    if step.gone:
        index.delete(step.gone)
    if step.document is None:
        return
    if not step.chunks:
        index.rename(step.old, step.document, lambda c: chunk_id(c.document, c.position, c.text))
        return
    folder, total = Path(index.location), len(step.chunks)
    with Spool(folder if folder.is_dir() else None, encoder().dimensions) as spool:
        for begin in range(0, total, BATCH):
            part = step.chunks[begin : begin + BATCH]
            spool.add(*encoder().encode_with_tokens([passage_text(chunk) for chunk in part]))
            pace.encoded(len(part))
            done = begin + len(part)
            say(done / total, f"{done} of {total} passages")
        if total > MANY:
            say(1, f"writing {total} passages")
        index.replace(step.document, step.chunks, spool.vectors, spool.tokens)


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


def _line(pace: Pace, file: Found, doing: str) -> str:
    return ": ".join(part for part in (str(pace), file.name, doing) if part)


def _silent(_done: float, _total: int, _what: str) -> None:
    """For callers who want no progress."""
