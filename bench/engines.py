"""What the embedded index costs, against the least that a hybrid query can cost, in one run on the same texts.

    python bench/engines.py [--passages 25000 250000] [--questions 100] [--weaviate [URL]]

Reads ../shared/datasets; past their 13,832 passages, passages are sentences of theirs mixed anew. Vectors are random:
engines are timed here, not retrieval. Times are medians in milliseconds, taken in turns with the floor's.

floor: bm25s (its own `retrieve`, everything in memory) and the k best of a float32 matrix times a vector. It keeps no
scores of a hit, no ties, no titles apart, and cannot add. rank-bm25 stands for what a plain library gives.

Other libraries could keep the index, and none with less code of ours. SQLite's FTS5 scores over one length for all
columns, so it cannot give the score that Weaviate gives; tantivy rounds lengths to one byte. FAISS and usearch keep
vectors alone: their exact scan is this product, and a graph is not exact. With each of them, and with LanceDB, one
transaction over words, vectors and documents would still be ours to write, and that is most of the code there is.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import bm25s
import numpy as np
from rank_bm25 import BM25Okapi
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from program.retrieval.analysis import query_terms, terms
from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.index import Document, Index, Search
from program.retrieval.late import packed_width
from program.settings import Settings
from program.types import Chunk
from tests.weaviate_server import running

DATASETS = Path(__file__).resolve().parent.parent.parent / "shared" / "datasets"
SETS = ("hotpotqa", "2wiki", "scifact", "clapnq")
DIMENSIONS, K = 384, 25
DOCUMENT = 5000  # chunks written in one step while building
PLAIN = 50_000  # most passages for rank-bm25: 100 ms for each 25,000, and 4 GB of dictionaries at ten times that

Asked = tuple[str, np.ndarray]
Ask = Callable[[Asked], object]


class Floor:
    """bm25s and a matrix in memory."""

    def __init__(self, split: Sequence[list[str]], matrix: np.ndarray) -> None:
        self.words, self.matrix = bm25s.BM25(k1=1.2, b=0.75), matrix
        self.words.index(split, show_progress=False)

    def search(self, asked: Asked) -> object:
        text, vector = asked
        known = [term for term in query_terms(text) if term in self.words.vocab_dict]
        lexical = self.words.retrieve([known], k=K, show_progress=False) if known else None
        return lexical, self.nearest(vector)

    def nearest(self, vector: np.ndarray) -> np.ndarray:
        scores = np.vecdot(self.matrix, vector)  # faster than `@` here
        best = np.argpartition(scores, -K)[-K:]
        return best[np.argsort(-scores[best])]


def passages() -> Iterator[tuple[str, str]]:
    """Title and text, without end: first the real ones, then sentences of them by chance."""
    real = []
    for name in SETS:
        with gzip.open(DATASETS / name / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
            real += [(row["title"], row["text"]) for row in map(json.loads, file)]
    yield from real
    sentences = [sentence for _, text in real for sentence in text.split(". ")]
    chance = np.random.default_rng(2)
    while True:
        mixed = chance.integers(len(sentences), size=chance.integers(2, 9))
        yield real[chance.integers(len(real))][0], ". ".join(sentences[i] for i in mixed)


def questions(most: int) -> list[str]:
    found = []
    for name in SETS:
        with (DATASETS / name / "questions.jsonl").open(encoding="utf-8") as file:
            found += [json.loads(line)["question"] for line, _ in zip(file, range(most // len(SETS)), strict=False)]
    return found


def put(index: Index, chunks: list[Chunk], vectors: np.ndarray) -> None:
    """Write documents of DOCUMENT chunks."""
    for begin in range(0, len(chunks), DOCUMENT):
        part, name = slice(begin, begin + DOCUMENT), chunks[begin].document
        tokens = [np.zeros((0, packed_width(DIMENSIONS)), np.uint8)] * len(chunks[part])
        index.replace(Document(name, name, name), chunks[part], vectors[part], tokens)


def searching(asked: Asked) -> Search:
    return Search(*asked, k=K, alpha=0.5, fusion="relative")


def ask(index: Index) -> Ask:
    return lambda asked: index.search_all([searching(asked)])


def milliseconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1000


def in_turns(asked: Sequence[Asked], *searches: Ask) -> np.ndarray:
    """Medians, [searches, 2]: on the wall, and of the processor, which other processes beside this one change less.

    Every question is asked of all in turn, so that a busy moment of the machine meets all.
    """

    def timed(search: Ask, one: Asked) -> tuple[float, float]:
        begun = time.process_time()
        return milliseconds(lambda: search(one)), (time.process_time() - begun) * 1000

    return np.median([[timed(search, one) for search in searches] for one in asked], axis=0)


def told(times: np.ndarray, floor: np.ndarray | None = None) -> str:
    beside = "" if floor is None else ": {:.2f} floors (processor {:.2f})".format(*times / floor)
    return "{:.1f} (processor {:.1f})".format(*times) + beside


OPEN_AND_ASK = f"""
import sys, time
import numpy as np
from pathlib import Path
from program.retrieval.embedded import EmbeddedIndex
vector = np.eye(1, {DIMENSIONS}, dtype=np.float32)[0]
begun = time.perf_counter()
index = EmbeddedIndex.open(Path(sys.argv[1]), "random", {DIMENSIONS})
index.search(sys.argv[2], vector, k={K}, alpha=0.5, fusion="relative")
print((time.perf_counter() - begun) * 1000)
"""


def opened(folder: Path, text: str) -> float:
    """Opening and the first answer in a new process, its imports done; the median of five."""
    command = [sys.executable, "-c", OPEN_AND_ASK, str(folder), text]
    root = Path(__file__).parent.parent
    runs = [subprocess.run(command, cwd=root, check=True, capture_output=True).stdout for _ in range(5)]
    return statistics.median(map(float, runs))


def three_at_once(index: Index, asked: Sequence[Asked]) -> str:
    """Three questions one after the other, and side by side; no result is remembered from one to the other."""
    groups = [[searching(one) for one in asked[i : i + 3]] for i in range(0, len(asked) - 2, 3)]
    pairs = zip(groups, groups[len(groups) // 2 :] + groups[: len(groups) // 2], strict=True)

    def in_a_row(group: Sequence[Search]) -> object:
        return [index.search_all([search]) for search in group]

    times = [[milliseconds(partial(in_a_row, one)), milliseconds(partial(index.search_all, two))] for one, two in pairs]
    alone, together = np.median(times, axis=0)
    return f"{alone:.1f}, {together:.1f}: {alone / together:.2f} times as fast"


def measure(size: int, most: int, weaviate: Settings | None) -> dict[str, str]:
    chance = np.random.default_rng(1)
    vectors = chance.standard_normal((size + most, DIMENSIONS), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = list(zip(questions(most), vectors[size:], strict=False))
    matrix = np.ascontiguousarray(vectors[:size])
    chunks = [
        Chunk(f"{place * 7919 % 1_000_003:07}-{place}", f"d{place // DOCUMENT}", title, text)
        for place, (title, text) in zip(range(size), passages(), strict=False)
    ]
    split = [terms(f"{chunk.title} {chunk.text}") for chunk in chunks]
    floor = Floor(split, matrix)
    block = np.ones(2**26, np.float32)  # no cache holds it
    speed = block.nbytes / min(milliseconds(block.sum) for _ in range(5)) / 1e6
    row = {"passages": f"{size:,}", "memory, GB/s": f"{speed:.1f}"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with closing(EmbeddedIndex.open(folder, "random", DIMENSIONS, create=True)) as index:
            row["build, s"] = f"{milliseconds(partial(put, index, chunks, matrix)) / 1000:.0f}"
            ask(index)(asked[0])
            least, scan, query = in_turns(asked, floor.search, lambda a: floor.nearest(a[1]), ask(index))
            row |= {"floor": told(least), "its scan": f"{told(scan)}: {matrix.nbytes / scan[0] / 1e6:.1f} GB/s"}
            row |= {"query": told(query, least), "three in a row, side by side": three_at_once(index, asked)}
            row |= changes(index, asked, vectors)
        row["open and first query"] = f"{opened(folder, asked[0][0]):.1f}"
        row["MB on disk"] = f"{sum(file.stat().st_blocks * 512 for file in folder.iterdir()) / 1e6:.0f}"
    if size <= PLAIN:
        plain = BM25Okapi(split, k1=1.2, b=0.75)
        (slow,) = in_turns(asked[:10], lambda a: (plain.get_scores(query_terms(a[0])), floor.nearest(a[1])))
        row["rank-bm25 and the scan"] = told(slow, least)
    if weaviate:
        row["Weaviate"] = on_weaviate(weaviate, chunks, matrix, asked, floor)
    return row


def changes(index: Index, asked: Sequence[Asked], vectors: np.ndarray) -> dict[str, str]:
    """Adding a document of one real passage, and the first question after it."""
    times = []
    for place, (one, (title, text)) in enumerate(zip(asked[:15], passages(), strict=False)):
        new = [Chunk(f"new{place}", f"new{place}", title, text)]
        times.append([milliseconds(partial(put, index, new, vectors[:1])), milliseconds(partial(ask(index), one))])
    adding, asking = np.median(times, axis=0)
    return {"add one": f"{adding:.1f}", "query after": f"{asking:.1f}"}


def on_weaviate(
    settings: Settings, chunks: list[Chunk], matrix: np.ndarray, asked: Sequence[Asked], floor: Floor
) -> str:
    from program.retrieval.weaviate import WeaviateIndex, remove
    from program.retrieval.weaviate_nodes import Address

    address = Address.from_settings(settings, suffix="Bench")
    try:
        with closing(WeaviateIndex.open(address, "random", DIMENSIONS, create=True)) as index:
            put(index, chunks, matrix)
            least, query = in_turns(asked, floor.search, ask(index))
            return told(query, least)
    finally:
        remove(address)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", type=int, nargs="+", default=[25_000, 250_000])
    parser.add_argument("--questions", type=int, default=100)
    what = "measure a server on the same passages; without URL one that `make weaviate` built"
    parser.add_argument("--weaviate", metavar="URL", nargs="?", const="", help=what)
    wanted = parser.parse_args()
    if not DATASETS.is_dir():
        sys.exit(f"The data sets are not in {DATASETS}.")
    with ExitStack() as stack:
        server = None
        if wanted.weaviate == "":
            started = stack.enter_context(running(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
            server = Settings(_env_file=None, weaviate_url=started.url, weaviate_grpc=started.grpc)
        elif wanted.weaviate:
            server = Settings(weaviate_url=wanted.weaviate)
        rows = [measure(size, wanted.questions, server) for size in wanted.passages]
    shown = Table("ms, median", *(row["passages"] for row in rows))
    for name in dict.fromkeys(name for row in rows for name in row if name != "passages"):
        shown.add_row(name, *(row.get(name, "") for row in rows))
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
