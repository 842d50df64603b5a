"""Writing to a Weaviate library, which has no transactions: what makes an interrupted write harmless.

A document's row says which version of its chunks counts. A write announces its version in the row, adds the new chunks,
changes the row, which is one step, and then takes the old chunks out. Whatever ends it in between, the row names the
version whose chunks have to go; the next write to the document, or opening the library a while later, sees to that.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from program.errors import LibraryError, NotAllWritten
from program.retrieval.analysis import terms
from program.retrieval.bm25 import Extent
from program.retrieval.index import Document
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
    version_of,
)
from program.types import Chunk

if TYPE_CHECKING:
    from weaviate import WeaviateClient
    from weaviate.collections import Collection

#: Chunks in one request: with token vectors some 7 MB.
BATCH = 100
#: How often what did not arrive is sent again.
AGAIN = 3
#: Seconds after which a write that never ended is taken for dead by whoever opens the library.
LEASE = 3600.0

Part = tuple[Chunk, NDArray[np.float32], NDArray[np.int8]]


class Writer:
    """Changes documents of one library. One thread at a time changes one document."""

    def __init__(self, nodes: Nodes, dimensions: int) -> None:
        self._nodes = nodes
        self._width = (dimensions,)

    def put(self, document: Document, chunks: Sequence[Chunk], parts: Iterable[Part]) -> None:
        """Put the document in the place of the one of its name. parts: the chunks again, with their vectors."""
        known = self.row(document.name) or Row(document)
        version = version_of(chunks)
        self._clear(known, version)
        known = replace(known, leaving=version if version != known.version else "")
        self._save(known)
        try:
            for batch in _batches(parts, BATCH):
                self._send(batch, version)
        except BaseException:
            with suppress(LibraryError):  # the row tells, if the server does not listen any more
                self._clear(known, "")
            raise
        titles, texts = [terms(chunk.title) for chunk in chunks], [terms(chunk.text) for chunk in chunks]
        old = known.version if known.version != version else ""
        new = Row(replace(document, chunks=len(chunks)), version, old, Extent.of(titles, texts))
        self._save(new)
        self._clear(new, version)
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
                self._clear(to_row(item.properties), "")
                self._stamp()

    def _clear(self, row: Row, keep: str) -> None:
        """Take out the version that is leaving, unless it is `keep` (about to be written), and say so in the row."""
        if not row.leaving or row.leaving == keep:
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
            if vector.shape != self._width or tokens.shape[1:] != self._width or not np.isfinite(vector).all():
                raise ValueError(f"vectors {vector.shape} and {tokens.shape} of another width, or not finite")
        ids = [object_id(version, chunk) for chunk, _, _ in batch]
        tokens_of = [
            DataObject(properties=from_tokens(chunk, version, tokens), uuid=id)
            for id, (chunk, _, tokens) in zip(ids, batch, strict=True)
        ]
        chunks = [
            DataObject(properties=from_chunk(chunk, version), uuid=id, vector=np.asarray(vector, np.float32).tolist())
            for id, (chunk, vector, _) in zip(ids, batch, strict=True)
        ]
        self._insert("tokens", tokens_of)
        self._insert("chunks", chunks)

    def _insert(self, name: str, objects: Sequence[Any]) -> None:
        """All objects, or NotAllWritten: a batch that fails in part raises nothing of itself."""
        from weaviate.exceptions import WeaviateInsertManyAllFailedError

        total, reason = len(objects), ""

        def send(rows: Library) -> list[Any]:
            nonlocal reason
            handle: Collection[Any, Any] = getattr(rows, name)
            try:
                errors = handle.data.insert_many(objects).errors
            except WeaviateInsertManyAllFailedError as error:
                reason = str(error)
                return list(objects)
            reason = next((error.message for error in errors.values()), reason)
            return [objects[place] for place in sorted(errors)]

        for attempt in range(AGAIN + 1):
            if attempt:
                time.sleep(0.5 * attempt)
            objects = self._run(send)
            if not objects:
                return
        raise NotAllWritten(
            f"Weaviate took {total - len(objects)} of {total} objects of a batch ({' '.join(reason.split())[:200]}).",
            "The document is as it was before. See to the server, then start again; what is done is not done again.",
        )

    def _save(self, row: Row) -> None:
        from weaviate.classes.data import DataObject

        self._insert("documents", [DataObject(properties=from_row(row), uuid=row_id(row.document.name))])

    def _stamp(self) -> None:
        """Tell readers that something changed."""
        from weaviate.classes.data import DataObject

        self._insert("documents", [DataObject(properties={"stamped": time.time_ns()}, uuid=LEDGER)])

    def _delete_chunks(self, document: str, version: str | None) -> None:
        from weaviate.classes.query import Filter

        which = Filter.by_property("document").equal(document)
        if version is not None:
            which = which & Filter.by_property("version").equal(version)

        def delete(rows: Library) -> int:
            left = 0
            for handle in (rows.chunks, rows.tokens):
                done = handle.data.delete_many(where=which)
                left += done.matches - done.successful + (done.matches == done.successful > 0)
            return left

        for _ in range(1000):  # a request deletes some 10,000 objects at most
            if not self._run(delete):
                return
        raise LibraryError(f"Weaviate does not delete the passages of {document}.", "See the server's log.")

    def _run(self, work: Any) -> Any:
        def careful(client: WeaviateClient) -> Any:
            return work(library(client, self._nodes.address, careful=True))

        return self._nodes.run(careful, WRITE)


def _batches(parts: Iterable[Part], size: int) -> Iterator[list[Part]]:
    rest = iter(parts)
    while batch := list(islice(rest, size)):
        yield batch
