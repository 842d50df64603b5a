"""Documents into the library: `ingest` reads files, chunks them, and writes them to an index."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from program.ingest.batch import ingest
    from program.ingest.isolated import Limits
    from program.ingest.plan import FileReport

_HOMES = {
    "FileReport": "program.ingest.plan",
    "Limits": "program.ingest.isolated",
    "ingest": "program.ingest.batch",
}

__all__ = ["FileReport", "Limits", "ingest"]


def __getattr__(name: str) -> Any:
    """Imported when first used, so that the process that reads files starts without encoders and indexes."""
    if name not in _HOMES:
        raise AttributeError(f"module 'program.ingest' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
