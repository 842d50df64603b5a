"""Requests as a polite guest makes them: one at a time, spaced, patient, bounded, and saying who asks.

arXiv's terms of use (info.arxiv.org/help/api/tou.html) allow one request every three seconds and one connection at a
time, for everything on one machine; a lock and a time stamp in the cache hold all processes of this program to that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import httpx
from filelock import FileLock

from program.errors import FetchError, ServerUnavailable
from program.settings import Settings

T = TypeVar("T")

#: Times that a request is tried before the server counts as unavailable.
ATTEMPTS = 5
#: Seconds: the longest wait between two tries; a server that asks for longer is left alone.
LONGEST_WAIT = 300.0
#: Seconds for one answer to arrive completely, however slowly it drips.
DEADLINE = 600.0
LATER = "Try again later: nothing that has arrived is asked for again."
TIMEOUT = httpx.Timeout(30.0, connect=10.0)
#: HTTP statuses after which the same request may succeed.
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class TryAgain(Exception):
    """Raised by a `read` function: the answer is no use, another may be. `message` goes on after "The server"."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.message, self.after = message, after


class PoliteClient:
    """GET requests to one server. Use as a context manager; `say` is told about waits."""

    def __init__(
        self,
        settings: Settings,
        *,
        say: Callable[[str], None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
        timeout: httpx.Timeout = TIMEOUT,
    ) -> None:
        self._pause, self._offline = settings.arxiv_pause, settings.offline
        self._say, self._sleep, self._clock = say or (lambda _: None), sleep, clock
        self._folder = settings.cache / "arxiv"
        self._http = httpx.Client(
            headers={"User-Agent": user_agent(settings), "Accept-Encoding": "identity"},
            timeout=timeout,
            follow_redirects=True,
            max_redirects=3,
        )

    def __enter__(self) -> PoliteClient:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._http.close()

    def fetch(self, url: str, read: Callable[[httpx.Response], T], headers: Callable[[], dict[str, str]] = dict) -> T:
        """What `read` makes of the answer, which it is given before the body is read. `headers` is asked before every
        try, so that a broken download can go on where it stopped.

        Raises ServerUnavailable when `ATTEMPTS` tries failed in a way that may pass, FetchError when no try would help.
        """
        if self._offline:
            raise FetchError(f"{url} is not in the cache, and RAG_OFFLINE is set.", "Unset RAG_OFFLINE to fetch it.")
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._turn(), self._http.stream("GET", url, headers=headers()) as response:
                    if response.status_code in PASSING:
                        raise TryAgain(f"answered {response.status_code}", _retry_after(response, self._clock()))
                    return read(response)
            except TryAgain as error:
                trouble, after = error.message, error.after
            except httpx.TimeoutException:
                trouble, after = "did not answer in time", 0.0
            except httpx.TransportError as error:
                trouble, after = f"cannot be reached, or broke off ({error or type(error).__name__})", 0.0
            except (httpx.InvalidURL, httpx.HTTPError) as error:
                raise FetchError(f"{url} cannot be asked for: {error}.", "Check RAG_ARXIV_URL.") from error
            except OSError as error:  # httpx has its own for the network, so this is a file of ours
                raise FetchError(
                    f"{error.filename or 'A file'} cannot be read or written ({error.strerror or error}).",
                    "Free some disk space, or set RAG_CACHE and RAG_DATA to folders that you may write to.",
                ) from error
            if after > LONGEST_WAIT:
                raise ServerUnavailable(
                    f"The server {trouble} and asks to wait {after / 60:.0f} minutes ({url}).", LATER
                )
            if attempt < ATTEMPTS:
                wait = max(after, min(self._pause * 2**attempt, LONGEST_WAIT))
                self._say(f"The server {trouble}; trying again in {wait:.0f} s")
                self._sleep(wait)
        raise ServerUnavailable(f"The server {trouble}, {ATTEMPTS} times ({url}).", LATER)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Waits until no process of this program is asking and the last answer is `arxiv_pause` seconds old."""
        self._folder.mkdir(parents=True, exist_ok=True)
        stamp = self._folder / "last-answer"
        with FileLock(self._folder / "requests.lock"):
            wait = self._pause - (self._clock() - _time_in(stamp))
            if wait > 0:
                self._sleep(min(wait, self._pause))  # a clock that was set back must not make us wait for it
            try:
                yield
            finally:
                stamp.write_text(repr(self._clock()))


def check(response: httpx.Response) -> None:
    """Raises for an answer that is none and that asking again will not change."""
    status = response.status_code
    if status in (401, 403):
        raise ServerUnavailable(f"The server turns this program away ({status}, {response.url}).", LATER)
    if status >= 400:
        raise FetchError(f"The server answered {status} ({response.url}).", "Check the address and the query.")


def pieces(response: httpx.Response, limit: int, *, raw: bool = False) -> Iterator[bytes]:
    """The body as it arrives (`raw`: without undoing any compression). Raises FetchError beyond `limit` bytes, TryAgain
    beyond the deadline."""
    begun, size = time.monotonic(), 0
    for piece in response.iter_raw() if raw else response.iter_bytes():
        size += len(piece)
        if size > limit:
            raise FetchError(f"The answer is larger than {limit / 1e6:.0f} MB ({response.url}).")
        if time.monotonic() - begun > DEADLINE:
            raise TryAgain(f"sends too slowly ({size / 1e6:.1f} MB in {DEADLINE / 60:.0f} minutes)")
        yield piece


def user_agent(settings: Settings) -> str:
    """Who asks: this program and, if it was given, an address to complain to."""
    try:
        release = version("adaptive-rag")
    except PackageNotFoundError:  # run from a checkout
        release = "unreleased"
    contact = f"; mailto:{settings.contact}" if settings.contact else ""
    return f"adaptive-rag/{release} (builds a private search index; one request every few seconds{contact})"


def _retry_after(response: httpx.Response, now: float) -> float:
    """Seconds that a Retry-After header (a number, or a date: RFC 9110, 10.2.3) asks to wait; 0 without one."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _time_in(stamp: Path) -> float:
    """The time written in a file; long ago where there is none."""
    try:
        return float(stamp.read_text())
    except (OSError, ValueError):
        return 0.0
