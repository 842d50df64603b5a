"""Retrieval: encoders, the index and its engine, fusion, ranking, and the retriever that uses them all."""

from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.encoders import Encoder, load_encoder, passage_text
from program.retrieval.index import Document, Filters, Index
from program.retrieval.rerankers import Reranker, load_reranker
from program.retrieval.retriever import Candidates, Pool, Retrieval, Retriever, rank_pools, replay

__all__ = [
    "Candidates",
    "Document",
    "EmbeddedIndex",
    "Encoder",
    "Filters",
    "Index",
    "Pool",
    "Reranker",
    "Retrieval",
    "Retriever",
    "load_encoder",
    "load_reranker",
    "passage_text",
    "rank_pools",
    "replay",
]
