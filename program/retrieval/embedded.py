"""The index in a folder: one SQLite file, and beside it the vectors, mapped into memory.

SQLite keeps documents, chunks, token vectors, postings and columns, and every change is one transaction, so a crash
leaves the old state. Many processes and threads may read while one writes, each search in a transaction of its own.
Every commit raises a generation number; a reader that sees a new one reads what changed.

A chunk's key is its row in the file of vectors. Keys of deleted chunks are used again, but only when no reader can see
a state in which they were chunks.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, fields, replace
from functools import cache, partial
from itertools import chain, count
from operator import attrgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from program.errors import EncoderMismatch, FormatMismatch, LibraryError, LibraryMissing
from program.retrieval import postings, snapshot
from program.retrieval.analysis import terms
from program.retrieval.bm25 import idf
from program.retrieval.database import Database, explained
from program.retrieval.embedded_search import CHUNK_COLUMNS, search_all
from program.retrieval.encoders import Encoder
from program.retrieval.index import Document, Index, Search, check_vectors
from program.retrieval.late import Packed, packed_width
from program.retrieval.postings import BLOCK
from program.retrieval.snapshot import KIND, NO_YEAR, Snapshot, generation, number_of, write_columns
from program.retrieval.vector_file import VectorFile
from program.types import Chunk, Hit

FILE = "index.sqlite3"
VECTORS = FILE + "-vectors"
SCHEMA_VERSION = "4"  # raised when the tables change, what `analysis` makes of a text, or what `late` makes of tokens
_values = attrgetter(*(column.name for column in fields(Chunk)))
_SCHEMA = f"""
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE documents (name TEXT PRIMARY KEY, title TEXT, sha256 TEXT, source TEXT, field TEXT, year INTEGER,
    chunks INTEGER, characters INTEGER, path TEXT, stamp TEXT);
