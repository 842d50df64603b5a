"""Are an office's papers found? Recall@5 of documents, over the search queries of the dossier-bench cases.

    python bench/dossier.py [FOLDER]

Reads ../shared/datasets/dossier: folders with `docs` (letters, sheets, slides, scans) and `expected` (queries, and the
documents that answer them). `search` is one hybrid query; `program` ranks what it finds, as for a clear question.
Documents that cannot be read (scans, where there is no OCR) are named; what they alone answer is lost.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import mean

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from program.artifact import read as read_artifact  # noqa: E402
from program.ingest import ingest  # noqa: E402
from program.retrieval.embedded import EmbeddedIndex  # noqa: E402
from program.retrieval.encoders import Encoder, load_encoder  # noqa: E402
from program.retrieval.retriever import Retriever  # noqa: E402
from program.settings import Settings, shipped  # noqa: E402
from program.types import Hit, Query  # noqa: E402

K = 5


def measure(case: Path, encoder: Encoder) -> tuple[list[float], list[float], list[str]]:
    """Recall of each query by search and by the program, and the files that could not be read."""
    key_of = yaml.safe_load((case / "expected/manifest.yaml").read_text("utf-8"))["filename_to_key"]
    queries = yaml.safe_load((case / "expected/search.yaml").read_text("utf-8"))["queries"]
    params = read_artifact(shipped("artifacts/default")).params
    wanted = params.search_for("clear")
    by_search, by_program = [], []
    with (
        tempfile.TemporaryDirectory() as place,
        closing(EmbeddedIndex.open(Path(place), encoder.fingerprint, encoder.dimensions, create=True)) as index,
    ):
        unread = [
            f"{report.name}: {report.message}" for report in ingest([case / "docs"], index, encoder) if report.failed
        ]
        retriever = Retriever(index, encoder)
        for query in queries:
            text, expected = query["query"], set(query["expect"])
            vector = encoder.encode([text])[0]
            found = index.search(text, vector, k=25, alpha=wanted.alpha, fusion=wanted.fusion)
            by_search.append(recall(found, expected, key_of))
            by_program.append(recall(retriever.retrieve([Query(text, text)], wanted, params).hits, expected, key_of))
    return by_search, by_program, unread


def recall(hits: Sequence[Hit], expected: set[str], key_of: dict[str, str]) -> float:
    """The share of the expected documents among the first K distinct ones."""
    documents = list(dict.fromkeys(key_of.get(hit.chunk.document, "") for hit in hits))[:K]
    return len(expected.intersection(documents)) / len(expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT.parent / "shared" / "datasets" / "dossier")
    folder = parser.parse_args().folder
    cases = sorted(path.parent.parent for path in folder.glob("*/expected/search.yaml"))
    if not cases:
        sys.exit(f"Skipped: the cases are not in {folder} (they come with the package dossier-bench).")
    encoder = load_encoder(Settings())
    print("| case | queries | recall@5, search | recall@5, program | not read |\n| --- | ---: | ---: | ---: | ---: |")
    notes: list[str] = []
    for case in cases:
        by_search, by_program, unread = measure(case, encoder)
        cells = (str(len(by_search)), f"{mean(by_search):.3f}", f"{mean(by_program):.3f}", str(len(unread)))
        print(f"| {case.name} | {' | '.join(cells)} |")
        notes += unread
    print("", *notes, sep="\n")


if __name__ == "__main__":
    main()
