"""Hybrid searches over one state of the embedded index, all of a question's at once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain

from program.retrieval.analysis import query_terms
from program.retrieval.fusion import Fused, fuse_legs
from program.retrieval.index import Search
from program.retrieval.snapshot import Keys, Snapshot, best
from program.retrieval.vector_file import Scores
from program.types import Chunk, Hit

CHUNK_COLUMNS = ", ".join(f'"{column.name}"' for column in fields(Chunk))


def search_all(connection: sqlite3.Connection, state: Snapshot, searches: Sequence[Search]) -> list[list[Hit]]:
    """`Index.search_all`, inside the transaction that `state` is of."""
    scanning = state.dense([search.vector for search in searches])
    lexical = [state.lexical(connection, query_terms(one.text), one.title_weight) for one in searches]
    passing = [state.passing(connection, search.filters) for search in searches]
    found = [_Found(*each) for each in zip(searches, passing, scanning(), lexical, strict=True)]
    ids = dict(_select(connection, "id", chain.from_iterable((*each.near, *each.worded) for each in found)))
    key_of = {id: key for key, id in ids.items()}
    fused = [each.fused(ids) for each in found]
    wanted = {key_of[one.id] for ranking in fused for one in ranking}
    chunks = {key: Chunk(*columns) for key, *columns in _select(connection, CHUNK_COLUMNS, wanted)}
    return [
        [each.hit(one, key_of[one.id], chunks[key_of[one.id]]) for one in ranking]
        for each, ranking in zip(found, fused, strict=True)
    ]


class _Found:
    """What one search finds. dense, lexical: cosine and BM25 of every key; near, worded: the keys of the two legs, and
    those that tie with the last of them."""

    def __init__(self, search: Search, keys: Keys, dense: Scores, lexical: Scores) -> None:
        self._search, self._dense, self._lexical = search, dense, lexical
        self.near = best(dense, keys, search.depth).tolist()
        self.worded = best(lexical, keys[lexical[keys] > 0], search.depth).tolist()

    def fused(self, ids: Mapping[int, str]) -> list[Fused]:
        search = self._search
        legs = _leg(self.near, self._dense, ids), _leg(self.worded, self._lexical, ids)
        dense, lexical = (leg[: search.depth] for leg in legs)
        return fuse_legs(dense, lexical, alpha=search.alpha, fusion=search.fusion, k=search.k)

    def hit(self, one: Fused, key: int, chunk: Chunk) -> Hit:
        scores = float(self._dense[key]), float(self._lexical[key])
        return Hit(chunk, *scores, one.dense_rank, one.lexical_rank, one.score)


def _leg(keys: list[int], scores: Scores, ids: Mapping[int, str]) -> list[tuple[str, float]]:
    """Ids and scores of keys, best first, ties by id."""
    falling = zip((-scores[keys]).tolist(), [ids[key] for key in keys], strict=True)
    return [(id, -score) for score, id in sorted(falling)]


def _select(connection: sqlite3.Connection, columns: str, keys: Iterable[int]) -> sqlite3.Cursor:
    """Keys and columns of some chunks, each once."""
    query = f"SELECT key, {columns} FROM chunks WHERE key IN (SELECT value FROM json_each(?))"
    return connection.execute(query, (json.dumps(list(keys)),))
