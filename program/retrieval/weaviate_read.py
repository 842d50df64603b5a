"""Reading from a Weaviate library: the two legs, what the lexical score needs to know, and by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from program.retrieval import bm25
from program.retrieval.analysis import query_terms
from program.retrieval.index import Document, Filters, Search
from program.retrieval.late import Packed
from program.retrieval.weaviate_nodes import Nodes
from program.retrieval.weaviate_schema import (
    CHUNK_PROPERTIES,
    LEDGER,
    Library,
    Row,
    library,
    to_chunk,
    to_row,
    to_tokens,
)
from program.types import Chunk, ChunkKind

#: Ids in one request, documents in one page, positions in one page of a document's chunks.
IDS, PAGE, POSITIONS = 500, 1000, 1000
#: Candidates of the lexical leg for each hit it keeps, since Weaviate's own order is near ours, not the same; and how
#: many a server gives at most, as it is set up by default.
DEEPER, MOST = 3, 10_000
#: Words whose counts are kept.
MOST_WORDS = 100_000
#: Requests under way at once for one search.
AT_ONCE = 8

#: The terms of a chunk's title, and of its text.
Words = tuple[list[str], list[str]]


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the lexical score needs to know of a library, as of one write. having: of a term, the chunks that have it in
    any of the properties, by (their names, term)."""

    stamp: int
    extent: bm25.Extent
    having: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Whole:
    """A chunk with its vector, and the terms of its title and its text."""

    chunk: Chunk
    vector: NDArray[np.float32]
    words: Words


class Reader:
    """Reads one library from whichever node is in use; by several threads."""

    def __init__(self, nodes: Nodes, dimensions: int) -> None:
        self._nodes = nodes
        self._dimensions = dimensions
        self._known = Statistics(-1, bm25.Extent())
        self.threads = ThreadPoolExecutor(AT_ONCE, "weaviate-search")

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)

    def near(self, search: Search) -> list[tuple[str, float]]:
        """The dense leg: ids and cosines of the chunks of highest cosine, best first, ties by id."""
        if search.alpha <= 0:
            return []
        more: dict[str, Any] = {
            "limit": min(search.depth, MOST),
            "filters": _filter(search.filters),
            "include_vector": True,
            "return_properties": ["chunk"],
        }
        found = self._read(lambda rows: rows.chunks.query.near_vector(search.vector.tolist(), **more)).objects
        ids, vectors = [item.properties["chunk"] for item in found], [_vector(item) for item in found]
        return sorted(dict(zip(ids, cosines(vectors, search.vector), strict=True)).items(), key=best_first)

    def with_words(self, search: Search) -> dict[str, Words]:
        """Candidates of the lexical leg, those of highest BM25 by Weaviate's reckoning: id to their terms."""
        terms = query_terms(search.text)
        if search.alpha >= 1 or not terms:
            return {}
        title = [f"title_terms^{search.title_weight:.6f}"] if search.title_weight > 0 else []
        more: dict[str, Any] = {
            "query_properties": ["text_terms", *title],
            "limit": min(search.depth * DEEPER, MOST),
            "filters": _filter(search.filters),
            "return_properties": ["chunk", "title_terms", "text_terms"],
        }
        found = self._read(lambda rows: rows.chunks.query.bm25(" ".join(terms), **more)).objects
        return {item.properties["chunk"]: _words(item) for item in found}

    def whole(self, ids: Sequence[str]) -> dict[str, Whole]:
        """All that a search tells of some chunks; unknown ids are left out."""
        more: dict[str, Any] = {"return_properties": CHUNK_PROPERTIES, "include_vector": True}
        found: dict[str, Whole] = {}
        for which in _by_ids(ids):
            page = self._page("chunks", which, 2 * IDS, more)
            found |= {
                item.properties["chunk"]: Whole(to_chunk(item.properties), _vector(item), _words(item)) for item in page
            }
        return found

    def statistics(self) -> Statistics:
        """As of the last write that has come to the node."""
        stamp = self._read(stamp_of)
        known = self._known
        if known.stamp != stamp:
            known = Statistics(stamp, self._read(_extent))
            self._known = known
        return known

    def having(self, known: Statistics, terms: Collection[str], *properties: str) -> dict[str, int]:
        """How many chunks have each term in any of the properties."""
        from weaviate.classes.query import Filter

        def count(term: str) -> int:
            which = Filter.any_of([Filter.by_property(name).equal(term) for name in properties])
            return (
                self._read(lambda rows: rows.chunks.aggregate.over_all(filters=which, total_count=True)).total_count
                or 0
            )

        name = " ".join(properties)
        counted = {term: known.having.get((name, term)) for term in terms}
        missing = [term for term, chunks in counted.items() if chunks is None]
        new = dict(zip(missing, self.threads.map(count, missing), strict=True))
        if len(known.having) > MOST_WORDS:
            known.having.clear()
        known.having.update({(name, term): chunks for term, chunks in new.items()})
        return {term: new[term] if chunks is None else chunks for term, chunks in counted.items()}

    def count(self) -> int:
        """Chunks that are there, of all documents, in whatever state."""
        return int(self._read(lambda rows: rows.chunks.aggregate.over_all(total_count=True)).total_count or 0)

    def documents(self) -> list[Document]:
        """All that are committed, by name."""
        found: list[Document] = []
        page = self._read(lambda rows: rows.documents.query.fetch_objects(limit=PAGE)).objects
        while page:
            found += [to_row(item.properties).document for item in page if item.properties.get("kept")]
            last = page[-1].uuid
            page = self._after(last) if len(page) == PAGE else []
        return sorted(found, key=lambda document: document.name)

    def chunks(self, row: Row) -> list[Chunk]:
        """The chunks of a document, by position."""
        from weaviate.classes.query import Filter

        of_it = Filter.by_property("document").equal(row.document.name)
        of_it = of_it & Filter.by_property("version").equal(row.version)
        found: list[Chunk] = []
        for begin in range(0, row.extent.chunks, POSITIONS):
            place = Filter.by_property("position")
            page = of_it & place.greater_or_equal(begin) & place.less_than(begin + POSITIONS)
            objects = self._page("chunks", page, 10 * POSITIONS, {"return_properties": CHUNK_PROPERTIES})
            found += [to_chunk(item.properties) for item in objects]
        return sorted(found, key=lambda chunk: (chunk.position, chunk.id))

    def vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        more: dict[str, Any] = {"return_properties": ["chunk"], "include_vector": True}
        pages = (self._page("chunks", which, 2 * IDS, more) for which in _by_ids(ids))
        return {item.properties["chunk"]: _vector(item) for page in pages for item in page}

    def token_vectors(self, ids: Sequence[str]) -> dict[str, Packed]:
        more: dict[str, Any] = {"return_properties": ["chunk", "tokens"]}
        pages = (self._page("tokens", which, 2 * IDS, more) for which in _by_ids(ids))
        return {
            item.properties["chunk"]: to_tokens(item.properties, self._dimensions) for page in pages for item in page
        }

    def _page(self, name: str, which: Any, limit: int, more: dict[str, Any]) -> list[Any]:
        found = self._read(lambda rows: getattr(rows, name).query.fetch_objects(filters=which, limit=limit, **more))
        return list(found.objects)

    def _after(self, last: Any) -> list[Any]:
        return list(self._read(lambda rows: rows.documents.query.fetch_objects(limit=PAGE, after=last)).objects)

    def _read(self, work: Callable[[Library], Any]) -> Any:
        return self._nodes.run(lambda client: work(library(client, self._nodes.address)))


