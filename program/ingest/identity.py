"""Which files the index knows already: by their content, and quicker, by what the file system says of them.

A content is known by the hash of a file's bytes and of what else decides how it is read. A file whose size, times and
place on the disk are as they were when it was read has the same bytes, so that it need not be opened. That is only
relied on where the file was at rest when it was read: changed again within the clock's grain, it would look the same.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from program.errors import TooLarge
from program.retrieval.index import Document

#: Change this when the same file would be read or chunked otherwise: unchanged files are then indexed anew.
RULES = "3"
#: Seconds since its last change after which a file is at rest (the coarsest clock of a file system ticks every 2).
AT_REST = 3.0
#: Extensions of files whose pictures are read by OCR.
RECOGNISED = (".pdf", ".png", ".jpg", ".jpeg")


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes. `stamp`: what the file system said when they were read; empty if the file was not at rest."""

    data: bytes
    sha256: str
    stamp: str


class Known:
    """The documents of the index, kept up to date while files are added to it."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._by_name: dict[str, Document] = {}
        self._by_content: dict[str, Document] = {}
        for document in documents:
            self.add(document)

    def get(self, name: str) -> Document | None:
        return self._by_name.get(name)

    def with_content(self, sha256: str) -> Document | None:
        return self._by_content.get(sha256)

    def add(self, document: Document) -> None:
        self.remove(document.name)
        self._by_name[document.name] = self._by_content[document.sha256] = document

    def remove(self, name: str) -> None:
        document = self._by_name.pop(name, None)
        if document and self._by_content.get(document.sha256) == document:
            del self._by_content[document.sha256]

    def names(self) -> dict[Path, str]:
        """The names of the documents whose files are still where they were read."""
        files = ((Path(document.path), name) for name, document in self._by_name.items() if document.path)
        return {path: name for path, name in files if path.is_file()}


def as_recorded(path: Path, document: Document) -> bool:
    """Whether the file can be told, without opening it, to be what the document was made of. Raises OSError."""
    return bool(document.stamp) and document.stamp == stamp_of(path)


def stamp_of(path: Path) -> str:
    """What the file system says of a file. Raises OSError."""
    return _stamp(path.stat(), path.name)


def read_content(file: Path, limit: int) -> Content:
    """Raises TooLarge for a file of more than `limit` bytes, OSError."""
    with file.open("rb") as stream:
        status, now = os.fstat(stream.fileno()), time.time()
        data = stream.read(limit + 1) if status.st_size <= limit else None
    if data is None or len(data) > limit:
        raise TooLarge(f"The file has more than {limit // 1024**2} MiB.", "Split it.")
    at_rest = now - max(status.st_mtime, status.st_ctime) > AT_REST
    return Content(data, content_hash(data, file.name), _stamp(status, file.name) if at_rest else "")


def holds(path: Path, sha256: str, limit: int) -> bool:
    """Whether there is a file with this content."""
    try:
        return read_content(path, limit).sha256 == sha256
    except (OSError, TooLarge):
        return False


def content_hash(data: bytes, name: str) -> str:
    known_by = hashlib.sha256(f"{_rules(Path(name).suffix)}\0".encode("utf-8", "surrogateescape"))
    known_by.update(data)
    return known_by.hexdigest()


def path_text(path: Path) -> str:
    """A path as it is recorded: empty where it is no text, so that it is never taken for another."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return ""
    return str(path)


def _stamp(status: os.stat_result, name: str) -> str:
    # The time of change (of anything, on POSIX) tells of writers that set the time of modification back.
    numbers = status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_dev, status.st_ino
    return "/".join([_rules(Path(name).suffix), *map(str, numbers)])


@cache
def _rules(suffix: str) -> str:
    """What decides, beside its bytes, what is made of a file: its extension, and the settings of its reader."""
    from program.settings import settings_from

    kind = suffix.casefold()
    if kind in RECOGNISED:
        settings = settings_from()
        return f"{RULES}{kind}{'+' * settings.back_matter}{settings.ocr_languages}"
    return f"{RULES}{kind}"
