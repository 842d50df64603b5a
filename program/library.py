"""Which library is asked and which is written to, and the one place that opens one.

A library lies in a folder (the index in the process), or on a Weaviate server when RAG_WEAVIATE_URL names one. A folder
that `--index` or RAG_INDEX names is a folder either way.

Asked: the library that is named; else your own, once it holds documents; else the demo library, made from the shipped
articles on first use. Written to: the one that is named; else your own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from program.errors import EncoderMismatch, FormatMismatch, LibraryError, LibraryMissing
from program.settings import Settings, shipped

if TYPE_CHECKING:
    from program.retrieval.encoders import Encoder
    from program.retrieval.index import Index
    from program.retrieval.weaviate_nodes import Address

Progress = Callable[[int, int, str], None]

#: Seconds to wait for another process that is making the demo library.
PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class MadeWith:
    """What an index must know of an encoder; an `Encoder` says the same."""

    fingerprint: str
    dimensions: int


class Place(Protocol):
    """Where a library is, or will be. `str` names it to people."""

    def open(self, encoder: Encoder | MadeWith, *, create: bool = False) -> Index:
        """The library, made with that encoder. Raises LibraryMissing (nothing there, and not `create`),
        EncoderMismatch, FormatMismatch, LibraryError."""
        ...

    def open_as_made(self) -> Index:
        """The library, whichever encoder made it. Raises LibraryMissing, FormatMismatch, LibraryError."""
        ...

    def open_or_make(self, encoder: Callable[[], Encoder]) -> Index:
        """The library, whichever encoder made it; `encoder` is loaded only where there is none yet."""
        ...

    def remove(self) -> None:
        """Delete the library with all that is in it."""
        ...


@dataclass(frozen=True, slots=True)
class Folder:
    """A library in a folder of this machine."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def open(self, encoder: Encoder | MadeWith, *, create: bool = False) -> Index:
        from program.retrieval.embedded import EmbeddedIndex

        return EmbeddedIndex.open(self.path, encoder.fingerprint, encoder.dimensions, create=create)

    def open_as_made(self) -> Index:
        from program.retrieval.embedded import EmbeddedIndex

        return EmbeddedIndex.open_as_made(self.path)

    def open_or_make(self, encoder: Callable[[], Encoder]) -> Index:
        from program.retrieval.embedded import EmbeddedIndex

        return EmbeddedIndex.open_or_make(self.path, encoder)

    def remove(self) -> None:
        shutil.rmtree(self.path)


@dataclass(frozen=True, slots=True)
class OnServer:
    """A library on a Weaviate server."""

    address: Address

    def __str__(self) -> str:
        return str(self.address)

    def open(self, encoder: Encoder | MadeWith, *, create: bool = False) -> Index:
        from program.retrieval.weaviate import WeaviateIndex

        return WeaviateIndex.open(self.address, encoder.fingerprint, encoder.dimensions, create=create)

    def open_as_made(self) -> Index:
        from program.retrieval.weaviate import WeaviateIndex

        return WeaviateIndex.open_as_made(self.address)

    def open_or_make(self, encoder: Callable[[], Encoder]) -> Index:
        from program.retrieval.weaviate import WeaviateIndex

        return WeaviateIndex.open_or_make(self.address, encoder)

    def remove(self) -> None:
        from program.retrieval.weaviate import remove

        remove(self.address)


def resolve(settings: Settings) -> Place:
    """The library that questions are asked to. It may not exist yet (the demo library, or a named one)."""
    own = library_for_writing(settings)
    return own if settings.index is not None or _holds_documents(own) else demo_library(settings)


def library_for_writing(settings: Settings) -> Place:
    """The library that documents are added to and removed from."""
    return Folder(settings.index) if settings.index is not None else _place(settings, "library", "")


def demo_library(settings: Settings) -> Place:
    """The demo library."""
    return _place(settings, "demo", "Demo")


def is_demo(settings: Settings, place: Place) -> bool:
    """Whether a resolved place is the demo library, which is made on first use."""
    return settings.index is None and place == demo_library(settings)


def open_library(settings: Settings, encoder: Encoder, *, on_progress: Progress | None = None) -> Index:
    """The library that questions are asked to. The demo library is made, or brought up to date, first.

    Raises LibraryMissing when a named one is not there, EncoderMismatch when it was made with another encoder,
    LibraryError when it cannot be read or the demo library cannot be written.
    """
    place = resolve(settings)
    if is_demo(settings, place):
        return _up_to_date_demo(place, settings, encoder, on_progress)
    return place.open(encoder)


def _place(settings: Settings, folder: str, suffix: str) -> Place:
    if not settings.weaviate_url:
        return Folder(settings.data / folder)
    from program.retrieval.weaviate_nodes import Address

    return OnServer(Address.from_settings(settings, suffix))


def _up_to_date_demo(place: Place, settings: Settings, encoder: Encoder, on_progress: Progress | None) -> Index:
    """The demo library with exactly the shipped articles. Unchanged ones cost a hash each."""
    from filelock import FileLock, Timeout

    from program.ingest import ingest

    corpus = shipped("data/corpus")
    if not corpus.is_dir():
        raise LibraryError(f"The demo articles are missing ({corpus}).", "Ingest documents of your own, or reinstall.")
    try:
        settings.data.mkdir(parents=True, exist_ok=True)
        with FileLock(settings.data / "demo.lock", timeout=PATIENCE):
            index = _open_or_remake(place, encoder)
            try:
                ingest([corpus], index, encoder, mirror=True, on_progress=_whole(on_progress))
            except BaseException:
                index.close()
                raise
            return index
    except Timeout as error:
        raise LibraryError("Another process has been making the demo library for too long.", "Try again.") from error
    except OSError as error:
        raise LibraryError(
            f"The demo library cannot be written to {settings.data} ({error.strerror or error}).",
            "Set RAG_DATA to a folder that you may write to.",
        ) from error


def _whole(on_progress: Progress | None) -> Callable[[float, int, str], None] | None:
    """Progress of `ingest`, in whole files."""
    if on_progress is None:
        return None
    return lambda done, total, what: on_progress(int(done), total, what)


def _open_or_remake(place: Place, encoder: Encoder) -> Index:
    """The demo library's index; one of another encoder or format holds nothing of the user's, and is made anew."""
    try:
        return place.open(encoder, create=True)
    except (EncoderMismatch, FormatMismatch):
        place.remove()
        return place.open(encoder, create=True)


def _holds_documents(place: Place) -> bool:
    """Whether there is a library with documents. One that cannot be read counts, so that opening it says why."""
    try:
        with closing(place.open_as_made()) as index:
            return bool(index.documents())
    except LibraryMissing:
        return False
    except LibraryError:
        return True
