"""Writing to a Weaviate library, which has no transactions: what makes an interrupted write harmless.

A document's row says which version of its chunks counts. A write announces its version in the row, adds the new chunks,
changes the row, which is one step, and then takes the old chunks out. Whatever ends it in between, the row names the
version whose chunks have to go; the next write to the document, or opening the library a while later, sees to that.

A node that is killed in the middle of a batch keeps objects whose vectors it never indexed, and replicas compare
objects, not vectors: it would miss those passages for good. So all replicas must take a batch, and what did not reach
all of them for certain is taken back and written anew as other objects, to those that are left.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from program.errors import LibraryError, NotAllWritten, cause_of
from program.retrieval.analysis import terms
from program.retrieval.bm25 import Extent
from program.retrieval.index import Document, check_vectors
from program.retrieval.late import Packed
from program.retrieval.weaviate_nodes import WRITE, Nodes
from program.retrieval.weaviate_schema import (
    LEDGER,
    Library,
    Row,
    from_chunk,
    from_row,
    from_tokens,
    library,
    object_id,
    row_id,
    to_row,
)
from program.types import Chunk

#: Chunks in one request: with token vectors some 7 MB.
BATCH = 100
#: How often what did not arrive is sent again.
AGAIN = 3
#: Seconds after which a write that never ended is taken for dead by whoever opens the library.
LEASE = 3600.0

#: Seconds for which a replica that did not take a write is not waited for.
AWAY = 30.0

Level = Literal["QUORUM", "ALL"]
T = TypeVar("T")
Part = tuple[Chunk, NDArray[np.float32], Packed]


class Writer:
    """Changes documents of one library. One thread at a time changes one document."""

    def __init__(self, nodes: Nodes, dimensions: int) -> None:
        self._nodes = nodes
        self._dimensions = dimensions
        self._whole_from = 0.0  # when all replicas are expected to take a write again

    def put(self, document: Document, chunks: Sequence[Chunk], parts: Iterable[Part]) -> None:
        """Put the document in the place of the one of its name. parts: the chunks again, with their vectors."""
        known = self.row(document.name) or Row(document)
        self._clear(known)
        version = uuid.uuid4().hex
        known = replace(known, leaving=version)
        self._save(known)
        try:
            for batch in _batches(parts, BATCH):
                self._send(batch, version)
        except BaseException:
            with suppress(LibraryError):  # the row tells, if the server does not listen any more
                self._clear(known)
                self._stamp()  # readers may have counted what is gone
            raise
        titles, texts = [terms(chunk.title) for chunk in chunks], [terms(chunk.text) for chunk in chunks]
        new = Row(replace(document, chunks=len(chunks)), version, known.version, Extent.of(titles, texts))
        self._save(new)
        self._clear(new)
        self._stamp()

    def move(self, row: Row) -> None:
        """Change what is known of a document's file."""
        self._save(row)

    def delete(self, name: str) -> bool:
        """Take a document out; False when there is none of that name."""
        row = self.row(name)
        if row is None:
            return False
        self._save(Row(Document(name, "", ""), "", row.version or row.leaving))
        self._delete_chunks(name, None)
        self._run(lambda rows: rows.documents.data.delete_by_id(row_id(name)))
        self._stamp()
        return bool(row.version)

    def row(self, name: str) -> Row | None:
        """The document's row, also of one that is only announced."""
        found = self._run(lambda rows: rows.documents.query.fetch_object_by_id(row_id(name)))
        return to_row(found.properties) if found else None

    def settle(self) -> None:
        """End the writes that never ended."""
        from weaviate.classes.query import Filter, MetadataQuery

        unsettled = self._run(
            lambda rows: rows.documents.query.fetch_objects(
                filters=Filter.by_property("unsettled").equal(True),
                limit=1000,
                return_metadata=MetadataQuery(last_update_time=True),
            )
        )
        for item in unsettled.objects:
            updated = item.metadata.last_update_time
            if updated is None or time.time() - updated.timestamp() >= LEASE:
                self._clear(to_row(item.properties))
                self._stamp()

    def _clear(self, row: Row) -> None:
        """Take out the version that is leaving, and say so in the row."""
        if not row.leaving:
            return
        self._delete_chunks(row.document.name, row.leaving if row.version else None)
        if row.version:
            self._save(replace(row, leaving=""))
        else:
            self._run(lambda rows: rows.documents.data.delete_by_id(row_id(row.document.name)))

    def _send(self, batch: Sequence[Part], version: str) -> None:
        """Chunks with their vectors. The token vectors first: a chunk that is found has them."""
        from weaviate.classes.data import DataObject

        for _, vector, tokens in batch:
            check_vectors(vector, tokens, self._dimensions)
        tokens_of = [
            DataObject(properties=from_tokens(chunk, version, tokens), uuid=object_id(version, 0, chunk))
            for chunk, _, tokens in batch
        ]
        chunks = [(chunk, from_chunk(chunk, version), vector.astype(np.float32).tolist()) for chunk, vector, _ in batch]
        self._insert("tokens", lambda _: tokens_of)
        self._insert(
            "chunks",
            lambda attempt: [
                DataObject(properties=properties, uuid=object_id(version, attempt, chunk), vector=vector)
                for chunk, properties, vector in chunks
            ],
        )

    def _insert(self, name: str, objects_of: Callable[[int], list[Any]]) -> None:
        """All objects, or NotAllWritten: a batch that fails in part raises nothing of itself.

        objects_of: the objects as they are sent in one attempt.
        """
        for attempt in range(AGAIN + 1):
            time.sleep(attempt / 2)
            objects = objects_of(attempt)
            failed, reason = self._sent(name, objects)
            if not failed and name == "chunks":
                # Weaviate may flush its log before the last vectors of a batch are in it. What is there already is not
                # written again, but flushed.
                failed, reason = self._sent(name, objects)
            if not failed:
                return
            self._whole_from = time.monotonic() + AWAY
            if name == "chunks":
                self._take_back([item.uuid for item in objects])
        raise NotAllWritten(
            f"Weaviate took {len(objects) - failed} of {len(objects)} objects of a batch ({reason}).",
            "The document is as it was before. See to the server, then start again; what is done is not done again.",
        )

    def _sent(self, name: str, objects: list[Any]) -> tuple[int, str]:
        """How many objects did not reach all the replicas that they should, and why the first of them did not."""
        from weaviate.exceptions import WeaviateInsertManyAllFailedError

        def send(rows: Library) -> tuple[int, str]:
            try:
                errors = getattr(rows, name).data.insert_many(objects).errors
            except WeaviateInsertManyAllFailedError as error:
                return len(objects), cause_of(error)
            return len(errors), next((error.message for error in errors.values()), "")

        try:
            return self._at(self._level(), send, once=True)
        except LibraryError as error:
            return len(objects), str(error.args[0])

    def _save(self, row: Row) -> None:
        self._put_row(from_row(row), row_id(row.document.name))

    def _stamp(self) -> None:
        """Tell readers that something changed."""
        self._put_row({"stamped": time.time_ns()}, LEDGER)

    def _put_row(self, properties: dict[str, Any], id: uuid.UUID) -> None:
        from weaviate.classes.data import DataObject

        self._insert("documents", lambda _: [DataObject(properties=properties, uuid=id)])

    def _delete_chunks(self, document: str, version: str | None) -> None:
        """Of one version, or of all."""
        from weaviate.classes.query import Filter

        which = Filter.by_property("document").equal(document)
        if version is not None:
            which = which & Filter.by_property("version").equal(version)
        for name in ("chunks", "tokens"):
            while self._delete(name, which):  # a request deletes some 10,000 objects at most
                pass

    def _take_back(self, ids: list[uuid.UUID]) -> None:
        from weaviate.classes.query import Filter

        self._delete("chunks", Filter.by_id().contains_any(ids))

    def _delete(self, name: str, which: Any) -> int:
        """How many objects were deleted. Raises LibraryError when there were some, and none could be."""
        done = self._run(lambda rows: getattr(rows, name).data.delete_many(where=which))
        if done.matches and not done.successful:
            raise LibraryError(f"Weaviate does not delete {done.matches} objects.", "The server's log says why.")
        return int(done.successful)

    def _run(self, work: Callable[[Library], Any]) -> Any:
        """On all replicas; on most of them, where that is not to be had."""
        try:
            return self._at(self._level(), work)
        except LibraryError:
            if self._level() == "QUORUM":
                raise
            self._whole_from = time.monotonic() + AWAY
            return self._at("QUORUM", work)

    def _level(self) -> Level:
        return "ALL" if time.monotonic() >= self._whole_from else "QUORUM"

    def _at(self, level: Level, work: Callable[[Library], T], *, once: bool = False) -> T:
        return self._nodes.run(lambda client: work(library(client, self._nodes.address, level)), WRITE, once=once)


def _batches(parts: Iterable[Part], size: int) -> Iterator[list[Part]]:
    rest = iter(parts)
    while batch := list(islice(rest, size)):
        yield batch
