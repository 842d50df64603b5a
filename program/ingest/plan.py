"""What is to be done for each file: nothing, a new name, or new chunks, which are read here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Literal

from program.errors import CorruptFile, EncryptedFile, NoText, ReadError, TimedOut, TooLarge, UnsupportedFile
from program.ingest.documents import Description, title_from_name
from program.ingest.files import Found
from program.ingest.identity import Content, Known, as_recorded, holds, path_text, read_content, stamp_of
from program.ingest.isolated import IsolatedReader, Limits
from program.ingest.readers import reader_for
from program.ingest.unread import Unread
from program.ingest.worker import read_passages
from program.retrieval.encoders import Encoder
from program.retrieval.index import Document
from program.types import Chunk

Status = Literal[
    "indexed",
    "unchanged",
    "no text",
    "encrypted",
    "corrupt",
    "too large",
    "took too long",
    "unsupported",
    "unreadable",
    "not downloaded",
]
_STATUS: dict[type[ReadError], Status] = {
    EncryptedFile: "encrypted",
    CorruptFile: "corrupt",
    TooLarge: "too large",
    TimedOut: "took too long",
    NoText: "no text",
}


@dataclass(frozen=True, slots=True)
class FileReport:
    """What became of one file.

    name: the file's; the index has it under this name if it has it. document: the one in the index with the file's
    content, under another name for a copy. chunks: what the index holds of that document.
    """

    path: str
    name: str
    document: str
    status: Status
    chunks: int = 0
    message: str = ""

    @property
    def failed(self) -> bool:
        return self.status not in ("indexed", "unchanged")


@dataclass(frozen=True, slots=True)
class Step:
    """A file's report, and the change of the index that makes it true.

    document: the new one, made of `chunks`, or, without any, of those that the index has under the name `old`. gone:
    the name of a document to delete.
    """

    report: FileReport
    document: Document | None = None
    chunks: Sequence[Chunk] = ()
    old: str = ""
    gone: str = ""


class Planner:
    """Plans one file after the other, each on the assumption that the steps before it are carried out."""

    def __init__(
        self,
        known: Known,
        unread: Unread,
        encoder: Callable[[], Encoder],
        password: str | None,
        limits: Limits,
        places: dict[str, Path] | None,
        described: Mapping[str, Description],
    ) -> None:
        """encoder: asked when there is a file to read. places: where the documents' files are, by name; None for where
        they were read. described: what is known of files, by name."""
        self._known = known
        self._unread = unread
        self._password = password
        self._limits = limits
        self._places = places
        self._reader = IsolatedReader(
            lambda: partial(read_passages, count=encoder().count, window=encoder().max_tokens, described=described),
            limits,
        )

    def close(self) -> None:
        """Stop reading; may be called from another thread than the one that plans."""
        self._reader.close()

    @property
    def doing(self) -> str:
        """How far the file is that is being read: `page 12 of 300`, or nothing."""
        return self._reader.doing

    def work(self, file: Found) -> int:
        """Bytes that are to be read of a file, as far as that can be told without opening it."""
        known = self._known.get(file.name)
        try:
            reader_for(file.name)
            settled = (
                file.problem
                or (known and as_recorded(file.real, known))
                or self._unread.reason(stamp_of(file.real), file.name)
            )
            return 0 if settled else file.real.stat().st_size
        except (ReadError, OSError):
            return 0

    def step(self, file: Found) -> Step:
        """What is to be done for a file. Raises no ReadError: its report tells."""
        known = self._known.get(file.name)
        report = partial(FileReport, str(file.path), file.name, file.name)
        held = known.chunks if known else 0
        try:
            if file.problem:
                return Step(report("unreadable", held, file.problem))
            reader_for(file.name)  # before all of a large file of another kind is read
            if known and as_recorded(file.real, known):
                return Step(report("unchanged", held))
            if reason := self._unread.reason(stamp_of(file.real), file.name):
                raise reason
            content = read_content(file.real, self._limits.size)
            return self._settled(file, content, known) or self._read(file, content)
        except UnsupportedFile as error:
            return Step(report("unsupported", held, str(error.args[0])))  # not with all that is, in a hundred lines
        except ReadError as error:
            return Step(report(_STATUS.get(type(error), "corrupt"), held, str(error)))
        except OSError as error:
            return Step(report("unreadable", held, f"The file cannot be read ({error.strerror or error})."))

    def _settled(self, file: Found, content: Content, known: Document | None) -> Step | None:
        """What to do where the index has the content already."""
        twin = known if known and known.sha256 == content.sha256 else self._known.with_content(content.sha256)
        if twin is None:
            return None
        report = partial(FileReport, str(file.path), file.name, status="unchanged", chunks=twin.chunks)
        if twin is not known and self._in_place(twin):
            self._known.remove(file.name)
            message = f"The library has this content as {twin.name}."
            return Step(report(document=twin.name, message=message), gone=known.name if known else "")
        if anew := self._renamed(file, content, twin):
            return anew
        document = replace(twin, name=file.name, path=path_text(file.real), stamp=content.stamp)
        if document == twin:
            return Step(report(document=twin.name))
        self._known.remove(twin.name)
        self._known.add(document)
        message = f"It was {twin.name} before." if twin.name != file.name else ""
        return Step(report(document=file.name, message=message), document, old=twin.name)

    def _renamed(self, file: Found, content: Content, twin: Document) -> Step | None:
        """A document whose title was its file's name, read anew under the new name; None if it keeps its title."""
        old, new = (title_from_name(PurePath(name).stem) for name in (twin.name, file.name))
        if twin.title != old or old == new:
            return None
        try:
            step = self._read(file, content)
        except ReadError:  # it needs a password, say, and none is given this time
            return None
        self._known.remove(twin.name)
        return replace(step, gone=twin.name, report=replace(step.report, message=f"It was {twin.name} before."))

    def _read(self, file: Found, content: Content) -> Step:
        """Raises ReadError."""
        try:
            if reason := self._unread.reason(content.sha256, file.name):
                raise reason
            found = self._reader.read(content.data, file.name, self._password)
        except ReadError as error:
            self._unread.add(file.name, content, error)
            raise
        document = Document(
            name=file.name,
            title=found.title,
            sha256=content.sha256,
            source=found.source,
            field=found.field,
            year=found.year,
            chunks=len(found.chunks),
            characters=found.characters,
            path=path_text(file.real),
            stamp=content.stamp,
        )
        self._known.add(document)
        report = FileReport(str(file.path), file.name, file.name, "indexed", len(found.chunks))
        return Step(report, document, found.chunks)

    def _in_place(self, document: Document) -> bool:
        """Whether the file that a document was made of is there, and still has that content."""
        path = Path(document.path) if document.path else None
        if self._places is not None:
            path = self._places.get(document.name)
        try:
            return path is not None and (as_recorded(path, document) or holds(path, document.sha256, self._limits.size))
        except OSError:
            return False
