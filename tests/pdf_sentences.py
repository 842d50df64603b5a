"""The sentences and table rows of real PDF files that must come out whole in one chunk (`pdf_sentences.json`).

They were written down by looking at the pages, and are kept as what identifies them: the first and the last letters,
and a digest of all of them, white space, hyphens and typographic variants folded away. `recognised` ones need OCR, or
stand in a file so small that only OCR can tell it from a scan. Rows are kept as cells, with cells of their header.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from program.ingest.quotes import fold

FILE = Path(__file__).with_suffix(".json")
#: Letters that are kept of a sentence's start and end.
EDGE = 16


def expected() -> dict[str, dict[str, Any]]:
    """By file name: password, sentences, rows and recognised, each of them optional."""
    held: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return held


def identify(sentence: str) -> dict[str, Any]:
    """What is kept of a sentence."""
    letters = fold(sentence)
    return {"from": letters[:EDGE], "to": letters[-EDGE:], "length": len(letters), "sha256": _digest(letters)}


def holds(text: str, sentence: Mapping[str, Any]) -> bool:
    """Does the text hold the sentence whole?"""
    letters = fold(text)
    begin = letters.find(sentence["from"])
    while begin >= 0:
        if _digest(letters[begin : begin + sentence["length"]]) == sentence["sha256"]:
            return True
        begin = letters.find(sentence["from"], begin + 1)
    return False


def holds_row(text: str, row: Mapping[str, list[str]]) -> bool:
    """Does the text hold the row, its cells in order on one line, and its header above?"""
    lines = [fold(line) for line in text.splitlines()]
    header = [place for place, line in enumerate(lines) if all(fold(cell) in line for cell in row["header"])]
    return any(_in_order(row["cells"], line) for place in header[:1] for line in lines[place + 1 :])


def missing(chunks: Iterable[str], wanted: Mapping[str, Any], *, ocr: bool) -> Iterator[str]:
    """Those that are whole in no chunk, as their first letters."""
    texts = list(chunks)
    for sentence in [*wanted.get("sentences", ()), *(wanted.get("recognised", ()) if ocr else ())]:
        if not any(holds(text, sentence) for text in texts):
            yield sentence["from"]
    for row in wanted.get("rows", ()):
        if not any(holds_row(text, row) for text in texts):
            yield " | ".join(row["cells"])


def _in_order(cells: list[str], line: str) -> bool:
    place = 0
    for cell in map(fold, cells):
        place = line.find(cell, place)
        if place < 0:
            return False
        place += len(cell)
    return True


def _digest(letters: str) -> str:
    return hashlib.sha256(letters.encode()).hexdigest()[:16]
