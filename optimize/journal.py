"""Remembers the result of every finished piece of work, so that an interrupted run goes on where it stopped.

A result is a JSON file named by the hash of everything it depends on; changed labels, another model or another seed
are other names. Deleting the folder is always safe.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Journal:
    """Results in `folder`. `base`: what all of them depend on. With `fresh`, earlier results are not used."""

    def __init__(self, folder: Path, base: Any, *, fresh: bool = False) -> None:
        self._folder = folder
        self._base = base
        self._fresh = fresh
        self._made: set[str] = set()
        self.reused = 0

    def once(self, stage: str, inputs: Any, work: Callable[[], Any]) -> Any:
        """The JSON-able result of `work`, done now or in an earlier run with the same inputs."""
        path = self._folder / f"{stage}-{fingerprint([self._base, stage, inputs])}.json"
        if path.is_file() and (not self._fresh or path.name in self._made):
            try:
                result = json.loads(path.read_bytes())
                self.reused += 1
                return result
            except ValueError:
                pass  # a file cut off by a full disk: the work is done again
        result = json.loads(json.dumps(work()))
        self._folder.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(result, ensure_ascii=False))
        scratch.replace(path)
        self._made.add(path.name)
        return result


def fingerprint(value: Any) -> str:
    """Sixteen hexadecimal characters that stand for a JSON-able value."""
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
