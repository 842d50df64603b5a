"""How well are troublesome PDF files read? Status, characters, and the sentences that come out whole in one chunk.

    python bench/pdfs.py [FOLDER] [--seconds 120] [--no-ocr]

Reads ../shared/datasets/pdfs. Each file is read in a process of its own with a limit in seconds, as `ingest` does it.
Sentences and table rows were written down by looking at the pages, passwords besides (`tests/pdf_sentences.json`).
`whole` counts those found whole in one chunk (rows: with their header); those that are not are named below the table.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from pdf_sentences import expected, missing  # noqa: E402

from program.errors import CorruptFile, EncryptedFile, NoText, ReadError, TimedOut, TooLarge  # noqa: E402
from program.ingest.isolated import IsolatedReader, Limits  # noqa: E402
from program.ingest.worker import read_passages  # noqa: E402
from program.tokens import count_tokens  # noqa: E402

#: Tokens of the encoder's window, counted with cl100k here: no weights are needed.
WINDOW = 510
STATUS = {
    CorruptFile: "corrupt",
    EncryptedFile: "encrypted",
    NoText: "no text",
    TimedOut: "timed out",
    TooLarge: "too large",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT.parent / "shared" / "datasets" / "pdfs")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit for one file")
    parser.add_argument("--no-ocr", action="store_true", help="read as on a machine without Tesseract")
    options = parser.parse_args()
    if options.no_ocr:
        os.environ["RAG_OCR_LANGUAGES"] = "none"
    wanted = expected()
    reader = IsolatedReader(
        partial(partial, read_passages, count=count_tokens, window=WINDOW, described={}),
        Limits(seconds=options.seconds),
    )
    lost: list[str] = []
    held = every = 0
    print("| file | status | characters | chunks | whole | seconds |\n| --- | --- | ---: | ---: | ---: | ---: |")
    for path in sorted(options.folder.glob("*.pdf")):
        of_file = wanted.get(path.name, {})
        begun = time.perf_counter()
        try:
            passages = reader.read(path.read_bytes(), path.name, of_file.get("password"))
            status, characters, chunks = "indexed", passages.characters, [chunk.text for chunk in passages.chunks]
        except ReadError as error:
            status, characters, chunks = STATUS.get(type(error), type(error).__name__), 0, []
            lost.append(f"{path.name}: {error}")
        seconds = time.perf_counter() - begun
        names = list(missing(chunks, of_file, ocr=not options.no_ocr))
        kinds = ("sentences", "rows") if options.no_ocr else ("sentences", "rows", "recognised")
        count = sum(len(of_file.get(kind, ())) for kind in kinds)
        lost += [f"{path.name}: not whole: {name}" for name in names]
        held, every = held + count - len(names), every + count
        print(
            f"| {path.stem} | {status} | {characters} | {len(chunks)} | {count - len(names)}/{count} | {seconds:.1f} |"
        )
    reader.close()
    print(f"\n{held} of {every} come out whole.\n")
    print("\n".join(lost))
    return 0


if __name__ == "__main__":
    sys.exit(main())
