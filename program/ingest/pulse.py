"""Signs of life of readers that take long for a good reason: each gives the file its time anew."""

from __future__ import annotations

from collections.abc import Callable

_listener: Callable[[int, int], None] | None = None


def listen(listener: Callable[[int, int], None]) -> None:
    """Have `listener(page, pages)` called whenever a reader begins a page that takes long. One at a time is heard."""
    global _listener
    _listener = listener


def begins(page: int, pages: int) -> None:
    """Said by readers, page by page, counted from 1."""
    if _listener is not None:
        _listener(page, pages)
