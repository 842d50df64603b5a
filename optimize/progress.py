"""Progress on standard error: bars on a terminal, else a line when a stage begins and every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Advance = Callable[[], None]
EVERY = 5.0  # seconds between lines where there is no terminal


class Stages:
    """The bars of a run, one for each stage. Keeps the standard error it was made with: DSPy's own bars are muted by
    sending that stream elsewhere."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False, markup=False)
        self._bars: Progress | None = None

    @contextmanager
    def running(self) -> Iterator[Stages]:
        """Shows the bars while inside."""
        if not self._console.is_terminal:
            yield self
            return
        columns = (TextColumn("{task.description:<34}", markup=False), BarColumn(), MofNCompleteColumn())
        times = (TimeElapsedColumn(), TimeRemainingColumn())
        # Nothing is redirected, for the streams are swapped while DSPy's optimizers run.
        with Progress(*columns, *times, console=self._console, redirect_stdout=False, redirect_stderr=False) as bars:
            self._bars = bars
            yield self
        self._bars = None

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """One stage of `total` pieces; what it yields is called once for each piece done."""
        if self._bars is not None:
            task = self._bars.add_task(name, total=max(total, 1))
            bars = self._bars
            yield lambda: bars.advance(task)
            bars.update(task, completed=max(total, 1))
            return
        started = time.monotonic()
        self._console.print(f"{name} ...")
        state = {"done": 0, "next": started + EVERY}

        def advance() -> None:
            state["done"] += 1
            if time.monotonic() >= state["next"]:
                state["next"] = time.monotonic() + EVERY
                self._console.print(f"  {name}: {int(state['done'])} of {total}")

        yield advance
        self._console.print(f"  {name}: done in {time.monotonic() - started:.0f} s")

    def say(self, text: str) -> None:
        """A line that stays."""
        self._console.print(text, soft_wrap=True)
