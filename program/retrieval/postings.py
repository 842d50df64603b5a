"""Which chunks have which terms: lists of entries in SQLite, one for each term and block of chunks, and BM25 over them.

A chunk's key gives its block, so that adding or taking out a chunk rewrites one short list for each of its terms, and
nothing else. An entry is three int32: key, occurrences in the text, occurrences in the title.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from program.retrieval.bm25 import K1, B, having, idf

#: Chunks in a block: bounds the bytes of a list that are rewritten (12 KB), and the lists that a query reads.
BLOCK = 1024
SCHEMA = """
CREATE TABLE postings (term TEXT, block INTEGER, entries BLOB NOT NULL, PRIMARY KEY (term, block)) WITHOUT ROWID
"""

#: A chunk's key, the terms of its text and those of its title.
Words = tuple[int, Sequence[str], Sequence[str]]
Entries = NDArray[np.int32]


def add(connection: sqlite3.Connection, chunks: Iterable[Words]) -> None:
    """Enter chunks that have no entries yet. Meant for some thousand at a time: their entries are held in memory."""
    lists: defaultdict[tuple[str, int], array[int]] = defaultdict(lambda: array("i"))
    for key, text, title in chunks:
        block, in_title = key // BLOCK, Counter(title)
        for term, occurrences in Counter(text).items():
            lists[term, block].extend((key, occurrences, in_title.pop(term, 0)))
        for term, occurrences in in_title.items():
            lists[term, block].extend((key, 0, occurrences))
    connection.executemany(
        "INSERT INTO postings VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET entries = CAST(entries || excluded.entries AS BLOB)",
        ((term, block, lists[term, block].tobytes()) for term, block in sorted(lists)),
    )


def remove(connection: sqlite3.Connection, chunks: Iterable[Words]) -> None:
    """Take out the entries of chunks, given with the terms they were entered with."""
    lists: set[tuple[str, int]] = set()
    gone: defaultdict[int, NDArray[np.bool_]] = defaultdict(lambda: np.zeros(BLOCK, np.bool_))
    for key, text, title in chunks:
        lists.update((term, key // BLOCK) for term in (*text, *title))
        gone[key // BLOCK][key % BLOCK] = True
    for place in sorted(lists):
        row = connection.execute("SELECT entries FROM postings WHERE term = ? AND block = ?", place).fetchone()
        entries = _entries(row or (b"",))
        kept = entries[~gone[place[1]][entries[:, 0] % BLOCK]]
        if len(kept):
            connection.execute("UPDATE postings SET entries = ? WHERE term = ? AND block = ?", (kept.tobytes(), *place))
        else:
            connection.execute("DELETE FROM postings WHERE term = ? AND block = ?", place)


def document_frequency(connection: sqlite3.Connection, term: str) -> int:
    """How many chunks have the term, in their text or their title."""
    query = "SELECT coalesce(sum(length(entries)), 0) FROM postings WHERE term = ?"
    return int(connection.execute(query, (term,)).fetchone()[0]) // (3 * np.dtype(np.int32).itemsize)


def length_norm(lengths: NDArray[np.int32]) -> NDArray[np.float64]:
    """k1 (1 - b + b length / mean), the mean over the chunks that have any terms there. lengths: [chunks], in terms."""
    filled = lengths[lengths > 0]
    return np.asarray(K1 * (1 - B + B * lengths / (filled.mean() if len(filled) else 1.0)))


def bm25(
    connection: sqlite3.Connection,
    terms: Sequence[str],
    total: int,
    text_norm: NDArray[np.float64],
    title_norm: NDArray[np.float64],
    title_weight: float,
) -> NDArray[np.float32]:
    """BM25 of every chunk, by key, 0 where no term matches; norms: `length_norm`, [keys]; total: chunks in the index.

    It is the score that `program.retrieval.bm25` states, over all chunks at once.
    """
    query = "SELECT entries FROM postings WHERE term = ? ORDER BY block"
    lists = [_entries(row[0] for row in connection.execute(query, (term,))) for term in terms]
    entries = np.concatenate([_entries(()), *lists])
    weights = np.repeat([_idf(total, found) for found in lists], [len(found) for found in lists])
    keys = entries[:, 0]
    scores = weights * _saturated(entries[:, 1], text_norm[keys])
    titled = np.flatnonzero(entries[:, 2])
    scores[titled] += title_weight * weights[titled] * _saturated(entries[titled, 2], title_norm[keys[titled]])
    return np.bincount(keys, scores, minlength=len(text_norm)).astype(np.float32)


def _idf(total: int, entries: Entries) -> float:
    in_texts, in_titles = (int(np.count_nonzero(entries[:, column])) for column in (1, 2))
    return idf(total, having(in_titles, in_texts))


def _saturated(occurrences: NDArray[np.int32], norm: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(occurrences / (occurrences + norm))


def _entries(stored: Iterable[bytes]) -> Entries:
    return np.frombuffer(b"".join(stored), np.int32).reshape(-1, 3)
