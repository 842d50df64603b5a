"""The index in one SQLite file: words in FTS5 (BM25), vectors as blobs that are searched as one matrix in memory.

Both sides change in the same transaction, so they never disagree and a crash leaves the old state. Many processes may
read while one writes (write-ahead log); every commit raises a generation number, and a reader that sees a new one loads
the chunks and vectors again.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from program.errors import EncoderMismatch, FormatMismatch, LibraryError, LibraryMissing
from program.retrieval.analysis import query_terms, terms
from program.retrieval.encoders import Encoder
from program.retrieval.fusion import fuse
from program.retrieval.index import LEG_DEPTH, Document, Filters
from program.retrieval.late import pack, packed_width
from program.types import Chunk, Fusion, Hit

FILE = "index.sqlite3"
SCHEMA_VERSION = "4"  # raised when the tables change, what `analysis` makes of a text, or what `late` makes of tokens
#: Rarest terms of a long question that are searched: BM25 gets nearly all of its sum from them, in less time.
MAX_TERMS = 32
#: Seconds to wait for another process that is writing: some 100,000 passages.
PATIENCE = 120.0
#: Bytes left on the disk of the log of a large write.
LOG_BYTES = 64 * 1024**2

_CHUNK_COLUMNS = ", ".join(f'"{column.name}"' for column in fields(Chunk))
_SCHEMA = f"""
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE documents (name TEXT PRIMARY KEY, title TEXT, sha256 TEXT, source TEXT, field TEXT, year INTEGER,
    chunks INTEGER, characters INTEGER, path TEXT, stamp TEXT);
