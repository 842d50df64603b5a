"""How fast each reader reads: files of every kind, real ones where there are any. Imported by bench/ingest.py."""

from __future__ import annotations

import html
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymupdf

from program.errors import CorruptFile, ReadError
from program.ingest.readers import READERS, read_document
from program.settings import shipped

DATASETS = Path(__file__).resolve().parent.parent.parent / "shared" / "datasets"
FLOOR = "PyMuPDF alone"
#: What is measured; the other extensions are other names for these.
KINDS = (FLOOR, *sorted(set(READERS) - {".markdown", ".text", ".htm", ".xhtml", ".jpeg", ".tsv"}))
PAGE = 3000  # characters
AT_LEAST = 0.5  # seconds a reader is measured for
MIB = 1024**2


def samples(kind: str) -> list[tuple[str, bytes]]:
    """Files of one kind, (name, content): real ones where there are any, else the demo articles in that form."""
    folders = (DATASETS / "pdfs", DATASETS / "dossier" / "kite-launch" / "docs")
    found = [path for folder in folders for path in sorted(folder.glob(f"*{kind}"))]
    if kind == ".md":
        found = sorted(shipped("data/corpus").glob("*.md"))
    if found:
        return [(path.name, path.read_bytes()) for path in found]
    make = _MADE.get(kind)
    articles = sorted(shipped("data/corpus").glob("*.md"))[:20]
    return [(f"{path.stem}{kind}", make(path.read_text("utf-8"))) for path in articles] if make else []


def _page(article: str) -> str:
    parts = [html.escape(part) for part in article.split("---", 2)[-1].split("\n\n") if part.strip()]
    body = "".join(f"<h2>{part.lstrip('# ')}</h2>" if part.startswith("#") else f"<p>{part}</p>" for part in parts)
    return f"<html><head><title>Article</title></head><body>{body}</body></html>"


def _epub(article: str) -> bytes:
    from tests.office_files import book

    return book({"page.xhtml": _page(article)})


def _pptx(article: str) -> bytes:
    from tests.office_files import add_slide, presentation

    def build(slides: Any) -> None:
        for part in article.split("\n## ")[1:]:
            title, _, text = part.partition("\n")
            add_slide(slides, title, text.strip().split(". "))

    return presentation(build)


def _png(article: str) -> bytes:
    from tests.office_files import picture

    return picture(article.split("\n\n")[-1][:34])


_MADE: dict[str, Callable[[str], bytes]] = {
    ".html": lambda article: _page(article).encode(),
    ".epub": _epub,
    ".pptx": _pptx,
    ".png": _png,
}


def measure_reader(kind: str) -> dict[str, Any]:
    """Pages and bytes a second over all files of a kind that can be read, and the slowest file."""
    read = _raw_pdf if kind == FLOOR else read_document
    files = samples(".pdf" if kind == FLOOR else kind)
    pages, refused, readable = 0.0, 0, []
    for name, data in files:  # once for what can be read, and so that libraries are loaded
        try:
            text = read(data, name)
        except ReadError:
            refused += 1
            continue
        pages += _pages(data, name, text if isinstance(text, str) else text.text)
        readable.append((name, data))
    if not readable:
        return {"files": 0, "refused": refused}
    seconds, rounds, slowest = 0.0, 0, (0.0, "")
    while seconds < AT_LEAST:
        for name, data in readable:
            begun = time.perf_counter()
            read(data, name)
            spent = time.perf_counter() - begun
            seconds += spent
            slowest = max(slowest, (spent, name))
        rounds += 1
    size = sum(len(data) for _, data in readable) / MIB
    return {
        "files": len(readable), "refused": refused, "pages": pages, "rate": pages * rounds / seconds,
        "size": size * rounds / seconds, "slowest": slowest,
    }  # fmt: skip


def _raw_pdf(data: bytes, name: str) -> str:
    try:
        with pymupdf.open(stream=data, filetype="pdf") as document:
            return "".join(page.get_text() for page in document)
    except Exception as error:
        raise CorruptFile(name) from error


def _pages(data: bytes, name: str, text: str) -> float:
    if name.endswith(".pdf"):
        with pymupdf.open(stream=data, filetype="pdf") as document:
            return float(document.page_count)
    return 1.0 if name.endswith((".png", ".jpg")) else len(text) / PAGE
