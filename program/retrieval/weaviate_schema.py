"""What a library looks like on a Weaviate server: three collections, and how chunks and documents become objects.

NAME            the chunks, with their vectors. Their terms, made by `analysis`, are what is searched; the verbatim text
                is kept unindexed. The collection's description holds format, encoder and width of the vectors.
NAME_Tokens     the chunks' token vectors, apart, because a search reads whole objects and these are large.
NAME_Documents  the documents, and the ledger, whose stamp changes with every write.

Every writing of a document is a version with objects of its own, so that old and new ones never mix.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from program.errors import EncoderMismatch, FormatMismatch, LibraryError, LibraryMissing
from program.retrieval.analysis import terms
from program.retrieval.bm25 import K1, B, Extent
from program.retrieval.index import Document
from program.retrieval.late import Packed, packed_width
from program.retrieval.weaviate_nodes import Address
from program.types import Chunk

if TYPE_CHECKING:
    from weaviate import WeaviateClient
    from weaviate.collections import Collection

#: Raised when the collections change, or what `analysis` makes of a text.
FORMAT = 1
TOKENS, DOCUMENTS = "_Tokens", "_Documents"
_SPACE = uuid.UUID("5b0e0f4e-6f3c-5c52-9d58-0c8b7a3f5d11")
#: `id` is Weaviate's own word.
_CHUNK = {"id": "chunk"}
_CHUNK_FIELDS = [_CHUNK.get(column.name, column.name) for column in fields(Chunk)]
CHUNK_PROPERTIES = [*_CHUNK_FIELDS, "title_terms", "text_terms"]


@dataclass(frozen=True, slots=True)
class Row:
    """A document as it is kept. version: of its chunks, "" while there is none. leaving: a version whose chunks are to
    be deleted, or may be there in part: of a write that is under way, or never ended."""

    document: Document
    version: str = ""
    leaving: str = ""
    extent: Extent = field(default_factory=Extent)


@dataclass(frozen=True, slots=True)
class Library:
    """The three collections of one library, or one tenant's part of them."""

    chunks: Collection[Any, Any]
    tokens: Collection[Any, Any]
    documents: Collection[Any, Any]


def library(client: WeaviateClient, address: Address, level: Literal["ONE", "QUORUM", "ALL"] = "ONE") -> Library:
    """Handles; nothing is asked. level: how many replicas must agree on what is read or written."""
    from weaviate.classes.config import ConsistencyLevel

    handles = []
    for name in _names(address):
        handle = client.collections.get(name)
        handles.append(
            (handle.with_tenant(address.tenant) if address.tenant else handle).with_consistency_level(
                ConsistencyLevel(level)
            )
        )
    return Library(*handles)


def make(client: WeaviateClient, address: Address, encoder: str, dimensions: int) -> None:
    """Make the collections, and the tenant, as far as they are not there."""
    from weaviate.classes.config import Configure, ReplicationDeletionStrategy, VectorDistances
    from weaviate.classes.tenants import Tenant
    from weaviate.exceptions import UnexpectedStatusCodeError

    about = {"program": "adaptive-rag", "format": FORMAT, "encoder": encoder, "dimensions": dimensions}
    hnsw = Configure.VectorIndex.hnsw(distance_metric=VectorDistances.COSINE)
    tenants = bool(address.tenant)
    chunks, tokens, documents = _names(address)
    # The chunks last: where they are, all is.
    for name, properties in ((tokens, _token_properties()), (documents, _row_properties()), (chunks, _properties())):
        if client.collections.exists(name):
            continue
        try:
            client.collections.create(
                name,
                description=json.dumps(about),
                properties=properties,
                vector_config=Configure.Vectors.self_provided(vector_index_config=hnsw),
                inverted_index_config=Configure.inverted_index(bm25_b=B, bm25_k1=K1, stopwords_preset=_no_stop_words()),
                multi_tenancy_config=Configure.multi_tenancy(tenants, auto_tenant_activation=tenants),
                replication_config=Configure.replication(
                    len(address.endpoints), deletion_strategy=ReplicationDeletionStrategy.TIME_BASED_RESOLUTION
                ),
            )
        except UnexpectedStatusCodeError:
            if not client.collections.exists(name):  # else another process made it in this moment
                raise
    if address.tenant and _settings(client, address)[1]:
        for name in (tokens, documents, chunks):
            client.collections.get(name).tenants.create(Tenant(name=address.tenant))


