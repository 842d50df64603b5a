"""From queries to ranked hits: search, join, rank, cut, merge.

Searching and reading features cost time and are done once; everything after is pure. The optimizer takes `candidates`
once for each question and `replay`s any search parameters over them, with the result `pools` would have given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from program.params import Params, SearchParams
from program.retrieval.analysis import query_terms, terms
from program.retrieval.encoders import Encoder, Vectors, passage_text
from program.retrieval.fusion import fuse, reciprocal_rank_fusion
from program.retrieval.index import LEG_DEPTH, Filters, Index, Search
from program.retrieval.late import Tokens, late_interaction
from program.retrieval.links import Titles, links
from program.retrieval.rank import Features, merge, select, signals
from program.retrieval.rerankers import Reranker
from program.types import Chunk, ChunkKind, Fusion, Hit, Query

#: First hits whose links are followed, and the most documents that are followed to.
FOLLOWED, MOST_NAMED = 3, 8


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates for one text a person would have asked: hits in fused order, with their signals.

    signals: float32 [hits, len(SIGNALS)]. note: not empty when the cross-encoder failed on this pool; the fused order
    then stands.
    """

    against: str
    hits: tuple[Hit, ...]
    signals: NDArray[np.float32]
    with_cross_encoder: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What one retrieval came to. pools: all candidates. ranked: for each pool, the hits that cleared their bar, best
    first. hits: `ranked` merged in turn, each chunk once. notes: what the reader of the answer should know."""

    pools: tuple[Pool, ...]
    ranked: tuple[tuple[Hit, ...], ...]
    hits: tuple[Hit, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Legs:
    """The two legs of one query for some of the chunks, LEG_DEPTH deep."""

    filters: Filters
    dense: tuple[Hit, ...]
    lexical: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Candidates:
    """All that `replay` needs of some queries: their legs, and by `against` the links' hits and all hits' features."""

    queries: tuple[Query, ...]
    legs: tuple[tuple[Legs, ...], ...]
    followed: Mapping[str, Sequence[Hit]]
    features: Mapping[str, Mapping[str, Features]]


class Retriever:
    """Searches one index with one encoder, and ranks with a cross-encoder where there is one."""

    def __init__(self, index: Index, encoder: Encoder, reranker: Reranker | None = None) -> None:
        self.index = index
        self.encoder = encoder
        self.reranker = reranker
        self._known_titles: tuple[int, Titles] | None = None

    @property
    def ranker(self) -> str:
        """What ranks, in words: the cross-encoder's name, or `late interaction`."""
        return self.reranker.name if self.reranker else "late interaction"

    def retrieve(self, queries: Sequence[Query], search: SearchParams, params: Params) -> Retrieval:
        """Search all queries, rank each pool, cut by the bars, and merge. Raises LibraryError."""
        return rank_pools(self.pools(queries, search, params), params)

    def pools(self, queries: Sequence[Query], search: SearchParams, params: Params) -> list[Pool]:
        """Unranked candidates, one pool for each distinct `against`, in order. Raises LibraryError."""
        queries = [query for query in queries if _is_searched(query, search)]
        if not queries:
            return []
        encoded = self._encode(queries)
        takes = _takes(search, params)
        searches = [
            _search_for(query, encoded, k, search.alpha, search.fusion, filters, params)
            for query in queries
            for filters, k in takes
        ]
        found, followed = self._search_and_follow(searches, queries, encoded, params)
        rankings = [found[begin : begin + len(takes)] for begin in range(0, len(found), len(takes))]
        joined = _join(queries, rankings, followed, params.rrf_k)
        features = self._features(joined, encoded)
        return [_pool(against, hits, features[against]) for against, hits in joined.items()]

    def candidates(self, queries: Sequence[Query], params: Params) -> Candidates:
        """What `replay` needs to give the pools of these queries under any search parameters.

        Of `params`, only `title_weight` and `pinned` count: they change the legs themselves. Raises LibraryError.
        """
        encoded = self._encode(queries)
        each = [filters for filters, _ in _takes(SearchParams(), params)]
        searches = [
            _search_for(query, encoded, LEG_DEPTH, alpha, "ranked", filters, params)
            for query in queries
            for filters in each
            for alpha in (1.0, 0.0)
        ]
        found, followed = self._search_and_follow(searches, queries, encoded, params)
        pairs = iter(zip(found[::2], found[1::2], strict=True))
        legs = tuple(tuple(Legs(filters, *map(tuple, next(pairs))) for filters in each) for _ in queries)
        hits: dict[str, dict[str, Hit]] = {}
        for query, pair in zip(queries, legs, strict=True):
            pool = hits.setdefault(query.against, {})
            pool.update({hit.chunk.id: hit for leg in pair for hit in (*leg.dense, *leg.lexical)})
        for against, pool in hits.items():
            for hit in followed[against]:
                pool.setdefault(hit.chunk.id, hit)
        features = self._features({against: list(pool.values()) for against, pool in hits.items()}, encoded)
        return Candidates(tuple(queries), legs, followed, features)

    def _search_and_follow(
        self, searches: Sequence[Search], queries: Sequence[Query], encoded: _Encoded, params: Params
    ) -> tuple[list[list[Hit]], dict[str, list[Hit]]]:
        """What the searches find, and by `against` what is followed from it: the best hit of each document that the
        first hits for that text name, since a second hop's passage may share no word with the question. What is
        followed does not depend on the searches, so that a replay finds the same."""
        texts = list(dict.fromkeys(query.against for query in queries))

        def of(against: str, k: int, filters: Filters) -> Search:
            return _search_for(Query(against, against), encoded, k, 0.5, "ranked", filters, params)

        found = self.index.search_all([*searches, *(of(text, FOLLOWED, Filters()) for text in texts)])
        firsts = [[hit.chunk for hit in first] for first in found[len(searches) :]]
        titles = self._titles()
        places = [
            (text, Filters(document=name))
            for text, first in zip(texts, firsts, strict=True)
            for name in _named(first, titles)
        ]
        followed: dict[str, list[Hit]] = {text: [] for text in texts}
        bests = self.index.search_all([of(text, 1, place) for text, place in places]) if places else []
        for (text, _), best in zip(places, bests, strict=True):
            followed[text] += [replace(hit, dense_rank=0, lexical_rank=0, fused=0.0) for hit in best]
        return found[: len(searches)], followed

    def _titles(self) -> Titles:
        """The documents' titles, read again when the library has changed."""
        generation = self.index.generation()
        if self._known_titles is None or self._known_titles[0] != generation:
            documents = self.index.documents()
            self._known_titles = generation, Titles((document.name, document.title) for document in documents)
        return self._known_titles[1]

    def _encode(self, queries: Sequence[Query]) -> _Encoded:
        """Vector and token vectors of every text that is searched or ranked against, in one batch."""
        texts = list(dict.fromkeys(text for query in queries for text in (query.dense or query.text, query.against)))
        vectors, tokens = self.encoder.encode_with_tokens(texts)
        return {text: (vectors[row], tokens[row]) for row, text in enumerate(texts)}

    def _features(self, pools: Mapping[str, Sequence[Hit]], encoded: _Encoded) -> dict[str, dict[str, Features]]:
        """By `against` and chunk id. pools: the hits to rank against each text."""
        ids = list({hit.chunk.id for hits in pools.values() for hit in hits})
        vectors, tokens = self.index.vectors(ids), self.index.token_vectors(ids)
        words = {hit.chunk.id: terms(hit.chunk.text) for hits in pools.values() for hit in hits}
        asked = {against: query_terms(against) for against in pools}
        idf = self.index.inverse_document_frequency(list({term for of in asked.values() for term in of}))

        def features(against: str, hits: Sequence[Hit]) -> dict[str, Features]:
            vector, token_vectors = encoded[against]
            mass = {term: idf[term] for term in asked[against]}
            of_hits = {hit.chunk.id: tokens[hit.chunk.id] for hit in hits if hit.chunk.id in tokens}
            late = late_interaction(token_vectors, of_hits)
            named = set(Titles((hit.chunk.id, hit.chunk.title) for hit in hits).named_in(terms(against)))
            names = links([hit.chunk for hit in hits], words)
            texts = [passage_text(hit.chunk) for hit in hits]
            logits = self.reranker.logits(against, texts) if self.reranker else None
            found = {}
            for row, hit in enumerate(hits):
                id, title = hit.chunk.id, set(terms(hit.chunk.title))
                found[id] = Features(
                    late_interaction=late.get(id, 0.0),
                    dense=float(vectors[id] @ vector) if id in vectors else hit.dense,
                    covered=_shares(mass, title.union(words[id])),
                    title=sum(_shares(mass, title).values()),
                    named=id in named,
                    names=names[id],
                    cross_encoder=None if logits is None else float(logits[row]),
                )
            return found

        return {against: features(against, hits) for against, hits in pools.items()}


