"""How fast passages are encoded, and when all of them will be: what a progress bar says beside its bar."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable

#: Passages after which the rate is worth telling.
ENOUGH = 32
#: Bytes of a file for each of its passages, until a file of its kind has been read: plain text, and what is packed or
#: holds fonts and pictures.
BYTES = 700
PACKED = dict.fromkeys((".pdf", ".docx", ".pptx", ".epub"), 10_000) | dict.fromkeys((".png", ".jpg", ".jpeg"), 100_000)


class Pace:
    """Files still to do are counted in passages by what files of their kind had, or usually have, for each byte.

    Each file is `opened` once, with its passages, which `encoded` then counts down; those without any are passed over.
    """

    def __init__(self, files: Iterable[tuple[str, int]], clock: Callable[[], float] = time.monotonic) -> None:
        """files: (extension, bytes to read) of each file; 0 for one that is known to be unchanged."""
        self._waiting: Counter[str] = Counter()
        for kind, size in files:
            self._waiting[kind] += size
        self._read: Counter[str] = Counter()  # bytes, by kind
        self._found: Counter[str] = Counter()  # passages, by kind
        self._left = 0  # passages of the opened files that are not encoded
        self._done = 0
        self._clock = clock
        self._started: float | None = None

    def opened(self, kind: str, size: int, passages: int) -> None:
        self._waiting[kind] -= size
        if not passages:
            return
        self._read[kind] += size
        self._found[kind] += passages
        self._left += passages
        self._started = self._clock() if self._started is None else self._started

    def encoded(self, passages: int) -> None:
        self._left -= passages
        self._done += passages

    def __str__(self) -> str:
        """For example `35 passages/s, 4 min left`; empty as long as there is nothing to tell."""
        spent = self._clock() - self._started if self._started is not None else 0.0
        if self._done < ENOUGH or spent <= 0:
            return ""
        rate = self._done / spent
        ahead = sum(
            size * self._found[kind] / self._read[kind]
            if self._read[kind]
            else size / PACKED.get(kind.casefold(), BYTES)
            for kind, size in self._waiting.items()
        )
        speed = f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"
        return f"{speed} passages/s, {_duration((self._left + ahead) / rate)} left"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
