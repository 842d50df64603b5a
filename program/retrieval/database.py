"""The SQLite file of the embedded index: a connection for each thread that needs one, transactions, errors in words.

Readers go on while one process writes (write-ahead log), and see one state from beginning to end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from program.errors import LibraryError

#: Seconds to wait for another process that is writing: some 100,000 passages.
PATIENCE = 120.0
#: Bytes left on the disk of the log of a large write.
LOG_BYTES = 64 * 1024**2
#: KiB of pages that a connection keeps.
CACHE = 32 * 1024


class Database:
    """All methods may be called from any thread, and raise LibraryError."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._idle: list[sqlite3.Connection] = []  # connections that no thread is using
        self._closed = False

    @contextmanager
    def transaction(self, begin: str = "BEGIN") -> Iterator[sqlite3.Connection]:
        """All of the body's changes, or none; one state for all that it reads. BEGIN IMMEDIATE: to write."""
        with self.connection() as connection:
            connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection that no other thread uses meanwhile; errors in its use are LibraryError."""
        if self._closed:
            raise LibraryError(f"The library {self._file} is closed.")
        with explained(self._file):
            connection = self._idle.pop() if self._idle else self._connect()
            try:
                yield connection
            finally:
                if self._closed:
                    connection.close()
                else:
                    self._idle.append(connection)

    def no_reader_is_behind(self) -> bool:
        """Whether every transaction under way, in whatever process, sees what had been committed before this call.

        SQLite moves its log into the file up to where the oldest reader stands; if it could move all, none is behind.
        """
        with self.connection() as connection:
            busy, logged, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return not busy and logged == moved

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._file, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
            connection.execute(f"PRAGMA cache_size = -{CACHE}")
        except sqlite3.Error:
            connection.close()
            raise
        return connection


@contextmanager
def explained(file: Path) -> Iterator[None]:
    """SQLite's errors as LibraryError that says what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        hint = "Check that the folder can be written and the disk is not full, and that nothing else holds it."
        raise LibraryError(f"The library {file} cannot be used ({error}).", hint) from error
    except sqlite3.Error as error:
        hint = "Delete the folder and ingest again, or choose another with --index."
        raise LibraryError(f"The library {file} is damaged ({error}).", hint) from error
