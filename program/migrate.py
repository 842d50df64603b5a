"""`python -m program migrate`: copy a library from its folder to the Weaviate server, or back.

Vectors and token vectors are copied, so nothing is encoded again. A document that is there with the same content is
left, so that a run that was interrupted goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, overload

import typer

from program.errors import LibraryError
from program.terminal import FAILED, failures, print_json, progress, say

if TYPE_CHECKING:
    from program.retrieval.index import Document, Index

T = TypeVar("T")
Progress = Callable[[float, int, str], None]

#: Passages copied at a time; hits compared of each query.
PAGE, TOP = 200, 10


@dataclass(frozen=True, slots=True)
class Migration:
    """What a copy came to. passages: counted in both. equal: share of sampled queries whose ten best are the same in
    both; None without any."""

    copied: int
    there: int
    complete: bool
    passages: tuple[int, int]
    queries: int
    equal: float | None


class Paged(Sequence[T]):
    """What an index has for some chunks, in their order, fetched a page at a time while it is gone through."""

    def __init__(self, ids: Sequence[str], fetch: Callable[[Sequence[str]], dict[str, T]]) -> None:
        self._ids = ids
        self._fetch = fetch

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...
    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        if isinstance(place, slice):
            return Paged(self._ids[place], self._fetch)
        return self._fetch([self._ids[place]])[self._ids[place]]

    def __iter__(self) -> Iterator[T]:
        for begin in range(0, len(self._ids), PAGE):
            page = self._ids[begin : begin + PAGE]
            found = self._fetch(page)
            if len(found) < len(page):
                raise LibraryError("A document was changed while it was copied.", "Run the same command again.")
            yield from (found[id] for id in page)


def copy(source: Index, target: Index, samples: int, on_progress: Progress) -> Migration:
    """Copy every document that `target` has not, and compare. Raises LibraryError."""
    documents = source.documents()
    known = {document.name: _content(document) for document in target.documents()}
    copied = 0
    for place, document in enumerate(documents):
        if known.get(document.name) == _content(document):
            continue
        on_progress(place, len(documents), document.name)
        chunks = source.chunks(document.name)
        ids = [chunk.id for chunk in chunks]
        target.replace(document, chunks, Paged(ids, source.vectors), Paged(ids, source.token_vectors))
        copied += 1
    equal = list(_compared(source, target, documents, samples, on_progress))
    has = {document.name: _content(document) for document in target.documents()}
    passages = len(source), len(target)
    complete = all(has.get(document.name) == _content(document) for document in documents)
    complete = complete and passages[1] == sum(chunks for _, chunks in has.values())
    share = sum(equal) / len(equal) if equal else None
    return Migration(copied, len(documents) - copied, complete, passages, len(equal), share)


def _content(document: Document) -> tuple[str, int]:
    return document.sha256, document.chunks


def _compared(
    source: Index, target: Index, documents: Sequence[Document], samples: int, on_progress: Progress
) -> Iterator[bool]:
    """Whether both find the same for the beginning of a passage; passages of documents that lie evenly in the list."""
    with_text = [document for document in documents if document.chunks]
    number = min(samples, len(with_text))
    asked = [with_text[place * len(with_text) // number] for place in range(number)]
    for place, document in enumerate(asked):
        on_progress(place, len(asked), f"Comparing: {document.name}")
        chunks = source.chunks(document.name)
        chunk = chunks[len(chunks) // 2]
        vector = source.vectors([chunk.id])[chunk.id]
        text = " ".join(chunk.text.split()[:12])
        found = [
            [hit.chunk.id for hit in index.search(text, vector, k=TOP, alpha=0.5, fusion="ranked")]
            for index in (source, target)
        ]
        yield found[0] == found[1]


def migrate(
    index: Annotated[
        Path | None, typer.Option("--index", metavar="DIR", help="The library's folder; else that of your own library.")
    ] = None,
    back: Annotated[bool, typer.Option("--back", help="From the server into the folder.")] = False,
    samples: Annotated[
        int, typer.Option("--samples", min=0, metavar="N", help="Queries asked of both, to compare their answers.")
    ] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines; errors too.")] = False,
) -> None:
    """Copy your library from its folder to the Weaviate server that RAG_WEAVIATE_URL names.

    Vectors are copied too, so that nothing is read or encoded again; a document that the server has with the same
    content is left, so that an interrupted run goes on where it was. Documents that only the server has stay. In the
    end the passages are counted and some queries are asked of both. The folder is not changed, and not used any more
    while RAG_WEAVIATE_URL is set.

    Exit code 1 when the copy is not whole.

    \b
    Examples:
      export RAG_WEAVIATE_URL=http://localhost:8080
      python -m program migrate
      python -m program migrate --index ./papers
      python -m program migrate --back --index ./copy
    """
    with failures(as_json):
        from program.errors import SettingsError
        from program.library import Folder, MadeWith, library_for_writing
        from program.settings import settings_from

        settings = settings_from()
        folder = Folder(index or settings.index or settings.data / "library")
        if not settings.weaviate_url:
            raise SettingsError("No server is named.", "Set RAG_WEAVIATE_URL, for example to http://localhost:8080.")
        server = library_for_writing(settings.model_copy(update={"index": None}))
        origin, destination = (server, folder) if back else (folder, server)
        with (
            progress() as on_progress,
            closing(origin.open_as_made()) as source,
            closing(destination.open(MadeWith(source.encoder, source.dimensions), create=True)) as target,
        ):
            done = copy(source, target, samples, on_progress)
        if as_json:
            print_json({"from": str(origin), "to": str(destination), "complete": done.complete, "result": done})
        else:
            say(f"{done.copied} documents copied, {done.there} were there already.")
            say(f"{origin}: {done.passages[0]} passages. {destination}: {done.passages[1]}.")
            if done.equal is not None:
                say(f"{done.equal:.0%} of {done.queries} queries have the same ten best in both.")
        if not done.complete:
            say("The copy is not whole. Run it again.")
            raise typer.Exit(FAILED)
