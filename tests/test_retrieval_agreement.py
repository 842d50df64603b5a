"""Given the same chunks and vectors, both engines find the same: the demo library's articles, labelled questions."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from program.ingest import ingest
from program.library import Folder, library_for_writing
from program.migrate import copy
from program.retrieval.index import Filters, Index
from program.settings import ROOT, Settings
from program.types import Hit
from tests.fakes import HashEncoder

ENCODER = HashEncoder()
QUERIES = 500


@pytest.fixture(scope="module")
def engines(weaviate: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Index, Index]]:
    """Every fifth article, in a folder and on a server."""
    articles = sorted((ROOT / "data" / "corpus").glob("*.md"))[::5]
    name = f"Agreement_{uuid.uuid4().hex}"
    server = library_for_writing(weaviate.model_copy(update={"weaviate_collection": name}))
    folder = Folder(tmp_path_factory.mktemp("agreement"))
    try:
        with (
            closing(folder.open(ENCODER, create=True)) as embedded,
            closing(server.open(ENCODER, create=True)) as remote,
        ):
            ingest(articles, embedded, ENCODER)
            copy(embedded, remote, 0, lambda *_: None)
            assert len(embedded) == len(remote) > 200
            yield embedded, remote
    finally:
        server.remove()


def questions() -> list[str]:
    files = (ROOT / "data" / "labeled" / name for name in ("qa.jsonl", "routing.jsonl"))
    lines = (line for file in files for line in file.read_text("utf-8").splitlines())
    return [json.loads(line)["question"] for line in lines][:QUERIES]


def test_the_same_ten_best_for_nearly_all_questions(engines: tuple[Index, Index]):
    """Ways to ask in turn. What may differ: the last places, where the two cut a leg among equals."""
    asked = questions()
    assert len(asked) == QUERIES
    same = 0
    for place, question in enumerate(asked):
        vector = ENCODER.encode([question])[0]
        alpha, weight = (0.0, 0.3, 0.5, 0.7, 1.0)[place % 5], (1.0, 2.0)[place % 2]
        found: list[list[Hit]] = [
            index.search(
                question,
                vector,
                k=10,
                alpha=alpha,
                fusion="relative" if place % 3 else "ranked",
                filters=Filters(kind="passage") if place % 2 else None,
                title_weight=weight,
            )
            for index in engines
        ]
        for hit, other in zip(*found, strict=False):
            if hit.chunk == other.chunk:
                assert (hit.dense, hit.lexical) == pytest.approx((other.dense, other.lexical), abs=1e-4)
        same += [hit.chunk.id for hit in found[0]] == [hit.chunk.id for hit in found[1]]
    assert same >= 0.95 * QUERIES


def test_ranking_reads_the_same_signals(engines: tuple[Index, Index]):
    words = ["transformer", "attention", "the", "gpt3", "absent"]
    known, other = (index.inverse_document_frequency(words) for index in engines)
    assert known == pytest.approx(other)
