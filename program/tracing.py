"""Records what happens on the way to one answer, and tells whoever listens as it happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event as Flag
from typing import Any

from program.errors import Cancelled
from program.types import Claim, Event, Step, Trace, Usage

Listener = Callable[[Event | Claim], None]


class Recorder:
    """The trace of one question as it grows.

    `usage` gives the language-model use so far; every step's share is the difference over the step. Setting `cancelled`
    makes the next step, the next released claim, or the next `check` raise `Cancelled`.
    """

    def __init__(self, listener: Listener | None, usage: Callable[[], Usage], cancelled: Flag | None = None) -> None:
        self._listener = listener
        self._usage = usage
        self._cancelled = cancelled
        self._events: list[Event] = []
        self._started = time.perf_counter()
        self.first_claim_seconds: float | None = None

    @contextmanager
    def step(self, step: Step) -> Iterator[Callable[..., None]]:
        """Time a step. The body calls what it is given with the step's summary and details."""
        self.check()
        started, before = time.perf_counter(), self._usage()
        said: list[tuple[str, dict[str, Any]]] = []

        def done(summary: str, **detail: Any) -> None:
            said.append((summary, detail))

        yield done
        for position, (summary, detail) in enumerate(said):
            first = position == 0
            usage = self._usage() - before if first else Usage()
            self._emit(Event(step, summary, detail, usage, time.perf_counter() - started if first else 0.0))

    def note(self, summary: str, **detail: Any) -> None:
        """Something the reader of the answer should know."""
        self._emit(Event("note", summary, detail))

    def release(self, claim: Claim) -> None:
        """A checked sentence leaves for the reader."""
        self.check()
        if self.first_claim_seconds is None:
            self.first_claim_seconds = self.seconds
        if self._listener:
            self._listener(claim)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started

    @property
    def usage(self) -> Usage:
        return self._usage()

    @property
    def trace(self) -> Trace:
        return Trace(tuple(self._events))

    def _emit(self, event: Event) -> None:
        self._events.append(event)
        if self._listener:
            self._listener(event)

    def check(self) -> None:
        """Raises Cancelled when the caller has stopped waiting."""
        if self._cancelled is not None and self._cancelled.is_set():
            raise Cancelled("The question was cancelled.")
