"""The public question sets, each with an index of its passages that is made once and kept."""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.encoders import Encoder, encode_passages, passage_text
from program.retrieval.index import Document
from program.types import Chunk

DATASETS = Path(__file__).resolve().parent.parent.parent / "shared" / "datasets"
SETS = ("hotpotqa", "2wiki", "scifact", "clapnq", "xquad_zh", "xquad_de")
BATCH = 256  # documents encoded at once


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    text: str
    gold: tuple[str, ...]  # ids of passages


def questions_of(name: str, n: int, seed: int) -> list[Question]:
    """At most n of a set's answerable questions, drawn by `seed`."""
    with (DATASETS / name / "questions.jsonl").open(encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["answerable"]]
    if len(rows) > n:
        rows = random.Random(seed).sample(rows, n)
    return [Question(row["id"], row["question"], tuple(row["gold"])) for row in rows]


def index_of(name: str, encoder: Encoder, cache: Path) -> EmbeddedIndex:
    """A set's passages, one chunk each, as the program indexes them. Passages of one article are one document."""
    place = cache / name
    index = EmbeddedIndex.open(place, encoder.fingerprint, encoder.dimensions, create=True)
    documents = list(_documents(name))
    missing = documents[len(index.documents()) :]  # they are written in order, so that a broken run can be resumed
    for first in track(range(0, len(missing), BATCH), f"Indexing {name}", disable=not missing):
        batch = missing[first : first + BATCH]
        chunks = [chunk for document in batch for chunk in document]
        vectors, tokens = encode_passages(encoder, [passage_text(chunk) for chunk in chunks])
        begin = 0
        for document in batch:
            part = slice(begin, begin := begin + len(document))
            index.replace(Document(document[0].document, document[0].title, ""), document, vectors[part], tokens[part])
    return index


def _documents(name: str) -> Iterator[list[Chunk]]:
    with gzip.open(DATASETS / name / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = sorted(map(json.loads, file), key=_article)
    for article, passages in groupby(rows, _article):
        yield [
            Chunk(row["id"], article, row["title"], row["text"], position=place) for place, row in enumerate(passages)
        ]


def _article(row: dict[str, Any]) -> str:
    """`Super_Bowl_50 #3` is the fourth passage of an article; other ids are of articles of one passage."""
    return str(row["id"]).rsplit(" #", 1)[0]
