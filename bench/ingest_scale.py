"""What many chunks cost: `ingest` of real texts, with the real encoder or one that costs nothing.

Imported by bench/ingest.py.
"""

from __future__ import annotations

import functools
import gzip
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import count, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from program.ingest import ingest
from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.encoders import WINDOW, load_encoder
from program.settings import Settings
from program.tokens import TokenizerCount
from program.weights import find_encoder

DATASETS = Path(__file__).resolve().parent.parent.parent / "shared" / "datasets"
SETS = ("hotpotqa", "2wiki", "scifact", "clapnq", "xquad_de", "xquad_zh")
CHARACTERS_A_CHUNK = 650
MIB = 1024**2


class StandIn:
    """An encoder that costs nothing: vectors by chance, as many token vectors as the real one would give."""

    dimensions, fingerprint = 384, "stand-in"

    def __init__(self) -> None:
        self.count, self.max_tokens = counting()
        self._chance = np.random.default_rng(0)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return self.encode_with_tokens(texts)[0]

    def encode_with_tokens(self, texts: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        vectors = self._chance.standard_normal((len(texts), self.dimensions)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        sizes = [min(len(text) // 5 + 1, self.max_tokens) for text in texts]
        return vectors, [self._chance.integers(-60, 60, (n, self.dimensions), np.int8) for n in sizes]


def measure_scale(real: bool, chunks: int, texts: int) -> dict[str, Any]:
    """texts: in a file, each one or two chunks."""
    encoder = load_encoder(Settings()) if real else StandIn()
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        written, place = Path(folder) / "files", Path(folder) / "index"
        files = write_files(written, chunks, texts)
        memory: list[tuple[float, float]] = []
        readers: list[float] = []

        def note(done: float, total: int, _what: str) -> None:
            memory.append((done / total, process.memory_info().rss / MIB))
            readers.extend(child.memory_info().rss / MIB for child in process.children())

        with closing(EmbeddedIndex.open(place, encoder.fingerprint, encoder.dimensions, create=True)) as index:
            first, reports = _timed(lambda: ingest([written], index, encoder, on_progress=note))
            again, _ = _timed(lambda: ingest([written], index, encoder))
            held = len(index)
        with closing(EmbeddedIndex.open(place, encoder.fingerprint, encoder.dimensions)) as index:
            search = functools.partial(index.search, "who led it", encoder.encode(["who led it"])[0], k=25, alpha=0.5)
            opened, _ = _timed(lambda: search(fusion="relative"))
            warm, _ = _timed(lambda: search(fusion="ranked"))
        size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) / MIB
    quarters = [next((rss for share, rss in memory if share >= part), 0.0) for part in (0.25, 0.5, 0.75, 1.0)]
    lost = [f"{report.name}: {report.status} {report.message}" for report in reports if report.failed]
    return {
        "chunks": held, "files": files, "first": first, "again": again, "opened": opened, "warm": warm * 1000,
        "size": size, "quarters": quarters, "lost": lost,
        "reader": max(readers, default=0.0),
    }  # fmt: skip


def write_files(folder: Path, chunks: int, texts: int) -> int:
    """Markdown files with a section for each text, for about so many chunks; how many files there are. When all texts
    are used they come again, under other headings."""
    folder.mkdir()
    sections: list[str] = []
    files = 0
    expected = 0.0

    def write() -> None:
        nonlocal files
        (folder / f"{files:05}.md").write_text(f"# Texts {files}\n\n" + "\n".join(sections), "utf-8")
        files += 1
        sections.clear()

    for turn, title, text in ((turn, *pair) for turn in count() for pair in _texts()):
        sections.append(f"## {title}{f' {turn}' * (turn > 0)}\n\n{text}\n")
        expected += max(1.0, len(text) / CHARACTERS_A_CHUNK)
        if len(sections) == texts:
            write()
        if expected >= chunks:
            break
    if sections:
        write()
    return files


def _texts() -> Iterator[tuple[str, str]]:
    """Title and text, one from each set in turn, then the reranker's passages, each once."""
    seen: set[str] = set()
    with ExitStack() as stack:
        paths = (DATASETS / name / "corpus.jsonl.gz" for name in SETS)
        files = [stack.enter_context(gzip.open(path, "rt", encoding="utf-8")) for path in paths]
        for lines in zip_longest(*files):
            for row in map(json.loads, filter(None, lines)):
                seen.add(row["text"])
                yield row["title"], row["text"]
    with gzip.open(DATASETS / "rerank_pairs.jsonl.gz", "rt", encoding="utf-8") as pairs:
        for row in map(json.loads, pairs):
            if row["positive"] not in seen:
                seen.add(row["positive"])
                yield row["query"], row["positive"]


def counting() -> tuple[TokenizerCount, int]:
    """How the encoder counts, and how many tokens it reads, without loading it."""
    return TokenizerCount((find_encoder(Settings()) / "tokenizer.json").read_text("utf-8")), WINDOW - 2


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.perf_counter()
    found = call()
    return time.perf_counter() - begun, found
