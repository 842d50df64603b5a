"""Which library is asked and which is written to: the one place that knows the rule.

Asked: the index that `--index` or RAG_INDEX names; else your own library, once it holds documents; else the demo
library, made from the shipped articles on first use. Written to: the one that is named; else your own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from program.errors import EncoderMismatch, FormatMismatch, LibraryError, LibraryMissing
from program.settings import Settings, shipped

if TYPE_CHECKING:
    from program.retrieval.encoders import Encoder
    from program.retrieval.index import Index

Progress = Callable[[int, int, str], None]

#: Seconds to wait for another process that is making the demo library.
PATIENCE = 600.0


def resolve(settings: Settings) -> Path:
    """The folder of the index that questions are asked to. It may not exist yet (the demo library, or a named one)."""
    if settings.index is not None:
        return settings.index
    own = library_for_writing(settings)
    return own if _holds_documents(own) else demo_library(settings)


def library_for_writing(settings: Settings) -> Path:
    """The folder of the index that documents are added to and removed from."""
    return settings.index or settings.data / "library"


def demo_library(settings: Settings) -> Path:
    """The folder of the demo library's index."""
    return settings.data / "demo"


def open_library(settings: Settings, encoder: Encoder, *, on_progress: Progress | None = None) -> Index:
    """The index that questions are asked to. The demo library is made, or brought up to date, first.

    Raises LibraryMissing when a named one is not there, EncoderMismatch when it was made with another encoder,
    LibraryError when it cannot be read or the demo library cannot be written.
    """
    from program.retrieval.embedded import EmbeddedIndex

    place = resolve(settings)
    if settings.index is None and place == demo_library(settings):
        return _up_to_date_demo(place, encoder, on_progress)
    return EmbeddedIndex.open(place, encoder.fingerprint, encoder.dimensions)


def _up_to_date_demo(place: Path, encoder: Encoder, on_progress: Progress | None) -> Index:
    """The demo library with exactly the shipped articles. Unchanged ones cost a hash each."""
    from filelock import FileLock, Timeout

    from program.ingest import ingest

    corpus = shipped("data/corpus")
    if not corpus.is_dir():
        raise LibraryError(f"The demo articles are missing ({corpus}).", "Ingest documents of your own, or reinstall.")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(place.parent / "demo.lock", timeout=PATIENCE):
            index = _open_or_remake(place, encoder)
            ingest([corpus], index, encoder, mirror=True, on_progress=_whole(on_progress))
            return index
    except Timeout as error:
        raise LibraryError("Another process has been making the demo library for too long.", "Try again.") from error
    except OSError as error:
        raise LibraryError(
            f"The demo library cannot be written to {place} ({error.strerror or error}).",
            "Set RAG_DATA to a folder that you may write to.",
        ) from error


def _whole(on_progress: Progress | None) -> Callable[[float, int, str], None] | None:
    """Progress of `ingest`, in whole files."""
    if on_progress is None:
        return None
    return lambda done, total, what: on_progress(int(done), total, what)


def _open_or_remake(place: Path, encoder: Encoder) -> Index:
    """The demo library's index; one of another encoder or format holds nothing of the user's, and
    is made anew."""
    from program.retrieval.embedded import EmbeddedIndex

    try:
        return EmbeddedIndex.open(place, encoder.fingerprint, encoder.dimensions, create=True)
    except (EncoderMismatch, FormatMismatch):
        shutil.rmtree(place)
        return EmbeddedIndex.open(place, encoder.fingerprint, encoder.dimensions, create=True)


def _holds_documents(place: Path) -> bool:
    """Whether there is a library with documents. A damaged one counts, so that opening it says what is wrong."""
    from program.retrieval.embedded import EmbeddedIndex

    try:
        with closing(EmbeddedIndex.open_as_made(place)) as index:
            return bool(index.documents())
    except LibraryMissing:
        return False
    except LibraryError:
        return True