CREATE TABLE chunks (key INTEGER PRIMARY KEY, {CHUNK_COLUMNS}, UNIQUE (id));
CREATE INDEX chunks_of_document ON chunks (document);
CREATE TABLE token_vectors (key INTEGER PRIMARY KEY, tokens BLOB NOT NULL);
{postings.SCHEMA};
{snapshot.SCHEMA}
"""


class EmbeddedIndex(Index):
    """An `Index` in a folder."""

    engine = "embedded index"

    def __init__(self, path: Path, encoder: str, dimensions: int) -> None:
        self.location = str(path)
        self.encoder = encoder
        self.dimensions = dimensions
        self._database = Database(path / FILE)
        self._vectors = VectorFile(path / VECTORS, dimensions)
        self._snapshot: Snapshot | None = None
        self._writer = threading.Lock()

    @classmethod
    def open(cls, path: Path, encoder: str, dimensions: int, *, create: bool = False) -> EmbeddedIndex:
        """The index in folder `path`, made with the encoder of that fingerprint.

        Raises LibraryMissing (nothing there, and not `create`), EncoderMismatch, FormatMismatch, LibraryError.
        """
        if not create:
            _existing(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LibraryError(f"The folder {path} cannot be made ({error.strerror}).") from error
        index = cls(path, encoder, dimensions)
        try:
            with index._database.connection() as connection:
                about = _prepare(connection, encoder, dimensions)
            if about.get("schema") != SCHEMA_VERSION:
                raise FormatMismatch(
                    f"The library in {path} has another format.", "Delete the folder and ingest again."
                )
            if about["encoder"] != encoder:
                raise EncoderMismatch(
                    f"The library in {path} was made with the encoder {about['encoder']}, not with {encoder}.",
                    "Set RAG_ENCODER to that encoder, or ingest into another folder with --index.",
                )
        except LibraryError:
            index.close()
            raise
        return index

    @classmethod
    def open_or_make(cls, path: Path, encoder: Callable[[], Encoder]) -> EmbeddedIndex:
        """The index in folder `path`, whichever encoder made it; `encoder` is loaded only where there is none yet.

        Raises LibraryError, and what loading raises.
        """
        if (path / FILE).is_file():
            return cls.open_as_made(path)
        made_with = encoder()
        return cls.open(path, made_with.fingerprint, made_with.dimensions, create=True)

    @classmethod
    def open_as_made(cls, path: Path) -> EmbeddedIndex:
        """The index in folder `path`, whichever encoder made it: to list and to delete, without loading one.

        Raises LibraryMissing, LibraryError.
        """
        file = _existing(path)
        with explained(file), closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            about = dict(connection.execute("SELECT name, value FROM about WHERE name IN ('encoder', 'dimensions')"))
        return cls.open(path, about.get("encoder", ""), int(about.get("dimensions", 0)))

    def search_all(self, searches: Sequence[Search]) -> list[list[Hit]]:
        with self._reading() as (connection, state):
            return search_all(connection, state, searches)

    def replace(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        vectors: NDArray[np.float32] | Sequence[NDArray[np.float32]],
        token_vectors: Sequence[Packed],
    ) -> None:
        if not len(chunks) == len(vectors) == len(token_vectors):
            raise ValueError(f"{len(chunks)} chunks, {len(vectors)} vectors, {len(token_vectors)} token vectors")
        with self._writing() as (connection, free), self._vectors.writing() as write:
            self._delete(connection, document.name)
            _insert_document(connection, replace(document, chunks=len(chunks)))
            each_vector, each_tokens = iter(vectors), iter(token_vectors)
            for begin in range(0, len(chunks), BLOCK):
                part = list(zip(chunks[begin : begin + BLOCK], free, strict=False))
                for (chunk, key), vector, tokens in zip(part, each_vector, each_tokens, strict=False):
                    self._insert_chunk(connection, key, chunk, vector, tokens)
                    write(key, vector)
                _enter(connection, part)

    def rename(self, name: str, document: Document, id_of: Callable[[Chunk], str]) -> None:
        if name == document.name:
            with self._database.transaction("BEGIN IMMEDIATE") as connection:  # no reader need read anything again
                self._take_row(connection, name, document)
            return
        query = f"SELECT key, {CHUNK_COLUMNS} FROM chunks WHERE document = ?"
        with self._writing() as (connection, _):
            self._delete(connection, document.name)
            self._take_row(connection, name, document)
            for key, *columns in connection.execute(query, (name,)).fetchall():
                chunk = replace(Chunk(*columns), document=document.name)
                change = "UPDATE chunks SET id = ?, document = ? WHERE key = ?"
                connection.execute(change, (id_of(chunk), document.name, key))

    def delete(self, name: str) -> bool:
        with self._writing() as (connection, _):
            return self._delete(connection, name)

    def documents(self) -> list[Document]:
        with self._database.transaction() as connection:
            rows = connection.execute("SELECT * FROM documents ORDER BY name").fetchall()
        return [Document(*row) for row in rows]

    def chunks(self, name: str) -> list[Chunk]:
        query = f"SELECT {CHUNK_COLUMNS} FROM chunks WHERE document = ? ORDER BY position, id"
        with self._database.transaction() as connection:
            return [Chunk(*row) for row in connection.execute(query, (name,))]

    def vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        with self._reading() as (connection, state):
            found = ((id, connection.execute("SELECT key FROM chunks WHERE id = ?", (id,)).fetchone()) for id in ids)
            return {id: state.matrix[row[0]].copy() for id, row in found if row}

    def token_vectors(self, ids: Sequence[str]) -> dict[str, Packed]:
        query = "SELECT tokens FROM chunks JOIN token_vectors USING (key) WHERE id = ?"
        with self._database.transaction() as connection:
            found = ((id, connection.execute(query, (id,)).fetchone()) for id in ids)
            width = packed_width(self.dimensions)
            return {id: np.frombuffer(row[0], np.uint8).reshape(-1, width) for id, row in found if row}

    def inverse_document_frequency(self, terms: Sequence[str]) -> dict[str, float]:
        with self._database.transaction() as connection:
            total = _count(connection)
            return {term: idf(total, postings.document_frequency(connection, term)) for term in terms}

    def generation(self) -> int:
        with self._database.transaction() as connection:
            return generation(connection)

    def __len__(self) -> int:
        with self._database.transaction() as connection:
            return _count(connection)

    def close(self) -> None:
        self._snapshot = None
        self._vectors.close()
        self._database.close()

    @contextmanager
    def _reading(self) -> Iterator[tuple[sqlite3.Connection, Snapshot]]:
        """One consistent state, for as long as the body runs: nothing that belongs to it is overwritten before."""
        with self._database.transaction() as connection:
            yield connection, self._current(connection)

    @contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, Iterator[int]]]:
        """All of the body's changes, or none. Gives the keys that new chunks may take, in order."""
        with self._writer:
            with self._reading() as (_, before):
                unused = np.flatnonzero(before.columns[KIND] == 0)
            free = len(unused) > 0 and self._database.no_reader_is_behind()
            with self._database.transaction("BEGIN IMMEDIATE") as connection:
                state = self._current(connection)
                again = unused.tolist() if free and state.generation == before.generation else []
                yield connection, chain(again, count(state.columns.shape[1]))
                connection.execute("UPDATE about SET value = value + 1 WHERE name = 'generation'")

    def _current(self, connection: sqlite3.Connection) -> Snapshot:
        self._snapshot = state = Snapshot.read(connection, self._vectors, self._snapshot)
        return state

    def _take_row(self, connection: sqlite3.Connection, name: str, document: Document) -> None:
        row = connection.execute("SELECT chunks FROM documents WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise LibraryError(f"There is no document {name!r} any more.", "Another process took it out: try again.")
        connection.execute("DELETE FROM documents WHERE name = ?", (name,))
        _insert_document(connection, replace(document, chunks=row[0]))

    def _insert_chunk(
        self,
        connection: sqlite3.Connection,
        key: int,
        chunk: Chunk,
        vector: NDArray[np.float32],
        tokens: Packed,
    ) -> None:
        check_vectors(vector, tokens, self.dimensions)
        columns = _values(chunk)
        connection.execute(f"INSERT INTO chunks VALUES (?, {', '.join('?' * len(columns))})", (key, *columns))
        connection.execute("INSERT INTO token_vectors VALUES (?, ?)", (key, tokens.tobytes()))

    def _delete(self, connection: sqlite3.Connection, name: str) -> bool:
        rows = connection.execute("SELECT key, text, title FROM chunks WHERE document = ?", (name,))
        while part := rows.fetchmany(BLOCK):
            postings.remove(connection, [(key, terms(text), terms(title)) for key, text, title in part])
            write_columns(connection, dict.fromkeys((row[0] for row in part), (0,) * 5))
        of_it = "WHERE key IN (SELECT key FROM chunks WHERE document = ?)"
        connection.execute(f"DELETE FROM token_vectors {of_it}", (name,))
        connection.execute("DELETE FROM chunks WHERE document = ?", (name,))
        return connection.execute("DELETE FROM documents WHERE name = ?", (name,)).rowcount > 0


def _prepare(connection: sqlite3.Connection, encoder: str, dimensions: int) -> dict[str, str]:
    """Make the tables of a new file, and read what the file says about itself."""
    made = "SELECT 1 FROM sqlite_master"
    if not connection.execute(made).fetchone():
        connection.execute("BEGIN IMMEDIATE")
        if not connection.execute(made).fetchone():
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            about = {"schema": SCHEMA_VERSION, "encoder": encoder, "dimensions": str(dimensions), "generation": "0"}
            connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
        connection.execute("COMMIT")
    return dict(connection.execute("SELECT name, value FROM about"))


def _enter(connection: sqlite3.Connection, chunks: Sequence[tuple[Chunk, int]]) -> None:
    """Postings and columns of new chunks."""
    words = [(key, terms(chunk.text), terms(chunk.title)) for chunk, key in chunks]
    postings.add(connection, words)
    number = cache(partial(number_of, connection))
    rows = {}
    for (key, text, title), (chunk, _) in zip(words, chunks, strict=True):
        year = NO_YEAR if chunk.year is None else chunk.year
        rows[key] = (len(text), len(title), number(chunk.kind), number(chunk.field), year)
    write_columns(connection, rows)


def _insert_document(connection: sqlite3.Connection, document: Document) -> None:
    row = astuple(document)
    connection.execute(f"INSERT INTO documents VALUES ({', '.join('?' * len(row))})", row)


def _count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(sum(chunks), 0) FROM documents").fetchone()[0])


def _existing(path: Path) -> Path:
    file = path / FILE
    if not file.is_file():
        hint = "Ingest documents first: python -m program ingest PATH"
        raise LibraryMissing(f"There is no library in {path}.", hint)
    return file
