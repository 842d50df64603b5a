"""Loads the program in a background thread, so that the page is up at once and says what it is waiting for.

`Backend` knows nothing of the page: it has a status that anyone may read or watch, and a program once there is one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from program.errors import ProgramError
from program.terminal import say
from program.types import Answer, Claim, Event, Turn

log = logging.getLogger(__name__)

Report = Callable[[int, int, str], None]
Phase = Literal["loading", "ready", "failed"]
UNEXPECTED = "Something went wrong that should not have. Please try again; the server's log has the details."


class Program(Protocol):
    """What the chat needs of `program.AdaptiveRAG`."""

    def __call__(self, question: str, history: Sequence[Turn] = ()) -> Answer: ...

    def stream(self, question: str, history: Sequence[Turn] = ()) -> Iterator[Event | Claim | Answer]: ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """A program, what the page says about it, and what makes it quick. `demo`: it reads the demo library."""

    program: Program
    summary: str
    demo: bool
    warm_up: Callable[[Report], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Status:
    """`share` of the step under way that is done, in [0, 1]; None when that cannot be told."""

    phase: Phase
    message: str
    share: float | None = None


class Backend:
    """The program behind the chat. `load` is called in a thread of its own and reports its progress."""

    def __init__(self, load: Callable[[Report], Loaded]) -> None:
        self._load = load
        self._changed = threading.Condition()  # its lock is re-entrant
        self._status = Status("loading", "Starting")
        self._line = ""
        self._thread: threading.Thread | None = None
        self._error: ProgramError | None = None
        self.loaded: Loaded | None = None

    @property
    def status(self) -> Status:
        return self._status

    def start(self) -> None:
        """Begin to load, unless that is under way or done. After a failure, try again."""
        with self._changed:
            if self._thread is not None and self._status.phase != "failed":
                return
            self._set(Status("loading", "Starting"))
            self._thread = threading.Thread(target=self._run, name="loading", daemon=True)
        self._thread.start()

    def watch(self, seconds: float = 0.5) -> Iterator[Status]:
        """The status now and after every change, until it is ready or failed; looked at every `seconds` at the latest,
        so that whoever iterates can stop."""
        status = self._status
        yield status
        while status.phase == "loading":
            with self._changed:
                self._changed.wait(seconds)
            if self._status is not status:
                status = self._status
                yield status

    def program(self) -> Program:
        """The program, once loading has ended; waits for that. Raises the ProgramError that loading ended with."""
        for _ in self.watch():
            pass
        if self.loaded is None or self._status.phase == "failed":
            raise self._error or ProgramError(UNEXPECTED)
        return self.loaded.program

    def _run(self) -> None:
        try:
            self.loaded = self._load(self._report)
            self._set(Status("ready", f"Ready: {self.loaded.summary}{self._warm_up(self.loaded)}", 1.0))
        except ProgramError as error:
            self._fail(error)
        except Exception:
            log.exception("loading failed")
            self._fail(ProgramError("The program could not be loaded.", UNEXPECTED))

    def _warm_up(self, loaded: Loaded) -> str:
        """Without a language model the program still quotes passages, so a failure here is only told."""
        try:
            loaded.warm_up(self._report)
        except ProgramError as error:
            log.warning("warming up failed: %s", error)
            return f". Answers are quoted passages until there is a language model: {error}"
        return ""

    def _report(self, done: int, total: int, what: str) -> None:
        counted = f" {_amount(done, total)}" if total > 1 else ""
        self._set(Status("loading", what + counted, min(done / total, 1.0) if total > 1 else None), what)

    def _fail(self, error: ProgramError) -> None:
        self._error = error
        self._set(Status("failed", str(error)))

    def _set(self, status: Status, line: str | None = None) -> None:
        """Tell the page `status`, and the terminal `line`, once."""
        line = line or status.message
        with self._changed:
            self._status = status
            self._changed.notify_all()
            if line != self._line:
                say(line)
                self._line = line


def _amount(done: int, total: int) -> str:
    """`7/16`, or megabytes where the numbers can only be bytes."""
    if total >= 1_000_000:
        return f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"
    return f"{done}/{total}"
