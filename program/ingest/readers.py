"""One reader for each kind of file: a function from bytes to text. A new format is a line in the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from program.errors import UnsupportedFile
from program.ingest.documents import DocumentText
from program.ingest.pdf import read_pdf
from program.ingest.plain import read_markdown, read_text

#: (bytes, name without extension, password) to text. Raises ReadError.
Reader = Callable[[bytes, str, str | None], DocumentText]

READERS: dict[str, Reader] = {
    ".md": lambda data, stem, _password: read_markdown(data, stem),
    ".markdown": lambda data, stem, _password: read_markdown(data, stem),
    ".txt": lambda data, stem, _password: read_text(data, stem),
    ".text": lambda data, stem, _password: read_text(data, stem),
    ".pdf": read_pdf,
}


def reader_for(name: str) -> Reader:
    """The reader for a file of this name, by its extension. Raises UnsupportedFile."""
    extension = PurePath(name).suffix.casefold()
    if extension not in READERS:
        raise UnsupportedFile(
            f"There is no reader for {extension or 'files without extension'}.",
            f"Supported: {', '.join(sorted(READERS))}.",
        )
    return READERS[extension]


def read_document(data: bytes, name: str, password: str | None = None) -> DocumentText:
    """The text of a file, read as its name says. Raises ReadError."""
    return reader_for(name)(data, PurePath(name).stem, password)
