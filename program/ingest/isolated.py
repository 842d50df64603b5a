"""Reading files in another process, so that a file that hangs, crashes its reader or eats memory costs only itself.

One process reads one file after the other; when it had to be stopped, the next file gets a new one.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from program.errors import Cancelled, CorruptFile, ProgramError, ReadError, TimedOut, TooLarge
from program.ingest.worker import MEMORY, Passages, Work, receive

MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Limits:
    """What one file may take: its size in bytes, and the seconds and the bytes of memory that reading it needs.

    seconds: for a scan, for each page that is read by OCR.
    """

    size: int = 256 * MIB
    seconds: float = 120.0
    memory: int = 2048 * MIB


class IsolatedReader:
    """Reads in a process of its own. For one thread at a time; `close` may be called from any.

    doing: how far the file is that is being read, for people, where its reader tells.
    """

    doing = ""

    def __init__(self, work: Callable[[], Work], limits: Limits) -> None:
        """work: gives what the process is to call for each file; asked when one is started."""
        self._work = work
        self._limits = limits
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def read(self, data: bytes, name: str, password: str | None) -> Passages:
        """Raises ReadError: what the work raises, TimedOut, TooLarge (memory), CorruptFile (the process crashed).

        Raises ProgramError when no process can be started, Cancelled after `close`.
        """
        fresh = self._process is None
        try:
            return self._ask(data, name, password)
        except (TooLarge, CorruptFile):
            if fresh or self._process is not None:  # else it may have died of what earlier files left in it
                raise
            return self._ask(data, name, password)

    def close(self) -> None:
        """End the process, whatever it is doing; a `read` in another thread raises Cancelled."""
        with self._lock:
            self._closed = True
        self._end()

    def _ask(self, data: bytes, name: str, password: str | None) -> Passages:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = _Deadline(self._limits.seconds, process.kill)

        def turn(page: int, pages: int) -> None:
            deadline.renew()
            self.doing = f"page {page} of {pages}"

        try:
            process.stdin.write(json.dumps({"name": name, "password": password, "size": len(data)}).encode() + b"\n")
            process.stdin.write(data)
            process.stdin.flush()
            return receive(process.stdout, turn)  # type: ignore[arg-type]
        except ReadError:
            raise
        except (EOFError, OSError, LookupError, TypeError, ValueError) as error:  # it died, or talks nonsense
            self._end()
            if self._closed:
                raise Cancelled("Reading was stopped.") from None
            raise self._reason(process.returncode, deadline.passed) from error
        finally:
            deadline.cancel()
            self.doing = ""

    def _start(self) -> subprocess.Popen[bytes]:
        # Not by multiprocessing, which would import the program's main module again in the new process.
        work = self._work()
        code = f"import sys; sys.path[:] = {sys.path!r}; from program.ingest.worker import serve; serve()"
        with self._lock:
            if self._closed:
                raise Cancelled("Reading was stopped.")
            process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with suppress(OSError):
            pickle.dump((work, self._limits.seconds, self._limits.memory), process.stdin)
            process.stdin.flush()
            if process.stdout.readline() == b"ready\n":
                return process
        said = process.stderr.read().decode(errors="replace").strip().splitlines()
        self._end()
        if self._closed:
            raise Cancelled("Reading was stopped.")
        raise ProgramError(
            f"The process that reads files does not start ({said[-1] if said else 'no reason given'}).",
            "Check that there is enough memory and that the installation is whole.",
        )

    def _end(self) -> None:
        """End the process and let go of it."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                with suppress(OSError):  # what was not sent before it died
                    stream.close()  # type: ignore[union-attr]

    def _reason(self, code: int, expired: bool) -> ReadError:
        if expired:
            return TimedOut(
                f"Reading took more than {self._limits.seconds:g} seconds and was stopped.",
                "Give it longer with --time-limit SECONDS, or split the file.",
            )
        if code == MEMORY:
            return TooLarge(f"Reading needs more than {self._limits.memory // MIB} MiB of memory.", "Split the file.")
        return CorruptFile(
            f"The file makes its reader crash (exit code {code}).", "Save it anew, or in another format."
        )


class _Deadline:
    """Calls `expire` after some seconds, unless it is renewed or cancelled before."""

    def __init__(self, seconds: float, expire: Callable[[], None]) -> None:
        self._seconds = seconds
        self._expire = expire
        self.passed = False
        self._timer = self._started()

    def renew(self) -> None:
        self._timer.cancel()
        self._timer = self._started()

    def cancel(self) -> None:
        self._timer.cancel()

    def _started(self) -> threading.Timer:
        timer = threading.Timer(self._seconds, self._pass)
        timer.start()
        return timer

    def _pass(self) -> None:
        self.passed = True
        self._expire()
