"""Files into an index: found, read, chunked, encoded, written, with a report for each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from program.errors import CorruptFile, EncryptedFile, NoText, ReadError, UnsupportedFile
from program.ingest.chunking import chunk_document
from program.ingest.documents import DocumentText
from program.ingest.files import Found, find_files
from program.ingest.readers import read_document, reader_for
from program.retrieval.encoders import Encoder, passage_text
from program.retrieval.index import Document, Index
from program.types import Chunk

Status = Literal["indexed", "unchanged", "no text", "encrypted", "corrupt", "unsupported", "unreadable"]
#: (files done, files, what is being done)
Progress = Callable[[int, int, str], None]

#: Chunks encoded between two reports of progress.
BATCH = 64
#: Change this when the same file would be read or chunked otherwise: unchanged files are then indexed anew.
RULES = b"1"

_STATUS: dict[type[ReadError], Status] = {
    UnsupportedFile: "unsupported",
    EncryptedFile: "encrypted",
    CorruptFile: "corrupt",
    NoText: "no text",
}


@dataclass(frozen=True, slots=True)
class FileReport:
    """What became of one file. `document` is its name in the index; `chunks` counts what the index holds of it."""

    path: str
    document: str
    status: Status
    chunks: int = 0
    message: str = ""


def ingest(
    paths: Sequence[Path],
    index: Index,
    encoder: Encoder,
    *,
    password: str | None = None,
    on_progress: Progress | None = None,
) -> list[FileReport]:
    """Index the files given and all files in the folders given; one report for each, in the order they were found.

    A file whose bytes the index knows is left alone; a changed one replaces its old chunks in one step. A file that
    cannot be read stops nothing: its report says why, and what the index held of it stays. Raises LibraryError.
    """
    known = {document.name: document for document in index.documents()}
    found = find_files(paths)
    reports: list[FileReport] = []
    for place, file in enumerate(found):
        say = partial(on_progress or _silent, place, len(found))
        say(file.name)
        reports.append(_ingest_file(file, known.get(file.name), index, encoder, password, say))
    if on_progress and found:
        on_progress(len(found), len(found), f"{len(found)} files read")
    return reports


def _ingest_file(
    file: Found,
    known: Document | None,
    index: Index,
    encoder: Encoder,
    password: str | None,
    say: Callable[[str], None],
) -> FileReport:
    report = partial(FileReport, str(file.path), file.name)
    held = known.chunks if known else 0
    try:
        if file.problem:
            return report("unreadable", held, file.problem)
        reader_for(file.name)  # before all of a large file of another kind is read
        data = file.path.read_bytes()
        sha256 = hashlib.sha256(RULES + data).hexdigest()
        if known and known.sha256 == sha256:
            return report("unchanged", held)
        text, chunks = _read(data, file.name, password, encoder)
    except ReadError as error:
        return report(_STATUS.get(type(error), "corrupt"), held, str(error))
    except OSError as error:
        return report("unreadable", held, f"The file cannot be read ({error.strerror or error}).")
    vectors, tokens = _encode(chunks, encoder, lambda done: say(f"{file.name}: {done} of {len(chunks)} passages"))
    document = Document(file.name, text.title, sha256, text.source, text.field, text.year, len(chunks), len(text.text))
    index.replace(document, chunks, vectors, tokens)
    return report("indexed", len(chunks))


def _read(data: bytes, name: str, password: str | None, encoder: Encoder) -> tuple[DocumentText, list[Chunk]]:
    """Raises ReadError, and nothing else: what a reader did not foresee is a damaged file."""
    try:
        text = read_document(data, name, password)
        chunks = chunk_document(text, name, encoder.count, encoder.max_tokens)
    except ReadError:
        raise
    except Exception as error:
        raise CorruptFile(f"The file cannot be understood ({type(error).__name__}: {error}).") from error
    if not chunks:
        raise NoText("The file holds no text.")
    return text, chunks


def _encode(
    chunks: Sequence[Chunk], encoder: Encoder, say: Callable[[int], None]
) -> tuple[NDArray[np.float32], list[NDArray[np.int8]]]:
    """Vectors, float32 [chunks, d], and token vectors of title + text."""
    vectors: list[NDArray[np.float32]] = []
    tokens: list[NDArray[np.int8]] = []
    for begin in range(0, len(chunks), BATCH):
        batch, of_batch = encoder.encode_with_tokens([passage_text(chunk) for chunk in chunks[begin : begin + BATCH]])
        vectors.append(batch)
        tokens += of_batch
        say(len(tokens))
    return np.concatenate(vectors), tokens


def _silent(_done: int, _total: int, _what: str) -> None:
    """For callers who want no progress."""
