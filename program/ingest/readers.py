"""One reader for each kind of file: a function from bytes to text. A new format is a line in the table."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import PurePath

from program.errors import CorruptFile, NoText, ReadError, UnsupportedFile, cause_of
from program.ingest.documents import DocumentText

#: (bytes, name without extension, password) to text. Raises ReadError.
Reader = Callable[[bytes, str, str | None], DocumentText]


def _reader(module: str, function: str) -> Reader:
    """A reader in a module of this package, which is loaded when the first file of its kind is read."""

    def read(data: bytes, stem: str, password: str | None) -> DocumentText:
        found: Reader = getattr(import_module(f"program.ingest.{module}"), function)
        return found(data, stem, password)

    return read


READERS: dict[str, Reader] = {
    ".csv": _reader("sheets", "read_csv"),
    ".docx": _reader("word", "read_docx"),
    ".eml": _reader("mail", "read_mail"),
    ".epub": _reader("books", "read_epub"),
    ".htm": _reader("web", "read_html"),
    ".html": _reader("web", "read_html"),
    ".jpeg": _reader("images", "read_picture"),
    ".jpg": _reader("images", "read_picture"),
    ".markdown": _reader("plain", "read_markdown"),
    ".md": _reader("plain", "read_markdown"),
    ".pdf": _reader("pdf", "read_pdf"),
    ".png": _reader("images", "read_picture"),
    ".pptx": _reader("slides", "read_pptx"),
    ".text": _reader("plain", "read_text"),
    ".tsv": _reader("sheets", "read_csv"),
    ".txt": _reader("plain", "read_text"),
    ".xhtml": _reader("web", "read_html"),
    ".xlsx": _reader("sheets", "read_xlsx"),
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
    """The text of a file, read as its name says. Raises ReadError, and nothing else but MemoryError."""
    reader = reader_for(name)
    if not data:
        raise NoText("The file is empty.", "It may not have been copied or downloaded whole.")
    try:
        return reader(data, PurePath(name).stem, password)
    except (ReadError, MemoryError):
        raise
    except Exception as error:  # the libraries raise any type where a file is damaged
        hint = "Open it in the program that made it and save it anew."
        raise CorruptFile(f"The file cannot be understood ({cause_of(error)}).", hint) from error
