"""What does it cost to take documents in? Readers, the encoder run in several ways, and 25,000 chunks.

    python bench/ingest.py [--only readers|encoders|scale] [--chunks 25000] [--real 1500] [--texts 60]

readers: pages a second of each reader, over ../shared/datasets and files made here. A page is a PDF's, a
picture, else 3,000 characters of text. `ratio` is to PyMuPDF alone, which gives a PDF's text in its raw order.
encoders: chunks of the demo library embedded a second, and recall on the labelled questions that stand alone (train and
dev parts). `cosine` is the mean to float32's vectors. To be chosen: the fastest with the same recall. ONNX is
left out where onnxruntime, onnx and onnxscript are not installed.
scale: `ingest` of real texts, once with a stand-in encoder that costs nothing (reading, chunking and writing alone) and
once with the real one, over fewer chunks unless --real says so. Memory is the process's, the reading process apart.
`--chunks 100000 --texts 14` makes some 5,000 files.

Every line is measured in a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ingest_encoders import WAYS, measure_way
from ingest_readers import DATASETS, FLOOR, KINDS, measure_reader
from ingest_scale import measure_scale

CONSOLE = Console(width=190)


def show_readers() -> None:
    rows = {kind: apart(measure_reader, kind) for kind in KINDS}
    shown = _table("Readers", "reader", "files", "refused", "pages", "pages/s", "MB/s", "ratio", "slowest file")
    for kind, row in rows.items():
        if not row["files"]:
            print(f"{kind}: no file that can be read here, left out", file=sys.stderr)
            continue
        ratio = row["rate"] / rows[FLOOR]["rate"]
        seconds, name = row["slowest"]
        cells = (f"{row['pages']:.0f}", f"{row['rate']:.1f}", f"{row['size']:.2f}", f"{ratio:.3f}")
        shown.add_row(kind, str(row["files"]), str(row["refused"]), *cells, f"{seconds:.2f} s {name}")
    CONSOLE.print(shown)


def show_encoders() -> None:
    rows: dict[str, dict[str, Any]] = {}
    for name, way in WAYS.items():
        if way.lacks:
            print(f"{name}: {', '.join(way.lacks)} not installed, left out", file=sys.stderr)
            continue
        print(f"{name} ...", file=sys.stderr)
        rows[name] = apart(measure_way, name)
    base = next(iter(rows.values()))
    title = f"Encoders: {base['chunks']} chunks, {base['questions']} questions"
    shown = _table(title, "way", "chunks/s", "ratio", "cosine", "dense recall@5", "recall@5", "all gold@10", "MB")
    for name, row in rows.items():
        cosine = float(np.mean(np.sum(row["vectors"] * base["vectors"], axis=1)))
        found = (f"{row[score]:.3f}" for score in ("dense", "program", "complete"))
        ratio = row["rate"] / base["rate"]
        shown.add_row(name, f"{row['rate']:.1f}", f"{ratio:.2f}", f"{cosine:.4f}", *found, f"{row['peak']:.0f}")
    CONSOLE.print(shown)


def show_scale(chunks: int, real: int, texts: int) -> None:
    shown = _table(
        "Scale", "encoder", "chunks", "files", "seconds", "chunks/s", "again, s per 100 files", "peak MB",
        "MB at 25, 50, 75, 100%", "reader MB", "disk MB", "open + first search, s", "search, ms",
    )  # fmt: skip
    rows = {}
    for name, is_real, n in (("stand-in", False, chunks), ("real", True, real)):
        print(f"{name}, {n} chunks ...", file=sys.stderr)
        rows[name] = row = apart(measure_scale, is_real, n, texts)
        for line in row["lost"]:
            print(line, file=sys.stderr)
        shown.add_row(
            name, str(row["chunks"]), str(row["files"]), f"{row['first']:.0f}", f"{row['chunks'] / row['first']:.0f}",
            f"{row['again'] / row['files'] * 100:.2f}", f"{row['peak']:.0f}",
            " ".join(f"{rss:.0f}" for rss in row["quarters"]), f"{row['reader']:.0f}", f"{row['size']:.0f}",
            f"{row['opened']:.2f}", f"{row['warm']:.1f}",
        )  # fmt: skip
    CONSOLE.print(shown)
    rate, plain = (row["chunks"] / row["first"] for row in (rows["real"], rows["stand-in"]))
    print(f"The real encoder takes {plain / rate:.1f} times as long; {chunks} chunks would take {chunks / rate:.0f} s.")


def apart(measure: Callable[..., dict[str, Any]], *values: Any) -> dict[str, Any]:
    """The measurement, made in a process of its own, with that process's peak memory in MiB."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        return pool.submit(_with_peak, measure, *values).result()


def _with_peak(measure: Callable[..., dict[str, Any]], *values: Any) -> dict[str, Any]:
    pymupdf.TOOLS.mupdf_display_errors(False)
    return {**measure(*values), "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _table(title: str, first: str, *others: str) -> Table:
    shown = Table(first, title=title)
    for column in others:
        shown.add_column(column, justify="right")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("readers", "encoders", "scale"))
    parser.add_argument("--chunks", type=int, default=25_000)
    parser.add_argument("--real", type=int, default=1_500, help="chunks for the real encoder")
    parser.add_argument("--texts", type=int, default=60, help="texts in a file, each one or two chunks")
    wanted = parser.parse_args()
    if not DATASETS.is_dir():
        sys.exit(f"The data sets are not in {DATASETS}.")
    if wanted.only in (None, "readers"):
        show_readers()
    if wanted.only in (None, "encoders"):
        show_encoders()
    if wanted.only in (None, "scale"):
        show_scale(wanted.chunks, wanted.real, wanted.texts)


if __name__ == "__main__":
    main()
