"""Reader for EPUB books: their chapters in reading order, read as web pages are."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from lxml import etree

from program.errors import CorruptFile, EncryptedFile, NoText, cause_of
from program.ingest.archives import open_archive
from program.ingest.blocks import Block, Heading, document_from_blocks
from program.ingest.documents import DocumentText
from program.ingest.web import decode_html, html_blocks, page_title, parse_html

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")
_DAMAGED = "Open it in a reader for books, or convert it anew."


def read_epub(data: bytes, stem: str, _password: str | None = None) -> DocumentText:
    """A book without its table of contents. Raises CorruptFile, EncryptedFile, NoText, TooLarge."""
    with open_archive(data, "EPUB book") as archive:
        container = _xml(archive, _CONTAINER)
        path = next((element.get("full-path", "") for element in container.iter("{*}rootfile")), "")
        package = _xml(archive, path)
        chapters = _chapters(archive, package, posixpath.dirname(path))
        blocks = [block for chapter in chapters for block in _chapter(archive, chapter)]
    authors = [_line(element) for element in package.iter("{*}creator")]
    year = re.search(r"\b(?:1[5-9]|20)\d\d\b", " ".join(_line(element) for element in package.iter("{*}date")))
    return document_from_blocks(
        blocks,
        stem,
        title=next((_line(element) for element in package.iter("{*}title")), ""),
        source=", ".join(authors[:3]) + (" et al." if len(authors) > 3 else ""),
        year=int(year.group()) if year else None,
    )


def _chapters(archive: zipfile.ZipFile, package: Any, folder: str) -> list[str]:
    """Names of the chapters' files in the archive, each once. Raises EncryptedFile for books with copy protection."""
    items = {item.get("id", ""): item for item in package.iter("{*}item")}
    names = set(archive.namelist())
    found: dict[str, None] = {}
    for reference in package.iter("{*}itemref"):
        item = items.get(reference.get("idref", ""))
        if item is None or item.get("media-type") not in _PAGES or "nav" in item.get("properties", "").split():
            continue
        name = posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        if name in names:  # the archive's own names, never a path
            found[name] = None
    if _ENCRYPTION in names:
        locked = {unquote(element.get("URI", "")) for element in _xml(archive, _ENCRYPTION).iter("{*}CipherReference")}
        if locked & found.keys():
            raise EncryptedFile("The book is protected against copying.", "Add a copy of it without protection.")
    return list(found)


def _chapter(archive: zipfile.ZipFile, name: str) -> Iterator[Block]:
    """A chapter's blocks; one without any heading is headed by the title of its page."""
    try:
        root = parse_html(decode_html(archive.read(name)))
    except NoText:
        return
    blocks = list(html_blocks(root))
    title = page_title(root)
    if title and blocks and not any(isinstance(block, Heading) for block in blocks):
        yield Heading(title)
    yield from blocks


def _xml(archive: zipfile.ZipFile, name: str) -> Any:
    try:
        return etree.fromstring(archive.read(name), etree.XMLParser(resolve_entities=False, no_network=True))
    except (KeyError, etree.XMLSyntaxError) as error:
        raise CorruptFile(f"The EPUB book is damaged ({name[:80]!r}: {cause_of(error)}).", _DAMAGED) from error


def _line(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())
