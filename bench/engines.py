"""Which engine keeps the embedded index? SQLite FTS5, LanceDB and bm25s on the same passages, vectors and questions.

    python bench/engines.py [--passages 14000] [--questions 100]

Reads ../shared/datasets. Vectors are random: the engines are timed here, not the retrieval. Times are medians in
milliseconds; `ratio` is to bm25s and numpy in memory, the least that a hybrid query can cost. `same` is the share of
the first ten hits that it has in common with them. `lines` counts our code for the engine, and what it lacks of the
index contract is said beside it. An engine that is not installed is left out.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import inspect
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from program.retrieval import embedded
from program.retrieval.analysis import query_terms, terms
from program.retrieval.index import Document
from program.types import Chunk

DATASETS = Path(__file__).resolve().parent.parent.parent / "shared" / "datasets"
SETS = ("hotpotqa", "2wiki", "scifact", "clapnq")
DIMENSIONS = 384
K = 25
COLUMNS = (
    "engine", "build", "open + first", "query", "p95", "ratio", "add one", "query after", "MB", "same", "lines",
    "lacks",
)  # fmt: skip


class Sqlite:
    """FTS5 for words, one matrix in memory for vectors: the index this program uses."""

    name = "SQLite FTS5 + numpy"
    needs: ClassVar[list[str]] = []
    lacks = "nothing"
    source = embedded

    def __init__(self, folder: Path) -> None:
        self.index = embedded.EmbeddedIndex.open(folder, "random", DIMENSIONS, create=True)

    def build(self, chunks: list[Chunk], vectors: np.ndarray) -> None:
        for begin in range(0, len(chunks), 500):
            self.add(chunks[begin : begin + 500], vectors[begin : begin + 500])

    def add(self, chunks: list[Chunk], vectors: np.ndarray) -> None:
        tokens = [np.zeros((0, DIMENSIONS), np.int8)] * len(chunks)
        self.index.replace(Document(chunks[0].document, "", ""), chunks, vectors, tokens)

    def search(self, text: str, vector: np.ndarray) -> list[str]:
        hits = self.index.search(text, vector, k=K, alpha=0.5, fusion="ranked")
        return [hit.chunk.id for hit in hits]


class Lance:
    """LanceDB: its own full-text index, exact vector search, its own reciprocal rank fusion."""

    name = "LanceDB"
    needs: ClassVar[list[str]] = ["lancedb"]
    lacks = "alpha, both scores of a hit, one step for words and vectors (words are indexed later)"

    def __init__(self, folder: Path) -> None:
        import lancedb
        from lancedb.rerankers import RRFReranker

        self.database = lancedb.connect(folder)
        self.fuse = RRFReranker()
        if "chunks" in self.database.list_tables().tables:
            self.table = self.database.open_table("chunks")

    def build(self, chunks: list[Chunk], vectors: np.ndarray) -> None:
        from lancedb.index import FTS

        self.table = self.database.create_table("chunks", self._rows(chunks, vectors))
        words = FTS(base_tokenizer="whitespace", stem=False, remove_stop_words=False)
        self.table.create_index("words", config=words)

    def add(self, chunks: list[Chunk], vectors: np.ndarray) -> None:
        self.table.delete(f"document = '{chunks[0].document}'")
        self.table.add(self._rows(chunks, vectors))
        self.table.optimize()

    def search(self, text: str, vector: np.ndarray) -> list[str]:
        query = self.table.search(query_type="hybrid").vector(vector).text(" ".join(query_terms(text)))
        return [row["id"] for row in query.rerank(self.fuse).limit(K).to_list()]

    def _rows(self, chunks: list[Chunk], vectors: np.ndarray) -> list[dict[str, Any]]:
        return [
            {"id": c.id, "document": c.document, "words": " ".join(terms(f"{c.title} {c.text}")), "vector": vector}
            for c, vector in zip(chunks, vectors, strict=True)
        ]


class Bm25s:
    """bm25s and a matrix, both in memory and saved whole: the floor."""

    name = "bm25s + numpy"
    needs: ClassVar[list[str]] = ["bm25s"]
    lacks = "adding without indexing all again, atomic writes, readers beside a writer, title weight, filters"

    def __init__(self, folder: Path) -> None:
        import bm25s

        self.folder, self.library = folder, bm25s
        if (folder / "vectors.npy").exists():
            self.vectors = np.load(folder / "vectors.npy")
            self.words = json.loads((folder / "words.json").read_text())
            self.ids = json.loads((folder / "ids.json").read_text())
            self.retriever = bm25s.BM25.load(folder / "bm25", load_corpus=False)

    def build(self, chunks: list[Chunk], vectors: np.ndarray) -> None:
        self.ids, self.words, self.vectors = [], [], np.zeros((0, DIMENSIONS), np.float32)
        self.add(chunks, vectors)

    def add(self, chunks: list[Chunk], vectors: np.ndarray) -> None:
        self.ids += [chunk.id for chunk in chunks]
        self.words += [terms(f"{chunk.title} {chunk.text}") for chunk in chunks]
        self.vectors = np.concatenate([self.vectors, vectors])
        self.retriever = self.library.BM25(k1=1.2, b=0.75)
        self.retriever.index(self.words, show_progress=False)
        self.retriever.save(self.folder / "bm25", show_progress=False)
        np.save(self.folder / "vectors.npy", self.vectors)
        (self.folder / "words.json").write_text(json.dumps(self.words))
        (self.folder / "ids.json").write_text(json.dumps(self.ids))

    def search(self, text: str, vector: np.ndarray) -> list[str]:
        known = [term for term in query_terms(text) if term in self.retriever.vocab_dict]
        lexical = self.retriever.get_scores(known) if known else np.zeros(len(self.ids), np.float32)
        dense = self.vectors @ vector
        fused = np.zeros(len(self.ids))
        for scores in (dense, lexical):
            best = np.argpartition(-scores, min(100, len(scores) - 1))[:100]
            best = best[np.argsort(-scores[best], kind="stable")]
            fused[best] += 0.5 / (60 + np.arange(1, len(best) + 1)) * (scores[best] > 0)
        return [self.ids[row] for row in np.argsort(-fused, kind="stable")[:K]]


def passages(most: int) -> tuple[list[Chunk], list[str]]:
    chunks: list[Chunk] = []
    questions: list[str] = []
    for name in SETS:
        with gzip.open(DATASETS / name / "corpus.jsonl.gz", "rt") as file:
            for place, row in enumerate(map(json.loads, file)):
                chunks.append(Chunk(f"{name}/{row['id']}", f"{name}-{place // 64}", row["title"], row["text"]))
        with (DATASETS / name / "questions.jsonl").open() as file:
            questions += [json.loads(line)["question"] for line in file][:100]
    chunks = chunks[:most]
    return chunks, questions[::4] + questions[1::4]


def milliseconds(call: Callable[..., object], *values: Any) -> float:
    begun = time.perf_counter()
    call(*values)
    return (time.perf_counter() - begun) * 1000


def lines_of(code: Any) -> int:
    return sum(1 for line in inspect.getsource(code).splitlines() if line.strip() and not line.strip().startswith("#"))


def measure(
    engine: Any, chunks: list[Chunk], vectors: np.ndarray, asked: list[tuple[str, np.ndarray]]
) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="engines-"))
    try:
        build = milliseconds(engine(folder).build, chunks, vectors)
        begun = time.perf_counter()
        opened = engine(folder)
        opened.search(*asked[0])
        first = (time.perf_counter() - begun) * 1000
        times = [milliseconds(opened.search, *question) for question in asked]
        new = [[Chunk(f"new{place}", f"new{place}", "New", "zeppelin")] for place in range(3)]
        added = [milliseconds(opened.add, chunk, vectors[:1]) for chunk in new]
        again = milliseconds(opened.search, *asked[0])
        found = [opened.search(*question) for question in asked]
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
        return {
            "build": build, "first": first, "query": statistics.median(times), "slow": float(np.percentile(times, 95)),
            "add": statistics.median(added), "again": again, "size": size, "found": found,
        }  # fmt: skip
    finally:
        shutil.rmtree(folder)


def table(rows: Iterable[tuple[Any, dict[str, Any]]]) -> Table:
    rows = list(rows)
    floor = next((row for engine, row in rows if engine is Bm25s), None)
    shown = Table(title="ms, median")
    for column in COLUMNS:
        shown.add_column(column, justify="left" if column in ("engine", "lacks") else "right")
    for engine, row in rows:
        ratio = f"{row['query'] / floor['query']:.1f}" if floor else ""
        same = f"{overlap(row['found'], floor['found']):.0%}" if floor else ""
        times = [f"{row[name]:.1f}" for name in ("build", "first", "query", "slow")]
        after = [f"{row['add']:.1f}", f"{row['again']:.1f}", f"{row['size']:.0f}"]
        lines = str(lines_of(getattr(engine, "source", engine)))
        shown.add_row(engine.name, *times, ratio, *after, same, lines, engine.lacks)
    return shown


def overlap(found: list[list[str]], other: list[list[str]]) -> float:
    """Mean share of the first ten of one that are in the first ten of the other."""
    return statistics.mean(len(set(a[:10]) & set(b[:10])) / 10 for a, b in zip(found, other, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", type=int, default=14000)
    parser.add_argument("--questions", type=int, default=100)
    wanted = parser.parse_args()
    if not DATASETS.is_dir():
        sys.exit(f"The data sets are not in {DATASETS}.")
    chunks, questions = passages(wanted.passages)
    generator = np.random.default_rng(1)
    vectors = generator.standard_normal((len(chunks) + wanted.questions, DIMENSIONS)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = list(zip(questions[: wanted.questions], vectors[len(chunks) :], strict=False))
    print(f"{len(chunks)} passages, {len(asked)} questions", file=sys.stderr)
    rows = []
    for engine in (Sqlite, Lance, Bm25s):
        if all(importlib.util.find_spec(package) for package in engine.needs):
            print(f"{engine.name} ...", file=sys.stderr)
            rows.append((engine, measure(engine, chunks, vectors[: len(chunks)], asked)))
        else:
            print(f"{engine.name}: {', '.join(engine.needs)} is not installed, left out", file=sys.stderr)
    Console(width=160).print(table(rows))


if __name__ == "__main__":
    main()
