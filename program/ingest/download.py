"""The papers of a manifest as PDF files in a folder: politely, resumably, and only what turns out to be a PDF.

A finished file has the paper's id as its name (`1706.03762.pdf`); what is under way is hidden (`.1706.03762v7.part`),
and the next run goes on with it. `.downloads.json` remembers which version each file is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx

from program.errors import FetchError, ServerUnavailable
from program.ingest.documents import Description
from program.ingest.manifest import Entry, Manifest
from program.ingest.polite import PoliteClient, TryAgain, check, pieces
from program.settings import Settings

#: (papers done, papers, what is being done)
Progress = Callable[[int, int, str], None]

#: Bytes of one PDF file; the largest papers on arXiv have some 100 MB.
MOST_BYTES = 300_000_000
#: Papers in a row that the server did not give for reasons of its own before the rest are not asked for.
GIVE_UP = 2


@dataclass(frozen=True, slots=True)
class Download:
    """What became of one paper. `path` holds its PDF when the status is downloaded or present."""

    id: str
    path: Path
    status: Literal["downloaded", "present", "failed", "not tried"]
    message: str = ""

    @property
    def ok(self) -> bool:
        return self.status in ("downloaded", "present")


def fetch(
    manifest: Manifest,
    folder: Path,
    settings: Settings,
    on_progress: Progress | None = None,
    *,
    client: PoliteClient | None = None,
) -> list[Download]:
    """Download what `folder` lacks of a manifest's papers; one report for each, in the manifest's order.

    A paper that cannot be had stops nothing. When the server is unavailable for several in a row, the rest are "not
    tried". Raises FetchError when the folder cannot be written.
    """
    report = on_progress or (lambda _done, _total, _what: None)
    total, refused = len(manifest.papers), 0
    done: list[Download] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FetchError(f"{folder} cannot be made ({error.strerror}).", "Set RAG_DATA to another folder.") from error
    ledger = _Ledger(folder)

    def say(what: str) -> None:
        report(len(done), total, what)

    with client or PoliteClient(settings, say=say) as polite:
        for entry in manifest.papers:
            target = folder / f"{entry.id.replace('/', '_')}.pdf"
            if ledger.has(target, entry.version):
                done.append(Download(entry.id, target, "present"))
                continue
            if refused == GIVE_UP:
                message = "The server is not available. Run the same command later: it goes on from here."
                done.append(Download(entry.id, target, "not tried", message))
                continue
            try:
                _Transfer(entry, target, settings, polite, say).run()
                ledger.add(target, entry.version)
            except OSError as error:
                raise FetchError(f"{target} cannot be written ({error.strerror}).", "Free some disk space.") from error
            except FetchError as error:
                refused = refused + 1 if isinstance(error, ServerUnavailable) else 0
                done.append(Download(entry.id, target, "failed", str(error)))
            else:
                refused = 0
                done.append(Download(entry.id, target, "downloaded"))
    report(total, total, f"{sum(item.ok for item in done)} of {total} papers are there")
    return done


def described(manifest: Manifest, downloads: Sequence[Download]) -> dict[Path, Description]:
    """What the manifest knows of the files that are there."""
    entries = {entry.id: entry for entry in manifest.papers}
    return {
        download.path: Description(
            title=entry.title,
            source=f"arXiv:{entry.id}{_version(entry)}",
            field=entry.topic or (entry.categories[0] if entry.categories else ""),
            year=entry.year,
        )
        for download in downloads
        if download.ok and (entry := entries[download.id])
    }


class _Transfer:
    """One file on its way: what has arrived is in `part`, and `tag` names the state of the server's file it is of."""

    def __init__(
        self, entry: Entry, target: Path, settings: Settings, polite: PoliteClient, say: Callable[[str], None]
    ) -> None:
        version = _version(entry)
        self._entry, self._target, self._polite, self._say = entry, target, polite, say
        self._url = f"{settings.arxiv_url.rstrip('/')}/pdf/{entry.id}{version}"
        self._part = target.with_name(f".{target.stem}{version}.part")
        self._tag = self._part.with_suffix(".tag")

    def run(self) -> None:
        """Fetch the file. Raises FetchError."""
        try:
            self._polite.fetch(self._url, self._receive, self._headers)
        except ServerUnavailable:
            raise
        except FetchError:  # what has arrived is of no use
            self._discard()
            raise
        self._part.replace(self._target)
        self._tag.unlink(missing_ok=True)

    def _headers(self) -> dict[str, str]:
        """Ask for the rest of a file that is still the same one (RFC 9110, 13.1.5)."""
        if self._part.exists() and self._tag.exists():
            return {"Range": f"bytes={self._part.stat().st_size}-", "If-Range": self._tag.read_text()}
        return {}

    def _receive(self, response: httpx.Response) -> None:
        held = self._part.stat().st_size if self._part.exists() else 0
        size = response.headers.get("Content-Length", "")
        expected = int(size) if size.isdigit() else None
        if response.status_code == 206:
            begins, _, expected = _range(response)
            if begins != held:
                self._discard()
                raise TryAgain("sent another part than was asked for")
        elif response.status_code == 416:
            self._discard()
            raise TryAgain("has no more of this file")
        else:
            check(response)
            self._discard()
            held = 0
            if tag := _state(response):
                self._tag.write_text(tag)
        with self._part.open("ab") as out:
            for piece in pieces(response, MOST_BYTES - held, raw=True):
                out.write(piece)
                self._say(f"{self._entry.id}: {out.tell() / 1e6:.1f} MB")
            out.flush()
            os.fsync(out.fileno())
            arrived = out.tell()
        if expected is not None and arrived < expected:
            raise TryAgain("broke off")
        if not _is_pdf(self._part, complete=expected is not None):
            raise FetchError(
                f"What arXiv sent for {self._entry.id} is no PDF file.",
                "Some papers have none: take the paper out of the manifest.",
            )

    def _discard(self) -> None:
        self._part.unlink(missing_ok=True)
        self._tag.unlink(missing_ok=True)


def _version(entry: Entry) -> str:
    return f"v{entry.version}" if entry.version else ""


def _range(response: httpx.Response) -> tuple[int, int, int | None]:
    """(first byte, last byte, size of the whole file or None) that an answer says it holds."""
    found = re.fullmatch(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15}|\*)", response.headers.get("Content-Range", ""))
    if not found:
        return -1, -1, None
    return int(found[1]), int(found[2]), None if found[3] == "*" else int(found[3])


def _state(response: httpx.Response) -> str:
    """What tells this state of a file from another: a strong ETag, else the time of its change, else nothing."""
    tag: str = response.headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")


def _is_pdf(file: Path, *, complete: bool) -> bool:
    """Does it begin like a PDF file and, where its size was not told, end like one?"""
    with file.open("rb") as stream:
        begins = b"%PDF-" in stream.read(1024)  # readers allow for some bytes before it
        stream.seek(max(0, file.stat().st_size - 2048))
        return begins and (complete or b"%%EOF" in stream.read())


class _Ledger:
    """Which version each finished file of a folder is."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / ".downloads.json"
        try:
            content = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # without it, everything is downloaded anew
            content = {}
        self._versions: dict[str, int | None] = content if isinstance(content, dict) else {}

    def has(self, file: Path, version: int | None) -> bool:
        """Is the file there, in this version (None: any)?"""
        return file.is_file() and file.name in self._versions and version in (None, self._versions[file.name])

    def add(self, file: Path, version: int | None) -> None:
        self._versions[file.name] = version
        fresh = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        fresh.write_text(json.dumps(self._versions, indent=1), encoding="utf-8")
        fresh.replace(self._file)