def check(client: WeaviateClient, address: Address) -> tuple[str, int]:
    """The encoder and the width of the vectors of the library that is there.

    Raises LibraryMissing, FormatMismatch, LibraryError for a tenant where there are none, or none where there are.
    """
    missing = LibraryMissing(f"There is no library {address}.", "Ingest documents first: python -m program ingest PATH")
    if not client.collections.exists(address.collection):
        raise missing
    about, tenants = _settings(client, address)
    if about.get("format") != FORMAT:
        raise FormatMismatch(
            f"The library {address} has another format.",
            "Delete its collections and ingest again, or set RAG_WEAVIATE_COLLECTION to another name.",
        )
    if tenants != bool(address.tenant):
        has = "is divided into tenants" if tenants else "is not divided into tenants"
        raise LibraryError(
            f"The collection {address.collection} {has}.", "Set RAG_WEAVIATE_TENANT accordingly, or another collection."
        )
    if address.tenant and address.tenant not in client.collections.get(address.collection).tenants.get():
        raise missing
    return about["encoder"], int(about["dimensions"])


def require(encoder: str, wanted: str, address: Address) -> None:
    """Raises EncoderMismatch when the library was made with another encoder."""
    if encoder != wanted:
        raise EncoderMismatch(
            f"The library {address} was made with the encoder {encoder}, not with {wanted}.",
            "Set RAG_ENCODER to that encoder, or RAG_WEAVIATE_COLLECTION to another name.",
        )


def drop(client: WeaviateClient, address: Address) -> None:
    """Delete the tenant with all that is in it; without one, the collections."""
    for name in reversed(_names(address)):
        if not address.tenant:
            client.collections.delete(name)
        elif client.collections.exists(name):
            client.collections.get(name).tenants.remove([address.tenant])


def mark(*contents: str) -> int:
    """A number drawn by what an object holds. Few enough that the server adds them up quickly: it goes through the
    different ones."""
    return int.from_bytes(hashlib.sha256("/".join(contents).encode("utf-8", "replace")).digest()[:8], "big") % 2**14


def object_id(version: str, attempt: int, chunk: Chunk) -> uuid.UUID:
    return uuid.uuid5(_SPACE, f"{version}/{attempt}/{chunk.id}")


def row_id(name: str) -> uuid.UUID:
    return uuid.uuid5(_SPACE, f"document/{name}")


LEDGER = uuid.uuid5(_SPACE, "ledger")


def from_chunk(chunk: Chunk, version: str) -> dict[str, Any]:
    words = {"title_terms": " ".join(terms(chunk.title)), "text_terms": " ".join(terms(chunk.text))}
    values = zip(_CHUNK_FIELDS, astuple(chunk), strict=True)
    state = {"version": version, "mark": mark(version, chunk.id)}
    return {name: value for name, value in values if value is not None} | words | state


def to_chunk(properties: Mapping[str, Any]) -> Chunk:
    values = {column.name: properties.get(of) for column, of in zip(fields(Chunk), _CHUNK_FIELDS, strict=True)}
    return Chunk(**{name: value for name, value in values.items() if value is not None})


def from_tokens(chunk: Chunk, version: str, tokens: Packed) -> dict[str, Any]:
    # Text, not a blob, whose every byte the server would check against a pattern: eight times the time.
    packed = base64.b64encode(tokens.tobytes()).decode()
    state = {"version": version, "mark": mark(version, chunk.id)}
    return {"chunk": chunk.id, "document": chunk.document, "tokens": packed} | state


