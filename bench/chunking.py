"""How large should a chunk be, and how much should the encoder read? Hybrid retrieval on labelled questions.

    python bench/chunking.py [--sets library,flat,scifact] [--targets 120,150,...,500] [--windows 256,512] [--headings]

`library` is data/corpus with the train and dev parts of data/labeled/qa.jsonl; gold is a quote, found where a chunk
holds all of it. `flat` is the same without its sections, as a long text without headings is read. `scifact` and
`clapnq` are ../shared/datasets; gold is a document there. A target is in cl100k tokens, a window in the encoder's.
Recall@5, all gold@10 and MRR are those of one hybrid query with default numbers. Five large chunks hold more text than
five small ones, so `evidence` says more: the share of quotes that are in the 500 tokens an answer reads, after ranking
and trimming. With --headings, the search reads title and heading. Vectors are kept in memory between rows.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from optimize.labels import read_questions
from optimize.metrics import all_gold, bootstrap_interval, recall_at_k, reciprocal_rank
from program.evidence import assemble
from program.ingest.chunking import chunk_document
from program.ingest.documents import DocumentText, Section
from program.ingest.quotes import contains_quote
from program.ingest.readers import read_document
from program.params import Params
from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.encoders import SentenceEncoder, Tokens, Vectors, encode_passages, passage_text
from program.retrieval.index import Document
from program.retrieval.retriever import Retriever
from program.settings import Settings
from program.tokens import count_tokens
from program.types import Chunk, Hit, Query
from program.weights import find_encoder

ROOT = Path(__file__).resolve().parent.parent
DATASETS = ROOT.parent / "shared" / "datasets"
#: Documents of a data set that no question is about: enough to be found instead, few enough to be encoded in minutes.
OTHERS = 500
#: Most questions of a data set.
QUESTIONS = 300

Gold = tuple[str, str]  # document, quote; any of its chunks when the quote is empty


@dataclass(frozen=True)
class Case:
    question: str
    gold: list[Gold]


class Cached:
    """An encoder that remembers every text. A text that both windows hold has one vector."""

    def __init__(self, encoder: SentenceEncoder, known: dict[object, tuple[np.ndarray, np.ndarray]]) -> None:
        self._encoder, self._known = encoder, known
        self.fingerprint, self.dimensions = encoder.fingerprint, encoder.dimensions
        self.max_tokens, self.count = encoder.max_tokens, encoder.count

    def encode(self, texts: Sequence[str]) -> Vectors:
        return self.encode_with_tokens(texts)[0]

    def encode_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        keys = [text if self.count(text) <= 254 else (text, self.max_tokens) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        vectors, tokens = self._encoder.encode_with_tokens(list(new.values()))
        self._known |= {key: (vectors[row], tokens[row]) for row, key in enumerate(new)}
        found = [self._known[key] for key in keys]
        return np.array([vector for vector, _ in found]), [tokens for _, tokens in found]


def library(flat: bool = False) -> tuple[list[tuple[str, DocumentText]], list[Case]]:
    documents = [
        (path.name, read_document(path.read_bytes(), path.name)) for path in sorted((ROOT / "data/corpus").glob("*.md"))
    ]
    if flat:
        documents = [(n, replace(text, sections=(Section(0, len(text.text)),))) for n, text in documents]
    labels = read_questions(ROOT / "data" / "labeled" / "qa.jsonl")
    kept = [label for label in labels if label.part != "test" and label.quotes and not label.history]
    return documents, [Case(label.question, [(q.document, q.quote) for q in label.quotes]) for label in kept]


def data_set(name: str) -> tuple[list[tuple[str, DocumentText]], list[Case]]:
    folder = DATASETS / name
    lines = (folder / "questions.jsonl").read_text().splitlines()
    asked = [row for row in map(json.loads, lines) if row["answerable"] and row["gold"]][:QUESTIONS]
    wanted = {document for row in asked for document in row["gold"]}
    with gzip.open(folder / "corpus.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    others = [row for row in rows if row["id"] not in wanted][:OTHERS]
    documents = [
        (row["id"], DocumentText(row["title"], row["text"], (Section(0, len(row["text"])),)))
        for row in rows
        if row["id"] in wanted or row in others
    ]
    return documents, [Case(row["question"], [(document, "") for document in row["gold"]]) for row in asked]


def holds(document: str, text: str, gold: Gold) -> bool:
    return document == gold[0] and (not gold[1] or contains_quote(text, gold[1]))


def ranks(hits: Sequence[Hit], gold: Sequence[Gold]) -> list[int]:
    found = [0] * len(gold)
    for place, hit in enumerate(hits, 1):
        for number, wanted in enumerate(gold):
            if not found[number] and holds(hit.chunk.document, hit.chunk.text, wanted):
                found[number] = place
    return found


def measure(
    documents: Sequence[tuple[str, DocumentText]], cases: Sequence[Case], encoder: Cached, target: int, headings: bool
) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        index = EmbeddedIndex.open(Path(folder), encoder.fingerprint, encoder.dimensions, create=True)
        chunks: list[Chunk] = []
        begun = time.perf_counter()
        for name, text in documents:
            of_document = chunk_document(text, name, encoder.count, encoder.max_tokens, target=target)
            if headings:
                of_document = [replace(chunk, title=f"{chunk.title}: {chunk.heading}") for chunk in of_document]
            vectors, tokens = encode_passages(encoder, [passage_text(chunk) for chunk in of_document])
            index.replace(Document(name, text.title, name, chunks=len(of_document)), of_document, vectors, tokens)
            chunks += of_document
        seconds = time.perf_counter() - begun
        params = Params()
        search = params.search_for("clear")
        retriever = Retriever(index, encoder)
        found, evidence = [], []
        for case in cases:
            vector = encoder.encode([case.question])[0]
            hits = index.search(
                case.question, vector, k=10, alpha=search.alpha, fusion=search.fusion, title_weight=params.title_weight
            )
            found.append(ranks(hits, case.gold))
            retrieval = retriever.retrieve([Query(case.question, case.question)], search, params)
            read = assemble(
                retrieval.hits, [case.question], encoder, chunks=params.evidence_chunks, tokens=params.evidence_tokens
            )
            held = [any(holds(item.chunk.document, item.text, wanted) for item in read) for wanted in case.gold]
            evidence.append(statistics.mean(held))
        index.close()
    sizes = [count_tokens(chunk.text) for chunk in chunks]
    yield from (str(len(chunks)), f"{statistics.mean(sizes):.0f}", str(max(sizes)), f"{seconds:.0f}")
    yield f"{statistics.mean(recall_at_k(places, 5) for places in found):.3f}"
    yield f"{statistics.mean(all_gold(places, 10) for places in found):.3f}"
    yield f"{statistics.mean(map(reciprocal_rank, found)):.3f}"
    interval = bootstrap_interval(evidence)
    yield f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="library,flat,scifact")
    parser.add_argument("--targets", default="120,150,180,220,260,320,400,500")
    parser.add_argument("--windows", default="256,512")
    parser.add_argument("--headings", action="store_true")
    given = parser.parse_args()
    console = Console(width=120)
    folder = find_encoder(Settings())
    if not isinstance(folder, Path):
        sys.exit("There is no encoder on this machine: set RAG_ENCODER to a folder.")
    known: dict[object, tuple[np.ndarray, np.ndarray]] = {}
    for name in given.sets.split(","):
        if name not in ("library", "flat") and not (DATASETS / name).is_dir():
            console.print(f"{name}: not on this machine")
            continue
        documents, cases = library(name == "flat") if name in ("library", "flat") else data_set(name)
        table = Table(title=f"{name}: {len(documents)} documents, {len(cases)} questions")
        for column in (
            "window",
            "target",
            "chunks",
            "mean",
            "most",
            "seconds",
            "recall@5",
            "all@10",
            "MRR",
            "evidence",
        ):
            table.add_column(column, justify="right")
        for window in map(int, given.windows.split(",")):
            encoder = Cached(SentenceEncoder(folder, folder.name, window), known)
            for target in map(int, given.targets.split(",")):
                if target * 1.3 > window:  # cl100k tokens are longer than word pieces
                    continue
                row = [str(window), str(target), *measure(documents, cases, encoder, target, given.headings)]
                table.add_row(*row)
                print(name, *row, file=sys.stderr, flush=True)
        console.print(table)


if __name__ == "__main__":
    main()
