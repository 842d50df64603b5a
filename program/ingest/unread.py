"""Why files could not be read, kept beside the index, so that a folder of scans is not read anew at every run.

A reason holds until something changes that it depends on: the file's bytes and the rules and settings of its reader
(both are in its hash), the limits, what there is of OCR, and, of an encrypted file, that a password is given.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from program.errors import EncryptedFile, ReadError
from program.ingest.identity import RECOGNISED, Content
from program.ingest.isolated import Limits

#: Hidden, so that it is no document where the index lies in a folder that is ingested.
FILE = ".unread.jsonl"

_KINDS = {kind.__name__: kind for kind in ReadError.__subclasses__()}


@dataclass(frozen=True, slots=True)
class _Reason:
    """sha256, stamp: the content's. conditions: what else it depends on. error, message, hint: what was raised."""

    sha256: str
    stamp: str
    conditions: str
    error: str
    message: str
    hint: str


class Unread:
    """The reasons of earlier runs and of this one. Where their file is damaged or cannot be written, it costs time."""

    def __init__(self, folder: Path | None, limits: Limits, password: str | None, *, retry: bool) -> None:
        """folder: the index's; None to keep nothing. retry: what earlier runs met does not count."""
        self._file = folder / FILE if folder else None
        self._limits = f"{limits.seconds:g} s, {limits.memory}"
        self._has_password = password is not None
        self._known: dict[str, _Reason] = {}
        if self._file and not retry:
            with suppress(OSError):
                for line in self._file.read_text("utf-8", "replace").splitlines():
                    with suppress(ValueError, TypeError):
                        self._keep(_Reason(**json.loads(line)))

    def reason(self, key: str, name: str) -> ReadError | None:
        """What kept a file from being read before, by its stamp or its hash; None if that may be otherwise now.

        name: the file's, whose extension tells its reader.
        """
        known = self._known.get(key)
        kind = _KINDS.get(known.error) if known else None
        if known is None or kind is None or known.conditions != self._conditions(name):
            return None
        if kind is EncryptedFile and self._has_password:
            return None
        return kind(f"As before: {known.message}", known.hint)

    def add(self, name: str, content: Content, error: ReadError) -> None:
        if isinstance(error, EncryptedFile) and self._has_password:
            return
        message = str(error.args[0]).removeprefix("As before: ")
        reason = _Reason(
            content.sha256, content.stamp, self._conditions(name), type(error).__name__, message, error.hint
        )
        if reason == self._known.get(content.stamp or content.sha256):
            return
        self._keep(reason)
        if self._file:
            with suppress(OSError), self._file.open("a", encoding="utf-8", errors="replace") as file:
                file.write(json.dumps(asdict(reason)) + "\n")

    def _keep(self, reason: _Reason) -> None:
        self._known.update({key: reason for key in (reason.sha256, reason.stamp) if key})

    def _conditions(self, name: str) -> str:
        recognised = Path(name).suffix.casefold() in RECOGNISED
        return f"{self._limits}, OCR: {_languages()}" if recognised else self._limits


@cache
def _languages() -> str:
    """The languages that Tesseract has files for, asked without loading MuPDF, which takes longer."""
    folder, tesseract = os.environ.get("TESSDATA_PREFIX"), shutil.which("tesseract")
    with suppress(OSError):
        if folder:
            return " ".join(sorted(path.stem for path in Path(folder).glob("*.traineddata")))
        if tesseract:
            listed = subprocess.run([tesseract, "--list-langs"], capture_output=True, check=False, text=True)
            return " ".join(listed.stdout.split("\n")[1:]).strip()
    return ""