def census(rows: Library) -> tuple[int, ...]:
    """The last write a node knows of, and what it has: one that was away is behind in some of them. What it has is
    counted and added up: while it catches up, the count may be right before the contents are."""
    from weaviate.classes.query import Metrics
    from weaviate.exceptions import WeaviateQueryError

    try:
        found = [stamp_of(rows)]
    except WeaviateQueryError as error:
        if "could not find class" in str(error):  # without asking the cluster's leader, who may just have died
            return ()
        raise
    for handle in (rows.documents, rows.chunks, rows.tokens):
        total = handle.aggregate.over_all(total_count=True, return_metrics=Metrics("mark").integer(sum_=True))
        found += [total.total_count or 0, int(getattr(total.properties.get("mark"), "sum_", 0) or 0)]
    return tuple(found)


def stamp_of(rows: Library) -> int:
    """When the library last changed, in nanoseconds, by the writer's clock."""
    ledger = rows.documents.query.fetch_object_by_id(LEDGER, return_properties=["stamped"])
    return int(ledger.properties["stamped"]) if ledger else 0


def _extent(rows: Library) -> bm25.Extent:
    from weaviate.classes.query import Metrics

    names = [f"sum_{column.name}" for column in fields(bm25.Extent)]
    sums = rows.documents.aggregate.over_all(return_metrics=[Metrics(name).integer(sum_=True) for name in names])
    return bm25.Extent(*(int(getattr(sums.properties.get(name), "sum_", 0) or 0) for name in names))


def cosines(vectors: Sequence[NDArray[np.float32]], vector: NDArray[np.float32]) -> list[float]:
    """Of unit vectors with a unit vector."""
    # In double precision, so that equal vectors have equal cosines and ties break by id.
    matrix = np.array(vectors, np.float64).reshape(-1, len(vector))
    return [float(cosine) for cosine in (matrix @ vector.astype(np.float64)).astype(np.float32)]


def _filter(filters: Filters) -> Any:
    """One that all pass where there is none to apply: with a filter, Weaviate's search among vectors is exact as long
    as no more than 40,000 pass; without, it walks its graph."""
    from weaviate.classes.query import Filter

    wanted = {name: value for name in Filters.__slots__ if (value := getattr(filters, name)) is not None}
    parts = [Filter.by_property(name).equal(value) for name, value in wanted.items()]
    return Filter.all_of(parts or [Filter.by_property("kind").contains_any(list(get_args(ChunkKind)))])


def _by_ids(ids: Sequence[str]) -> Iterator[Any]:
    from weaviate.classes.query import Filter

    for begin in range(0, len(ids), IDS):
        yield Filter.by_property("chunk").contains_any(list(ids[begin : begin + IDS]))


def _vector(item: Any) -> NDArray[np.float32]:
    return np.array(item.vector["default"], np.float32)


def _words(item: Any) -> Words:
    title, text = ((item.properties.get(name) or "").split() for name in ("title_terms", "text_terms"))
    return title, text


def best_first(one: tuple[str, float]) -> tuple[float, str]:
    return -one[1], one[0]
