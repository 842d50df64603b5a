"""The index on a Weaviate server or cluster: an `Index` with the semantics of the embedded one.

Weaviate finds, this module scores. Its own hybrid query gives each leg max(100, limit) hits but returns only `limit` of
both together, so that neither leg is whole and `fuse` could not be repeated by the optimizer; its BM25 counts a word
only in properties where the chunk is among the best, and takes frequencies from one shard, deleted chunks included.
So the two legs are two queries side by side, the lexical one deeper than the leg, and every hit gets its BM25 from
`bm25.score` over the whole library: the same number as embedded, whatever the sharding.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from program.errors import LibraryError
from program.retrieval import bm25
from program.retrieval.analysis import query_terms
from program.retrieval.encoders import Encoder
from program.retrieval.fusion import fuse
from program.retrieval.index import LEG_DEPTH, Document, Filters
from program.retrieval.weaviate_nodes import SCHEMA, Address, Nodes
from program.retrieval.weaviate_schema import (
    CHUNK_PROPERTIES,
    LEDGER,
    Library,
    check,
    drop,
    library,
    make,
    moved,
    require,
    to_chunk,
    to_row,
    to_tokens,
)
from program.retrieval.weaviate_write import Part, Writer
from program.types import Chunk, Fusion, Hit

if TYPE_CHECKING:
    from weaviate import WeaviateClient

#: Candidates of the lexical leg for each hit it keeps: Weaviate's own order is near ours, not the same.
DEEPER = 2
#: Ids in one request, documents in one page, positions in one page of a document's chunks.
IDS, PAGE, POSITIONS = 500, 1000, 1000
#: Requests under way at once for one search.
AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class _Statistics:
    """What the lexical score needs to know of the library, as of one write. frequencies: of a term, the chunks having
    it in all of these properties."""

    stamp: int
    extent: bm25.Extent
    frequencies: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Candidate:
    chunk: Chunk
    vector: NDArray[np.float32]
    title: list[str]
    text: list[str]


class WeaviateIndex:
    """An `Index` on a server. Threads share it; each of its reads goes to one node and sees what that node has."""

    def __init__(self, address: Address, nodes: Nodes, encoder: str, dimensions: int) -> None:
        self.location = str(address)
        self.encoder = encoder
        self.engine = f"Weaviate {nodes.version()}"
        self._address = address
        self._nodes = nodes
        self._dimensions = dimensions
        self._writer = Writer(nodes, dimensions)
        self._threads = ThreadPoolExecutor(AT_ONCE, "weaviate-search")
        self._lock = threading.Lock()
        self._known = _Statistics(-1, bm25.Extent())
        with suppress(LibraryError):  # whoever may only read can do without
            self._writer.settle()

    @classmethod
    def open(cls, address: Address, encoder: str, dimensions: int, *, create: bool = False) -> WeaviateIndex:
        """The library at `address`, made with the encoder of that fingerprint.

        Raises LibraryMissing (nothing there, and not `create`), EncoderMismatch, FormatMismatch, LibraryUnavailable,
        LibraryError.
        """
        nodes = _nodes(address)
        try:
            if create:
                nodes.run(lambda client: make(client, address, encoder, dimensions), SCHEMA)
            made_with, width = nodes.run(lambda client: check(client, address), SCHEMA)
            require(made_with, encoder, address)
            return cls(address, nodes, encoder, width)
        except BaseException:
            nodes.close()
            raise

    @classmethod
    def open_or_make(cls, address: Address, encoder: Callable[[], Encoder]) -> WeaviateIndex:
        """The library at `address`, whichever encoder made it; `encoder` is loaded only where there is none yet."""
        from program.errors import LibraryMissing

        try:
            return cls.open_as_made(address)
        except LibraryMissing:
            made_with = encoder()
            return cls.open(address, made_with.fingerprint, made_with.dimensions, create=True)

    @classmethod
    def open_as_made(cls, address: Address) -> WeaviateIndex:
        """The library at `address`, whichever encoder made it. Raises as `open` does."""
        nodes = _nodes(address)
        try:
            return cls(address, nodes, *nodes.run(lambda client: check(client, address), SCHEMA))
        except BaseException:
            nodes.close()
            raise

    def search(
        self,
        text: str,
        vector: NDArray[np.float32],
        *,
        k: int,
        alpha: float,
        fusion: Fusion,
        filters: Filters | None = None,
        title_weight: float = 1.0,
    ) -> list[Hit]:
        depth, wanted = max(k, LEG_DEPTH), query_terms(text)
        dense = self._threads.submit(self._near, vector, depth, filters) if alpha > 0 else None
        found: dict[str, _Candidate] = {}
        if alpha < 1:
            found |= self._with_words(wanted, depth * DEEPER, filters, title_weight)
        if dense is not None:
            found |= dense.result()
        known = self._statistics()
        held = set().union(*(candidate.title + candidate.text for candidate in found.values()))
        weights = self._weights(known, [term for term in wanted if term in held])  # the others weigh nothing
        hits = _scored(list(found.values()), vector, weights, known.extent, title_weight)
        dense_leg = sorted(hits, key=lambda hit: (-hit.dense, hit.chunk.id))[:depth] if dense else []
        lexical_leg = sorted((h for h in hits if h.lexical > 0), key=lambda hit: (-hit.lexical, hit.chunk.id))[:depth]
        return fuse(dense_leg, lexical_leg, alpha=alpha, fusion=fusion, k=k)

    def replace(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        vectors: NDArray[np.float32] | Sequence[NDArray[np.float32]],
        token_vectors: Sequence[NDArray[np.int8]],
    ) -> None:
        if not len(chunks) == len(vectors) == len(token_vectors):
            raise ValueError(f"{len(chunks)} chunks, {len(vectors)} vectors, {len(token_vectors)} token vectors")
        if len({chunk.id for chunk in chunks}) < len(chunks):
            raise LibraryError(f"Two passages of {document.name} have the same id.", "Ingest the document again.")
        self._writer.put(document, chunks, zip(chunks, vectors, token_vectors, strict=True))

    def rename(self, name: str, document: Document, id_of: Callable[[Chunk], str]) -> None:
        row = self._writer.row(name)
        if row is None or not row.version:
            raise LibraryError(f"There is no document {name!r} any more.", "Another process took it out: try again.")
        row = moved(row, document)
        if name == document.name:
            self._writer.move(row)
            return
        old = self.chunks(name)
        under_new_name = [replace(chunk, document=document.name) for chunk in old]
        new = [replace(chunk, id=id_of(chunk)) for chunk in under_new_name]
        self._writer.put(row.document, new, self._parts(old, new))
        self._writer.delete(name)

    def delete(self, name: str) -> bool:
        return self._writer.delete(name)

    def drop(self) -> None:
        """Delete the library: its tenant, or its collections. The index is of no use afterwards."""
        self._nodes.run(lambda client: drop(client, self._address), SCHEMA)

    def documents(self) -> list[Document]:
        rows, after = [], None
        while True:
            page = self._read(lambda found, after=after: found.documents.query.fetch_objects(limit=PAGE, after=after))
            rows += [to_row(item.properties) for item in page.objects if item.properties.get("kept")]
            if len(page.objects) < PAGE:
                break
            after = page.objects[-1].uuid
        return sorted((row.document for row in rows), key=lambda document: document.name)

    def chunks(self, name: str) -> list[Chunk]:
        """The chunks of a document, in order."""
        from weaviate.classes.query import Filter

        row = self._writer.row(name)
        found: list[Chunk] = []
        begin = 0
        while row is not None and len(found) < row.extent.chunks and begin < 10**7:
            which = (
                Filter.by_property("document").equal(name)
                & Filter.by_property("version").equal(row.version)
                & Filter.by_property("position").greater_or_equal(begin)
                & Filter.by_property("position").less_than(begin + POSITIONS)
            )
            page = self._read(
                lambda rows, which=which: rows.chunks.query.fetch_objects(
                    filters=which, limit=10 * POSITIONS, return_properties=CHUNK_PROPERTIES
                )
            )
            found += [to_chunk(item.properties) for item in page.objects]
            begin += POSITIONS
        return sorted(found, key=lambda chunk: (chunk.position, chunk.id))

    def vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        found = self._by_ids("chunks", ids, return_properties=["chunk"], include_vector=True)
        return {item.properties["chunk"]: np.array(item.vector["default"], np.float32) for item in found}

    def token_vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.int8]]:
        found = self._by_ids("tokens", ids, return_properties=["chunk", "tokens"])
        return {item.properties["chunk"]: to_tokens(item.properties, self._dimensions) for item in found}

    def inverse_document_frequency(self, terms: Sequence[str]) -> dict[str, float]:
        known = self._statistics()
        having = self._having(known, terms, "title_terms", "text_terms")
        return {term: bm25.idf(known.extent.chunks, having[term]) for term in terms}

    def __len__(self) -> int:
        return self._statistics().extent.chunks

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._nodes.close()

    def _near(self, vector: NDArray[np.float32], depth: int, filters: Filters | None) -> dict[str, _Candidate]:
        found = self._read(
            lambda rows: rows.chunks.query.near_vector(
                vector.tolist(),
                limit=depth,
                filters=_filter(filters),
                include_vector=True,
                return_properties=CHUNK_PROPERTIES,
            )
        )
        return _candidates(found.objects)

    def _with_words(
        self, terms: Sequence[str], depth: int, filters: Filters | None, title_weight: float
    ) -> dict[str, _Candidate]:
        if not terms:
            return {}
        properties = ["text_terms", f"title_terms^{title_weight:.6f}"] if title_weight > 0 else ["text_terms"]
        found = self._read(
            lambda rows: rows.chunks.query.bm25(
                " ".join(terms),
                query_properties=properties,
                limit=depth,
                filters=_filter(filters),
                include_vector=True,
                return_properties=CHUNK_PROPERTIES,
            )
        )
        return _candidates(found.objects)

    def _weights(self, known: _Statistics, terms: Sequence[str]) -> dict[str, float]:
        """The idf that the score gives each term."""
        title, text = (self._having(known, terms, name) for name in ("title_terms", "text_terms"))
        return {term: bm25.idf(known.extent.chunks, bm25.having(title[term], text[term])) for term in terms}

    def _having(self, known: _Statistics, terms: Sequence[str], *properties: str) -> dict[str, int]:
        """How many chunks have each term in any of the properties."""
        from weaviate.classes.query import Filter

        def count(term: str) -> int:
            which = Filter.any_of([Filter.by_property(name).equal(term) for name in properties])
            return int(self._read(lambda rows: rows.chunks.aggregate.over_all(filters=which, total_count=True).total_count))

        name = "+".join(properties)
        missing = [term for term in dict.fromkeys(terms) if (name, term) not in known.frequencies]
        for term, counted in zip(missing, self._threads.map(count, missing), strict=True):
            known.frequencies[name, term] = counted
        return {term: known.frequencies[name, term] for term in terms}

    def _statistics(self) -> _Statistics:
        """As of the last write, to whatever node that has come."""
        stamp = self._read(_stamp)
        known = self._known
        if known.stamp != stamp:
            known = _Statistics(stamp, self._read(_extent))
            self._known = known
        return known

    def _by_ids(self, name: str, ids: Sequence[str], **more: Any) -> Iterable[Any]:
        from weaviate.classes.query import Filter

        for begin in range(0, len(ids), IDS):
            which = Filter.by_property("chunk").contains_any(list(ids[begin : begin + IDS]))
            found = self._read(
                lambda rows, which=which: getattr(rows, name).query.fetch_objects(
                    filters=which, limit=2 * IDS, **more
                )
            )
            yield from found.objects

    def _parts(self, old: Sequence[Chunk], new: Sequence[Chunk]) -> Iterable[Part]:
        """New chunks with the vectors of the old ones, a page at a time."""
        for begin in range(0, len(old), IDS):
            ids = [chunk.id for chunk in old[begin : begin + IDS]]
            vectors, tokens = self.vectors(ids), self.token_vectors(ids)
            for id, chunk in zip(ids, new[begin : begin + IDS], strict=True):
                yield chunk, vectors[id], tokens[id]

    def _read(self, work: Callable[[Library], Any]) -> Any:
        return self._nodes.run(lambda client: work(library(client, self._address)))


def _nodes(address: Address) -> Nodes:
    def census(client: WeaviateClient) -> tuple[int, ...]:
        """The last write the node knows of, and what it has: a node that was away is behind in one of them."""
        if not client.collections.exists(address.collection):
            return ()
        rows = library(client, address)
        counts = (handle.aggregate.over_all(total_count=True).total_count for handle in (rows.documents, rows.chunks))
        return _stamp(rows), *(count or 0 for count in counts)

    return Nodes(address, census)


def _stamp(rows: Library) -> int:
    ledger = rows.documents.query.fetch_object_by_id(LEDGER, return_properties=["stamped"])
    return int(ledger.properties["stamped"]) if ledger else 0


def _extent(rows: Library) -> bm25.Extent:
    from weaviate.classes.query import Metrics

    names = [f"sum_{field.name}" for field in fields(bm25.Extent)]
    sums = rows.documents.aggregate.over_all(return_metrics=[Metrics(name).integer(sum_=True) for name in names])
    return bm25.Extent(*(int(getattr(sums.properties.get(name), "sum_", 0) or 0) for name in names))


def _filter(filters: Filters | None) -> Any:
    from weaviate.classes.query import Filter

    parts = [
        Filter.by_property(name).equal(value)
        for name in Filters.__slots__
        if filters is not None and (value := getattr(filters, name)) is not None
    ]
    return Filter.all_of(parts) if parts else None


def _candidates(objects: Sequence[Any]) -> dict[str, _Candidate]:
    """By chunk id: while a document is written again, old and new chunks may have the same."""
    found = {}
    for item in objects:
        title, text = ((item.properties.get(name) or "").split() for name in ("title_terms", "text_terms"))
        chunk = to_chunk(item.properties)
        found[chunk.id] = _Candidate(chunk, np.array(item.vector["default"], np.float32), title, text)
    return found


def _scored(
    candidates: Sequence[_Candidate],
    vector: NDArray[np.float32],
    weights: dict[str, float],
    extent: bm25.Extent,
    title_weight: float,
) -> list[Hit]:
    if not candidates:
        return []
    # In double precision, so that equal vectors have equal cosines and ties break by id.
    matrix = np.array([candidate.vector for candidate in candidates], np.float64)
    dense = (matrix @ vector.astype(np.float64)).astype(np.float32)
    return [
        Hit(c.chunk, float(cosine), bm25.score(weights, c.title, c.text, extent, title_weight))
        for c, cosine in zip(candidates, dense, strict=True)
    ]
