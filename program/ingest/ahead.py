"""Files planned ahead of what is encoded, by a thread of their own, and taken in batches.

The encoder takes what is there: while it works on one batch, the next one grows, so small files are encoded together
where reading is quick, and none waits for a slow one to be read.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Self

from program.ingest.files import Found
from program.ingest.plan import Planner, Step

#: Seconds between two signs of life while a file is read.
TICK = 0.5


class ReadAhead:
    """Plans files in order. Reading pauses while the steps that wait have `passages` passages or more."""

    def __init__(self, planner: Planner, files: Sequence[Found], passages: int) -> None:
        """passages: most of a batch, but for one file that has more."""
        self._planner = planner
        self._files = files
        self._passages = passages
        self._changed = threading.Condition()
        self._waiting: deque[Step] = deque()
        self._held = 0  # passages of the steps that wait
        self._left = len(files)
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._read, name="read-ahead")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._planner.close()  # stops reading, so that the thread need not be waited for
        self._thread.join()

    def take(self, while_reading: Callable[[], None]) -> list[Step]:
        """The next steps: as many as wait and make one batch; none after the last. `while_reading` is called now and
        then while there is nothing to take.

        Raises what planning raised, once all steps before are taken.
        """
        while not self._ready(0):
            while_reading()
            self._ready(TICK)
        with self._changed:
            if self._error and not self._waiting:
                raise self._error
            steps: list[Step] = []
            taken = 0
            while self._waiting and (not steps or taken + len(self._waiting[0].chunks) <= self._passages):
                steps.append(self._waiting.popleft())
                taken += len(steps[-1].chunks)
            self._left -= len(steps)
            self._held -= taken
            self._changed.notify_all()
            return steps

    def _ready(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._waiting or self._error or not self._left), seconds)

    def _read(self) -> None:
        try:
            for file in self._files:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or self._held < self._passages)
                    if self._closed:
                        return
                step = self._planner.step(file)
                with self._changed:
                    self._waiting.append(step)
                    self._held += len(step.chunks)
                    self._changed.notify_all()
        except BaseException as error:  # raised where steps are taken
            with self._changed:
                self._error = error
                self._changed.notify_all()
