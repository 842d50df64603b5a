"""The index on a Weaviate server beside the embedded one, on the same texts and vectors: time, memory, agreement.

    python bench/servers.py [--passages 13832] [--questions 500] [--nodes 1]

Starts servers that `make weaviate` built. Reads ../shared/datasets; passages past their 13,832 are theirs again under
other names. Vectors are random, which is the hardest case for a graph. Token vectors are those of 150 words, 7 KB.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from program.library import Folder, MadeWith, OnServer
from program.params import Params, SearchParams
from program.retrieval.analysis import query_terms
from program.retrieval.index import Document, Index
from program.retrieval.late import packed_width
from program.retrieval.retriever import Retriever
from program.retrieval.weaviate_nodes import Address
from program.settings import Settings
from program.types import Chunk, Hit, Query
from tests.weaviate_server import Server, cluster, running

DATASETS = Path(__file__).resolve().parent.parent.parent / "shared" / "datasets"
SETS = ("hotpotqa", "2wiki", "scifact", "clapnq")
DIMENSIONS, TOKENS, K, DOCUMENT = 384, 150, 10, 100


def passages(number: int) -> list[Chunk]:
    real = []
    for name in SETS:
        with gzip.open(DATASETS / name / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
            real += [(row["title"], row["text"]) for row in map(json.loads, file)]
    repeated = itertools.islice(itertools.cycle(real), number)
    return [
        Chunk(f"c{place:07}", f"d{place // DOCUMENT:05}", title, text, position=place % DOCUMENT)
        for place, (title, text) in enumerate(repeated)
    ]


def questions(number: int) -> list[str]:
    found = []
    for name in SETS:
        with (DATASETS / name / "questions.jsonl").open(encoding="utf-8") as file:
            found += [json.loads(line)["question"] for line in file]
    return [found[place * len(found) // number] for place in range(min(number, len(found)))]


def write(index: Index, chunks: list[Chunk], vectors: np.ndarray) -> float:
    tokens = np.random.default_rng(2).integers(0, 256, (TOKENS, packed_width(DIMENSIONS)), np.uint8)
    begun = time.perf_counter()
    for begin in range(0, len(chunks), DOCUMENT):
        part = chunks[begin : begin + DOCUMENT]
        name = part[0].document
        index.replace(
            Document(name, part[0].title, name), part, vectors[begin : begin + len(part)], [tokens] * len(part)
        )
    return time.perf_counter() - begun


def ask(index: Index, asked: list[tuple[str, np.ndarray]]) -> tuple[list[list[Hit]], np.ndarray, np.ndarray]:
    """What is found, and the milliseconds of a search, and of what the ranker reads of its hits."""
    found, searches, rest = [], [], []
    for text, vector in asked:
        begun = time.perf_counter()
        hits = index.search(text, vector, k=25, alpha=0.5, fusion="relative")
        between = time.perf_counter()
        ids = [hit.chunk.id for hit in hits]
        index.vectors(ids)
        index.token_vectors(ids)
        index.inverse_document_frequency(query_terms(text))
        found.append(hits)
        searches.append((between - begun) * 1000)
        rest.append((time.perf_counter() - between) * 1000)
    return found, np.array(searches), np.array(rest)


class Drawn:
    """An encoder whose vectors are drawn by chance, a text's always the same."""

    fingerprint, dimensions = "random", DIMENSIONS

    def encode_with_tokens(self, texts: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        drawn = [np.random.default_rng(zlib.crc32(text.encode())).standard_normal((12, DIMENSIONS)) for text in texts]
        units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in drawn]
        vectors = np.array([rows[0] for rows in units], np.float32)
        return vectors, [np.rint(rows * 127).astype(np.int8) for rows in units]


def retrieve(index: Index, texts: Sequence[str], queries: int) -> float:
    """Milliseconds from queries to ranked hits, links followed: the median of some questions."""
    retriever = Retriever(index, Drawn())  # type: ignore[arg-type]
    groups = [texts[begin : begin + queries] for begin in range(0, min(len(texts), 20 * queries), queries)]
    times = []
    for group in groups:
        begun = time.perf_counter()
        retriever.retrieve([Query(text, text) for text in group], SearchParams(), Params())
        times.append((time.perf_counter() - begun) * 1000)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", type=int, default=13_832)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    wanted = parser.parse_args()
    if not DATASETS.is_dir():
        sys.exit(f"The data sets are not in {DATASETS}.")
    chance = np.random.default_rng(1)
    vectors = chance.standard_normal((wanted.passages + wanted.questions, DIMENSIONS), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = list(zip(questions(wanted.questions), vectors[wanted.passages :], strict=False))
    chunks = passages(wanted.passages)
    columns = "write s", "search ms, median, 95%", "ranker reads ms", "one query, three: whole ms", "memory MB"
    table = Table("engine", *columns)
    found = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers: list[Server] = (
            [stack.enter_context(running(folder / "server"))]
            if wanted.nodes == 1
            else stack.enter_context(cluster(folder / "servers", wanted.nodes))
        )
        urls, ports = ",".join(server.url for server in servers), ",".join(server.grpc for server in servers)
        address = Address.from_settings(Settings(_env_file=None, weaviate_url=urls, weaviate_grpc=ports))
        for name, place in (("embedded", Folder(folder / "index")), (f"Weaviate x {wanted.nodes}", OnServer(address))):
            with closing(place.open(MadeWith("random", DIMENSIONS), create=True)) as index:
                seconds = write(index, chunks, vectors)
                ask(index, asked[:20])
                found[name], searches, rest = ask(index, asked)
                whole = [retrieve(index, [text for text, _ in asked], queries) for queries in (1, 3)]
                memory = [psutil.Process(server.process.pid).memory_info().rss for server in servers if server.process]
            middle, high = np.percentile(searches, (50, 95))
            used = "" if name == "embedded" else f"{sum(memory) / 1e6:.0f}"
            times = f"{middle:.1f}, {high:.1f}", f"{np.median(rest):.1f}", f"{whole[0]:.0f}, {whole[1]:.0f}"
            table.add_row(name, f"{seconds:.0f}", *times, used)
    Console(width=120).print(table)
    both = [[[hit.chunk.id for hit in hits[:K]] for hits in of] for of in found.values()]
    same = np.mean([first == second for first, second in zip(*both, strict=True)])
    shared = np.mean([len({*first} & {*second}) / K for first, second in zip(*both, strict=True)])
    print(f"The same {K} best in the same order: {same:.1%} of {len(asked)} questions; {shared:.2%} of the hits.")


if __name__ == "__main__":
    main()