def replay(candidates: Candidates, search: SearchParams, params: Params) -> list[Pool]:
    """The pools that `Retriever.pools` gives for the same queries, from their candidates. Pure."""
    sizes = dict(_takes(search, params))
    rankings = [
        [
            fuse(legs.dense, legs.lexical, alpha=search.alpha, fusion=search.fusion, k=sizes[legs.filters])
            for legs in pair
            if legs.filters in sizes
        ]
        for query, pair in zip(candidates.queries, candidates.legs, strict=True)
        if _is_searched(query, search)
    ]
    queries = [query for query in candidates.queries if _is_searched(query, search)]
    joined = _join(queries, rankings, candidates.followed, params.rrf_k)
    return [_pool(against, hits, candidates.features[against]) for against, hits in joined.items()]


def rank_pools(pools: Sequence[Pool], params: Params) -> Retrieval:
    """Rank each pool, cut by the bars, and merge. Pure."""
    ranked = [select(pool.hits, pool.signals, params, pool.with_cross_encoder, reorder=not pool.note) for pool in pools]
    notes = tuple(dict.fromkeys(pool.note for pool in pools if pool.note))
    return Retrieval(tuple(pools), tuple(tuple(hits) for hits in ranked), tuple(merge(ranked, params)), notes)


_Encoded = dict[str, tuple[Vectors, Tokens]]