def to_tokens(properties: Mapping[str, Any], dimensions: int) -> Packed:
    return np.frombuffer(base64.b64decode(properties["tokens"] or ""), np.uint8).reshape(-1, packed_width(dimensions))


def from_row(row: Row) -> dict[str, Any]:
    values = asdict(row.document) | {f"sum_{name}": value for name, value in asdict(row.extent).items()}
    state = {"version": row.version, "leaving": row.leaving, "unsettled": bool(row.leaving), "kept": bool(row.version)}
    state["mark"] = mark(json.dumps(values | state))
    return {name: value for name, value in values.items() if value is not None} | state


def to_row(properties: Mapping[str, Any]) -> Row:
    known = {name: value for name, value in properties.items() if value is not None}
    document = {column.name: known[column.name] for column in fields(Document) if column.name in known}
    extent = {column.name: int(known.get(f"sum_{column.name}", 0)) for column in fields(Extent)}
    version = known.get("version", "")
    return Row(Document(**{"title": "", "sha256": ""} | document), version, known.get("leaving", ""), Extent(**extent))


def moved(row: Row, document: Document) -> Row:
    """The row of the same chunks under what is now known of their file."""
    return replace(row, document=replace(document, chunks=row.document.chunks))


def _names(address: Address) -> tuple[str, str, str]:
    return address.collection, address.collection + TOKENS, address.collection + DOCUMENTS


def _settings(client: WeaviateClient, address: Address) -> tuple[dict[str, Any], bool]:
    """What the collection's description says, and whether it is divided into tenants."""
    config = client.collections.get(address.collection).config.get(simple=True)
    try:
        about = json.loads(config.description or "")
    except ValueError:
        about = None
    ours = isinstance(about, dict) and about.get("program") == "adaptive-rag"
    tenants = client.collections.get(address.collection).config.get().multi_tenancy_config.enabled
    return about if ours else {}, bool(tenants)


def _no_stop_words() -> Any:
    from weaviate.classes.config import StopwordsPreset

    return StopwordsPreset.NONE  # analysis and query_terms decide


def _properties() -> list[Any]:
    from weaviate.classes.config import DataType, Property, Tokenization

    numbers = {"page", "start", "end", "position", "year", "mark"}
    searched = {"title_terms", "text_terms"}
    names = {"chunk", "document", "kind", "field", "version"}

    def of(name: str) -> Any:
        if name in numbers:
            return Property(name=name, data_type=DataType.INT, index_filterable=name in ("year", "position", "mark"))
        if name in searched:
            return Property(name=name, data_type=DataType.TEXT, tokenization=Tokenization.WHITESPACE)
        return _name(name) if name in names else _verbatim(name)

    return [of(name) for name in (*CHUNK_PROPERTIES, "version", "mark")]


def _token_properties() -> list[Any]:
    from weaviate.classes.config import DataType, Property

    mark = Property(name="mark", data_type=DataType.INT)
    return [_name("chunk"), _name("document"), _name("version"), _verbatim("tokens"), mark]


def _row_properties() -> list[Any]:
    from weaviate.classes.config import DataType, Property

    numbers = ["year", "chunks", "characters", "stamped", "mark", *(f"sum_{column.name}" for column in fields(Extent))]
    texts = [column.name for column in fields(Document) if column.name not in numbers]
    return [
        *(Property(name=name, data_type=DataType.INT) for name in numbers),
        *(_verbatim(name) for name in (*texts, "version", "leaving")),
        *(Property(name=name, data_type=DataType.BOOL) for name in ("unsettled", "kept")),
    ]


def _name(name: str) -> Any:
    """Text that is only ever compared as a whole."""
    from weaviate.classes.config import DataType, Property, Tokenization

    return Property(name=name, data_type=DataType.TEXT, tokenization=Tokenization.FIELD, index_searchable=False)


def _verbatim(name: str) -> Any:
    """Text that is kept, and searched by nothing."""
    from weaviate.classes.config import DataType, Property

    return Property(name=name, data_type=DataType.TEXT, index_filterable=False, index_searchable=False)