CREATE TABLE chunks (key INTEGER PRIMARY KEY, {_CHUNK_COLUMNS}, UNIQUE (id));
CREATE INDEX chunks_of_document ON chunks (document);
CREATE TABLE vectors (key INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE token_vectors (key INTEGER PRIMARY KEY, tokens BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (title, text, tokenize = "ascii tokenchars '.'");
CREATE VIRTUAL TABLE vocabulary USING fts5vocab (words, row);
"""


class EmbeddedIndex:
    """An `Index` in a folder. One connection, used by one thread at a time; the matrix is searched outside the lock."""

    def __init__(self, path: Path, connection: sqlite3.Connection, encoder: str, dimensions: int) -> None:
        self.location = str(path)
        self.encoder = encoder
        self._dimensions = dimensions
        self._connection = connection
        self._lock = threading.RLock()
        self._snapshot: _Snapshot | None = None

    @classmethod
    def open(cls, path: Path, encoder: str, dimensions: int, *, create: bool = False) -> EmbeddedIndex:
        """The index in folder `path`, made with the encoder of that fingerprint.

        Raises LibraryMissing (nothing there, and not `create`), EncoderMismatch, FormatMismatch, LibraryError.
        """
        file = path / FILE if create else _existing(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LibraryError(f"The folder {path} cannot be made ({error.strerror}).") from error
        with _explained(file):
            connection = sqlite3.connect(file, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
                about = _prepare(connection, encoder, dimensions)
            except sqlite3.Error:
                connection.close()
                raise
        if about.get("schema") != SCHEMA_VERSION:
            connection.close()
            raise FormatMismatch(f"The library in {path} has another format.", "Delete the folder and ingest again.")
        if about["encoder"] != encoder:
            connection.close()
            raise EncoderMismatch(
                f"The library in {path} was made with the encoder {about['encoder']}, not with {encoder}.",
                "Set RAG_ENCODER to that encoder, or ingest into another folder with --index.",
            )
        return cls(path, connection, encoder, dimensions)

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
        with _explained(file), closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            about = dict(connection.execute("SELECT name, value FROM about WHERE name IN ('encoder', 'dimensions')"))
        return cls.open(path, about.get("encoder", ""), int(about.get("dimensions", 0)))

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
        snapshot, lexical = self._lexical_scores(text, title_weight)
        dense = snapshot.matrix @ vector
        rows = snapshot.rows(filters or Filters())
        depth = max(k, LEG_DEPTH)

        def leg(best: NDArray[np.intp]) -> list[Hit]:
            return [Hit(snapshot.chunks[row], float(dense[row]), float(lexical[row])) for row in best]

        dense_leg = leg(_best(dense, rows, depth))
        lexical_leg = leg(_best(lexical, rows[lexical[rows] > 0], depth))
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
        with self._writing() as connection:
            self._delete(connection, document.name)
            _insert_document(connection, replace(document, chunks=len(chunks)))
            for chunk, vector, tokens in zip(chunks, vectors, token_vectors, strict=True):
                self._insert_chunk(connection, chunk, vector, tokens)

    def rename(self, name: str, document: Document, id_of: Callable[[Chunk], str]) -> None:
        if name == document.name:
            with self._transaction("BEGIN IMMEDIATE") as connection:  # no reader need load anything again
                self._take_row(connection, name, document)
            return
        query = f"SELECT key, {_CHUNK_COLUMNS} FROM chunks WHERE document = ?"
        with self._writing() as connection:
            self._delete(connection, document.name)
            self._take_row(connection, name, document)
            for key, *columns in connection.execute(query, (name,)).fetchall():
                chunk = replace(Chunk(*columns), document=document.name)
                change = "UPDATE chunks SET id = ?, document = ? WHERE key = ?"
                connection.execute(change, (id_of(chunk), document.name, key))

    def delete(self, name: str) -> bool:
        with self._writing() as connection:
            return self._delete(connection, name)

    def documents(self) -> list[Document]:
        with self._reading() as connection:
            rows = connection.execute("SELECT * FROM documents ORDER BY name").fetchall()
        return [Document(*row) for row in rows]

    def vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        snapshot = self._current()
        return {id: snapshot.matrix[snapshot.row_of[id]] for id in ids if id in snapshot.row_of}

    def token_vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.uint8]]:
        query = "SELECT tokens FROM chunks JOIN token_vectors USING (key) WHERE id = ?"
        with self._reading() as connection:
            found = ((id, connection.execute(query, (id,)).fetchone()) for id in ids)
            width = packed_width(self._dimensions)
            return {id: np.frombuffer(row[0], np.uint8).reshape(-1, width) for id, row in found if row}

    def inverse_document_frequency(self, terms: Sequence[str]) -> dict[str, float]:
        with self._reading() as connection:
            total = connection.execute("SELECT count(*) FROM chunks").fetchone()[0]
            return {term: _idf(total, _document_frequency(connection, term)) for term in terms}

    def __len__(self) -> int:
        with self._reading() as connection:
            return int(connection.execute("SELECT count(*) FROM chunks").fetchone()[0])

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent state of the file, for as long as the body runs."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """All of the body's changes, or none."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection
            connection.execute("UPDATE about SET value = value + 1 WHERE name = 'generation'")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, _explained(Path(self.location) / FILE):
            self._connection.execute(begin)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.rollback()
                raise

    def _take_row(self, connection: sqlite3.Connection, name: str, document: Document) -> None:
        row = connection.execute("SELECT chunks FROM documents WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise LibraryError(f"There is no document {name!r} any more.", "Another process took it out: try again.")
        connection.execute("DELETE FROM documents WHERE name = ?", (name,))
        _insert_document(connection, replace(document, chunks=row[0]))

    def _insert_chunk(
        self, connection: sqlite3.Connection, chunk: Chunk, vector: NDArray[np.float32], tokens: NDArray[np.int8]
    ) -> None:
        width = (self._dimensions,)
        if vector.shape != width or tokens.shape[1:] != width or not np.isfinite(vector).all():
            raise ValueError(f"vectors {vector.shape} and {tokens.shape} of another width, or not finite")
        columns = astuple(chunk)
        marks = ", ".join("?" * len(columns))
        key = connection.execute(f"INSERT INTO chunks ({_CHUNK_COLUMNS}) VALUES ({marks})", columns).lastrowid
        connection.execute("INSERT INTO vectors VALUES (?, ?)", (key, _bytes(vector, np.float32)))
        connection.execute("INSERT INTO token_vectors VALUES (?, ?)", (key, _bytes(pack(tokens), np.uint8)))
        words = " ".join(terms(chunk.title)), " ".join(terms(chunk.text))
        connection.execute("INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)", (key, *words))

    def _delete(self, connection: sqlite3.Connection, name: str) -> bool:
        keys = [(key,) for (key,) in connection.execute("SELECT key FROM chunks WHERE document = ?", (name,))]
        connection.executemany("DELETE FROM words WHERE rowid = ?", keys)
        for table in ("vectors", "token_vectors", "chunks"):
            connection.executemany(f"DELETE FROM {table} WHERE key = ?", keys)
        return connection.execute("DELETE FROM documents WHERE name = ?", (name,)).rowcount > 0

    def _current(self) -> _Snapshot:
        with self._reading() as connection:
            return self._load(connection)

    def _load(self, connection: sqlite3.Connection) -> _Snapshot:
        generation = int(connection.execute("SELECT value FROM about WHERE name = 'generation'").fetchone()[0])
        if self._snapshot is None or self._snapshot.generation != generation:
            self._snapshot = _Snapshot.read(connection, generation, self._dimensions)
        return self._snapshot

    def _lexical_scores(self, text: str, title_weight: float) -> tuple[_Snapshot, NDArray[np.float32]]:
        """BM25 of every chunk, 0 where no word matches: float32 [chunks], in the snapshot's order."""
        with self._reading() as connection:
            snapshot = self._load(connection)
            known = snapshot.lexical.get((text, title_weight))
            if known is not None:
                return snapshot, known
            match = _match(connection, text)
            query = "SELECT rowid, -bm25(words, ?, 1.0) FROM words WHERE words MATCH ?"
            found = connection.execute(query, (title_weight, match)).fetchall() if match else []
        scores = np.zeros(len(snapshot.chunks), np.float32)
        if found:
            keys, values = zip(*found, strict=True)
            scores[snapshot.place[list(keys)]] = values
        _remember(snapshot.lexical, (text, title_weight), scores)
        return snapshot, scores


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The chunks of one generation, by id (so that a stable sort breaks ties by id), and their vectors."""

    generation: int
    chunks: list[Chunk]
    matrix: NDArray[np.float32]
    row_of: dict[str, int]
    place: NDArray[np.intp]  # key in the file to row
    lexical: dict[tuple[str, float], NDArray[np.float32]] = field(default_factory=dict)
    passing: dict[Filters, NDArray[np.intp]] = field(default_factory=dict)

    @classmethod
    def read(cls, connection: sqlite3.Connection, generation: int, dimensions: int) -> _Snapshot:
        columns = f"SELECT key, vector, {_CHUNK_COLUMNS} FROM chunks JOIN vectors USING (key) ORDER BY id"
        rows = connection.execute(columns).fetchall()
        chunks = [Chunk(*row[2:]) for row in rows]
        matrix = np.frombuffer(b"".join(row[1] for row in rows), np.float32).reshape(len(rows), dimensions)
        place = np.zeros(max((row[0] for row in rows), default=0) + 1, np.intp)
        for position, row in enumerate(rows):
            place[row[0]] = position
        return cls(generation, chunks, matrix, {chunk.id: row for row, chunk in enumerate(chunks)}, place)

    def rows(self, filters: Filters) -> NDArray[np.intp]:
        """The rows that pass; worked out once for each kind of filter."""
        known = self.passing.get(filters)
        if known is None:
            wanted = {name: value for name in Filters.__slots__ if (value := getattr(filters, name)) is not None}
            passes = (all(getattr(chunk, name) == value for name, value in wanted.items()) for chunk in self.chunks)
            known = np.flatnonzero(np.fromiter(passes, np.bool_, len(self.chunks)))
            _remember(self.passing, filters, known)
        return known


def _prepare(connection: sqlite3.Connection, encoder: str, dimensions: int) -> dict[str, str]:
    """Make the tables of a new file, and read what the file says about itself."""
    connection.execute("BEGIN IMMEDIATE")
    if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        about = {"schema": SCHEMA_VERSION, "encoder": encoder, "dimensions": str(dimensions), "generation": "0"}
        connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
    found = dict(connection.execute("SELECT name, value FROM about"))
    connection.execute("COMMIT")
    return found


def _insert_document(connection: sqlite3.Connection, document: Document) -> None:
    row = astuple(document)
    connection.execute(f"INSERT INTO documents VALUES ({', '.join('?' * len(row))})", row)


def _existing(path: Path) -> Path:
    file = path / FILE
    if not file.is_file():
        hint = "Ingest documents first: python -m program ingest PATH"
        raise LibraryMissing(f"There is no library in {path}.", hint)
    return file


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        hint = "Check that the folder can be written and the disk is not full, and that nothing else holds it."
        raise LibraryError(f"The library {file} cannot be used ({error}).", hint) from error
    except sqlite3.Error as error:
        hint = "Delete the folder and ingest again, or choose another with --index."
        raise LibraryError(f"The library {file} is damaged ({error}).", hint) from error


def _match(connection: sqlite3.Connection, text: str) -> str:
    """The FTS5 expression for any word of the text, each quoted, so that none is read as syntax; "" without words."""
    wanted = query_terms(text)
    if len(wanted) > MAX_TERMS:
        frequency = {term: _document_frequency(connection, term) for term in wanted}
        wanted = sorted((term for term in wanted if frequency[term]), key=lambda term: frequency[term])[:MAX_TERMS]
    return " OR ".join(f'"{term}"' for term in wanted)


def _document_frequency(connection: sqlite3.Connection, term: str) -> int:
    row = connection.execute("SELECT doc FROM vocabulary WHERE term = ?", (term,)).fetchone()
    return int(row[0]) if row else 0


def _idf(total: int, having: int) -> float:
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


def _remember(known: dict[Any, Any], key: object, value: object) -> None:
    """Keep a few results: a question asks for the same ones several times in a row, then never again."""
    if len(known) >= 32:
        known.clear()
    known[key] = value


def _best(scores: NDArray[np.float32], rows: NDArray[np.intp], k: int) -> NDArray[np.intp]:
    """The k rows of highest score, best first, ties by row."""
    if len(rows) > k:
        rows = rows[scores[rows] >= np.partition(scores[rows], -k)[-k]]
    return rows[np.argsort(-scores[rows], kind="stable")][:k]


def _bytes(array: NDArray[Any], dtype: type) -> bytes:
    return np.ascontiguousarray(array, dtype).tobytes()
