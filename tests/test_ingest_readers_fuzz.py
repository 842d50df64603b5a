"""Damaged and mislabelled files of every kind: each is read, or refused with a typed error, and nothing else happens.

Files are damaged in the whole, and those that are zip files also inside, where a checksum does not give it away.
"""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import PurePath
from typing import Any

import pytest
from office_files import add_chart, add_slide, archive, book, changed, mail, picture, presentation, word, workbook
from pdf_files import lines, pdf

from program.errors import ReadError
from program.ingest import ocr
from program.ingest.readers import READERS, read_document

TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. "
PAGE = (
    f"<html><head><title>Fox</title></head><body><h1>Fox</h1><p>{TEXT}</p><ul><li>One</li></ul><table>"
    "<tr><th>Name</th><th>Age</th></tr><tr><td rowspan=2>Rex</td><td>5</td></tr></table></body></html>"
)

#: Few of them: python-docx's own template has hundreds.
STYLES = (
    '<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:style w:styleId="Heading1">'
    '<w:name w:val="heading 1"/></w:style><w:style w:styleId="ListNumber"><w:name w:val="List Number"/><w:pPr><w:numPr>'
    '<w:numId w:val="1"/></w:numPr></w:pPr></w:style></w:styles>'
)

#: Damaged files of each kind; those with slow libraries get fewer.
WHOLE = {".pptx": 40, ".pdf": 120}
INSIDE = {".docx": 120, ".xlsx": 120, ".pptx": 40, ".epub": 120}
ROUNDS = 120


@cache
def sound(extension: str) -> bytes:
    """A file of this kind with nothing wrong."""
    match extension:
        case ".docx":
            return changed(word(_write_word), {"word/styles.xml": STYLES, "word/stylesWithEffects.xml": STYLES})
        case ".xlsx":
            return workbook(_write_workbook)
        case ".pptx":
            return presentation(_write_slides)
        case ".epub":
            return book({"a.xhtml": PAGE, "b.xhtml": PAGE})
        case ".eml":
            fields = {"From": "Ada <ada@b.example>", "Date": "Sat, 04 May 2024 09:05:00 +0200", "Subject": "Füchse"}
            return mail(f"{TEXT}\n\nOn Friday, Bo wrote:\n> {TEXT}", PAGE, ["fox.zip"], **fields)
        case ".csv" | ".tsv":
            return f'Fox report\nName,Age,Note\nRex,5,"{TEXT}"\nBo,7,\n'.encode()
        case ".html" | ".htm" | ".xhtml":
            return PAGE.encode()
        case ".png":
            return picture("fox")
        case ".jpg" | ".jpeg":
            return picture("fox", "JPEG")
        case ".pdf":
            return pdf([lines(72, 72, [TEXT] * 5)], title="Fox")
        case _:
            return f"---\ntitle: Fox\nyear: 2024\n---\n# Fox\n\n{TEXT}\n\n| a | b |\n| - | - |\n| 1 | 2 |\n".encode()


def _write_word(document: Any) -> None:
    document.add_heading("Fox", 1)
    document.add_paragraph(TEXT, style="List Number")
    document.add_table(rows=2, cols=2).cell(0, 0).text = "Name"


def _write_workbook(book: Any) -> None:
    book.active.append(["Name", "Age"])
    book.active.append(["Rex", 5.5])
    book.active["B2"].number_format = "#,##0.00"


def _write_slides(slides: Any) -> None:
    add_chart(add_slide(slides, "Fox", ["One", "Two"], notes=TEXT), ["a", "b"], {"s": [1, 2]})


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes cut off, with bits flipped, or with a stretch overwritten, repeated, left out or moved."""
    spoiled = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 3, 10))):
        at = chance.randrange(len(spoiled) + 1)
        length = chance.choice((1, 4, 30, 300))
        match chance.randrange(6):
            case 0:
                del spoiled[at:]
            case 1:
                for place in range(at, min(at + length, len(spoiled)), 7):
                    spoiled[place] ^= 1 << chance.randrange(8)
            case 2:
                spoiled[at : at + length] = chance.randbytes(length)
            case 3:
                spoiled[at:at] = spoiled[at : at + length] * chance.choice((1, 2, 50))
            case 4:
                del spoiled[at : at + length]
            case _:
                other = chance.randrange(len(spoiled) + 1)
                spoiled[at : at + length] = spoiled[other : other + length]
    return bytes(spoiled)


def damaged_inside(data: bytes, chance: random.Random) -> bytes:
    """A zip file that is whole, with one or two of its entries damaged or left out."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    for name in chance.sample(sorted(entries), chance.choice((1, 1, 2))):
        if chance.random() < 0.05:
            del entries[name]
        else:
            entries[name] = damaged(entries[name], chance)
    return archive(entries)


def check(data: bytes, name: str) -> bool:
    """Is the file read? What is read must hold together; what is not must be refused in words for people."""
    message = ""
    try:
        document = read_document(data, name)
    except ReadError as error:
        message = str(error)
    if message:
        assert len(message) < 1000
        return False
    assert document.text.strip()
    assert document.title
    ends = [place for section in document.sections for place in (section.start, section.end)]
    assert ends == sorted(ends)
    assert ends[-1] <= len(document.text)
    assert all(document.text[table.start] == "|" for table in document.tables)
    document.text.encode()
    return True


@pytest.fixture(autouse=True)
def without_ocr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are decoded, and then there is no OCR: reading letters is slow and tested elsewhere."""
    monkeypatch.setattr(ocr, "available", lambda: False)


@pytest.mark.parametrize("extension", sorted(READERS))
def test_sound_files_are_read(extension: str) -> None:
    assert check(sound(extension), f"x{extension}") == (extension not in (".png", ".jpg", ".jpeg"))


@pytest.mark.parametrize("extension", sorted(READERS))
def test_damaged_files(extension: str) -> None:
    chance = random.Random(extension)
    for _ in range(WHOLE.get(extension, ROUNDS)):
        check(damaged(sound(extension), chance), f"x{extension}")


@pytest.mark.parametrize("extension", sorted(INSIDE))
def test_zip_files_damaged_inside(extension: str) -> None:
    chance = random.Random(extension)
    for _ in range(INSIDE[extension]):
        check(damaged_inside(sound(extension), chance), f"x{extension}")


@pytest.mark.parametrize("extension", sorted(READERS))
def test_mislabelled_files(extension: str) -> None:
    """Every kind of file under the name of every other, and bytes of no kind at all."""
    for other in sorted(READERS):
        check(sound(other), f"x{extension}")
    for data in _nothing():
        check(data, f"x{extension}")


def _nothing() -> Iterator[bytes]:
    yield b""
    yield b"\x00"
    yield b"PK\x05\x06" + bytes(18)  # an empty zip file
    yield b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512)
    yield b"%PDF-1.7\n"
    yield b"\x89PNG\r\n\x1a\n" + bytes(40)
    for size in (10, 1000, 20_000):
        yield random.Random(size).randbytes(size)


def test_there_are_enough_damaged_files() -> None:
    whole = sum(WHOLE.get(extension, ROUNDS) for extension in READERS)
    mislabelled = len(READERS) * (len(READERS) - 1 + sum(1 for _ in _nothing()))
    assert whole + sum(INSIDE.values()) + mislabelled >= 2000
    assert all(PurePath(f"x{extension}").suffix == extension for extension in READERS)
