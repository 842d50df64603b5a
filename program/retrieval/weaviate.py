"""The index on a Weaviate server or cluster: an `Index` with the semantics of the embedded one.

Weaviate finds, this module scores. Its own hybrid query gives each leg max(100, limit) hits but returns only `limit` of
both together, so that neither leg is whole and `fuse` could not be repeated by the optimizer; its BM25 counts a word
only in properties where the chunk is among the best, and takes frequencies from one shard, deleted chunks included.
So the two legs are two queries side by side, the lexical one deeper than the leg, and every hit gets its BM25 from
`bm25.score` over the whole library: the same number as embedded, whatever the sharding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from program.errors import LibraryError, LibraryMissing
from program.retrieval import bm25
from program.retrieval.analysis import query_terms
from program.retrieval.encoders import Encoder
from program.retrieval.fusion import Fused, fuse_legs
from program.retrieval.index import Document, Index, Search
from program.retrieval.late import Packed
from program.retrieval.weaviate_nodes import SCHEMA, Address, Nodes
from program.retrieval.weaviate_read import IDS, Reader, Statistics, Whole, Words, best_first, census, cosines
from program.retrieval.weaviate_schema import check, drop, library, make, moved, require
from program.retrieval.weaviate_write import Part, Writer
from program.types import Chunk, Hit

if TYPE_CHECKING:
    from weaviate import WeaviateClient


class WeaviateIndex(Index):
    """An `Index` on a server. A change of a document is not one step: a reader may see old and new chunks together, but
    never neither. Each read goes to one node and sees what that node has."""

    def __init__(self, nodes: Nodes, encoder: str, dimensions: int) -> None:
        self.location = str(nodes.address)
        self.engine = f"Weaviate {nodes.version()}"
        self.encoder = encoder
        self.dimensions = dimensions
        self._nodes = nodes
        self._reader = Reader(nodes, dimensions)
        self._writer = Writer(nodes, dimensions)
        self._reader.statistics()  # over gRPC, which may be shut where HTTP is open
        with suppress(LibraryError):  # whoever may only read can do without
            self._writer.settle()

    @classmethod
    def open(cls, address: Address, encoder: str, dimensions: int, *, create: bool = False) -> WeaviateIndex:
        """The library at `address`, made with the encoder of that fingerprint.

        Raises LibraryMissing (nothing there, and not `create`), EncoderMismatch, FormatMismatch, LibraryUnavailable,
        LibraryError.
        """

        def prepared(client: WeaviateClient) -> tuple[str, int]:
            if create:
                make(client, address, encoder, dimensions)
            return check(client, address)

        return cls._open(address, prepared, encoder)

    @classmethod
    def open_as_made(cls, address: Address) -> WeaviateIndex:
        """The library at `address`, whichever encoder made it. Raises as `open` does."""
        return cls._open(address, lambda client: check(client, address))

    @classmethod
    def open_or_make(cls, address: Address, encoder: Callable[[], Encoder]) -> WeaviateIndex:
        """The library at `address`, whichever encoder made it; `encoder` is loaded only where there is none yet."""
        try:
            return cls.open_as_made(address)
        except LibraryMissing:
            made_with = encoder()
            return cls.open(address, made_with.fingerprint, made_with.dimensions, create=True)

    @classmethod
    def _open(
        cls, address: Address, prepared: Callable[[WeaviateClient], tuple[str, int]], encoder: str | None = None
    ) -> WeaviateIndex:
        nodes = _nodes(address)
        try:
            made_with, dimensions = nodes.run(prepared, SCHEMA)
            require(made_with, encoder or made_with, address)
            return cls(nodes, made_with, dimensions)
        except BaseException:
            nodes.close()
            raise

    def search_all(self, searches: Sequence[Search]) -> list[list[Hit]]:
        reader, known = self._reader, self._reader.statistics()
        near = [reader.threads.submit(reader.near, search) for search in searches]
        worded = [reader.threads.submit(reader.with_words, search) for search in searches]
        words = [each.result() for each in worded]
        held = {term for search, found in zip(searches, words, strict=True) for term in _held(search, found)}
        self._weights(known, held)  # counted in one round for all searches
        legs = zip(searches, [each.result() for each in near], words, strict=True)
        fused = [self._fused(*each, known) for each in legs]
        whole = reader.whole(list({one.id for ranking in fused for one in ranking}))
        return [
            self._hits(search, [one for one in ranking if one.id in whole], whole, known)  # one may be deleted by now
            for search, ranking in zip(searches, fused, strict=True)
        ]

    def _fused(
        self, search: Search, near: Sequence[tuple[str, float]], worded: Mapping[str, Words], known: Statistics
    ) -> list[Fused]:
        scored = [(id, score) for id, score in self._lexical(search, worded, known).items() if score > 0]
        lexical = sorted(scored, key=best_first)[: search.depth]
        return fuse_legs(near, lexical, alpha=search.alpha, fusion=search.fusion, k=search.k)

    def _hits(self, search: Search, fused: Sequence[Fused], whole: Mapping[str, Whole], known: Statistics) -> list[Hit]:
        near = cosines([whole[one.id].vector for one in fused], search.vector)
        lexical = self._lexical(search, {one.id: whole[one.id].words for one in fused}, known)
        return [
            Hit(whole[one.id].chunk, cosine, lexical[one.id], one.dense_rank, one.lexical_rank, one.score)
            for one, cosine in zip(fused, near, strict=True)
        ]

    def _lexical(self, search: Search, found: Mapping[str, Words], known: Statistics) -> dict[str, float]:
        weights = self._weights(known, _held(search, found))
        return {id: bm25.score(weights, *words, known.extent, search.title_weight) for id, words in found.items()}

    def replace(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        vectors: NDArray[np.float32] | Sequence[NDArray[np.float32]],
        token_vectors: Sequence[Packed],
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
        if name == document.name:
            self._writer.move(moved(row, document))
            return
        old = self._reader.chunks(row)
        renamed = [replace(chunk, document=document.name) for chunk in old]
        new = [replace(chunk, id=id_of(chunk)) for chunk in renamed]
        self._writer.put(document, new, self._parts(old, new))
        self._writer.delete(name)

    def delete(self, name: str) -> bool:
        return self._writer.delete(name)

    def documents(self) -> list[Document]:
        return self._reader.documents()

    def chunks(self, name: str) -> list[Chunk]:
        row = self._writer.row(name)
        return self._reader.chunks(row) if row is not None else []

    def vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        return self._reader.vectors(ids)

    def token_vectors(self, ids: Sequence[str]) -> dict[str, Packed]:
        return self._reader.token_vectors(ids)

    def inverse_document_frequency(self, terms: Sequence[str]) -> dict[str, float]:
        known = self._reader.statistics()
        having = self._reader.having(known, terms, "title_terms", "text_terms")
        return {term: bm25.idf(known.extent.chunks, having[term]) for term in terms}

    def generation(self) -> int:
        return self._reader.statistics().stamp

    def __len__(self) -> int:
        return self._reader.count()

    def close(self) -> None:
        self._reader.close()
        self._nodes.close()

    def _weights(self, known: Statistics, terms: Collection[str]) -> dict[str, float]:
        """The idf that the score gives each term."""
        title, text = (self._reader.having(known, terms, name) for name in ("title_terms", "text_terms"))
        return {term: bm25.idf(known.extent.chunks, bm25.having(title[term], text[term])) for term in terms}

    def _parts(self, old: Sequence[Chunk], new: Sequence[Chunk]) -> Iterator[Part]:
        """New chunks with the vectors of the old ones, a page at a time."""
        for begin in range(0, len(old), IDS):
            ids = [chunk.id for chunk in old[begin : begin + IDS]]
            vectors, tokens = self.vectors(ids), self.token_vectors(ids)
            for id, chunk in zip(ids, new[begin : begin + IDS], strict=True):
                if id not in vectors or id not in tokens:
                    raise LibraryError(f"The document {chunk.document} was changed meanwhile.", "Try again.")
                yield chunk, vectors[id], tokens[id]


def _held(search: Search, found: Mapping[str, Words]) -> list[str]:
    """The words of the search that any of the chunks has; the others weigh nothing, and need not be counted."""
    held = set().union(*(title + text for title, text in found.values()))
    return [term for term in query_terms(search.text) if term in held]


def remove(address: Address) -> None:
    """Delete a library: its tenant, or its collections. None there is fine. Raises LibraryError."""
    with closing(_nodes(address)) as nodes:
        nodes.run(lambda client: drop(client, address), SCHEMA)


def _nodes(address: Address) -> Nodes:
    return Nodes(address, lambda client: census(library(client, address)))