def _is_searched(query: Query, search: SearchParams) -> bool:
    return search.question or not query.itself


def _takes(search: SearchParams, params: Params) -> list[tuple[Filters, int]]:
    """How many hits one query takes, of which chunks: passages, abstracts, and the best of each pinned document."""
    kinds: list[tuple[ChunkKind, int]] = [("passage", search.passages), ("abstract", search.abstracts)]
    takes = [(Filters(kind=kind), size) for kind, size in kinds if size]
    return takes + [(Filters(document=name), 1) for name in params.pinned]


def _search_for(
    query: Query, encoded: _Encoded, k: int, alpha: float, fusion: Fusion, filters: Filters, params: Params
) -> Search:
    vector = encoded[query.dense or query.text][0]
    return Search(query.text, vector, k, alpha, fusion, filters, params.title_weight)


def _named(first: Sequence[Chunk], titles: Titles) -> list[str]:
    """The documents that chunks name, in order; at most MOST_NAMED, and none of the chunks' own."""
    named = dict.fromkeys(name for chunk in first for name in titles.named_in(terms(chunk.text)))
    return [name for name in named if name not in {chunk.document for chunk in first}][:MOST_NAMED]


def _join(
    queries: Sequence[Query],
    rankings: Sequence[Sequence[Sequence[Hit]]],
    followed: Mapping[str, Sequence[Hit]],
    rrf_k: int,
) -> dict[str, list[Hit]]:
    """Hits in fused order, by `against`; after them those that were followed and not found."""
    by_against: dict[str, list[Sequence[Hit]]] = {}
    for query, found in zip(queries, rankings, strict=True):
        by_against.setdefault(query.against, []).extend(found)
    joined = {}
    for against, found in by_against.items():
        hits = {hit.chunk.id: hit for hit in reciprocal_rank_fusion(found, rrf_k)}
        for hit in followed[against]:
            hits.setdefault(hit.chunk.id, hit)
        joined[against] = list(hits.values())
    return joined


def _pool(against: str, hits: Sequence[Hit], features: Mapping[str, Features]) -> Pool:
    logits = [features[hit.chunk.id].cross_encoder for hit in hits]
    present = [logit for logit in logits if logit is not None]
    usable = bool(present) and bool(np.isfinite(present).all()) and (len(set(present)) > 1 or len(present) == 1)
    note = "The cross-encoder gave no usable scores; hits keep their search order." if present and not usable else ""
    return Pool(against, tuple(hits), signals(hits, features, usable), usable, note)


def _shares(mass: Mapping[str, float], found: set[str]) -> dict[str, float]:
    """The found terms that carry idf mass, with their shares of all of it."""
    total = sum(mass.values())
    return {term: value / total for term, value in mass.items() if term in found} if total > 0 else {}
