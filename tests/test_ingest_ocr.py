"""Pictures and scans are read by Tesseract where it is installed, and say how to get it where it is not."""

from __future__ import annotations

import io
import struct
import zlib

import pymupdf
import pytest
from pdf_files import lines, pdf
from PIL import Image

from program.errors import CorruptFile, NoText, TooLarge
from program.ingest import ocr
from program.ingest.readers import read_document

SAYS = ["The meeting begins at nine in the morning", "and ends before the rest of us have lunch."]
needs_tesseract = pytest.mark.skipif(not ocr.available(), reason="Tesseract is not installed")


def picture(quarters: int = 0, kind: str = "PNG", mode: str = "RGB", says: int = 1) -> bytes:
    print_ = [(40.0, 40.0 + 24 * place, line, 16.0, False) for place, line in enumerate(SAYS * says)]
    with pymupdf.open(stream=pdf([print_])) as document:
        pixels = document[0].get_pixmap(dpi=110, clip=(0, 0, 420, 80 * says))
    image = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.samples).rotate(-90 * quarters, expand=True)
    made = io.BytesIO()
    image.convert(mode).save(made, kind)
    return made.getvalue()


def scanned(quarters: int = 0) -> bytes:
    with pymupdf.open() as document:
        page = document.new_page(width=420, height=420)
        page.insert_image(page.rect, stream=picture(quarters))
        return document.tobytes()


@needs_tesseract
@pytest.mark.parametrize(("kind", "mode"), [("PNG", "RGB"), ("JPEG", "L"), ("PNG", "P"), ("PNG", "RGBA")])
def test_pictures(kind: str, mode: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert " ".join(ocr.read_image(picture(kind=kind, mode=mode)).split()) == " ".join(SAYS)
    assert capfd.readouterr() == ("", "")


@needs_tesseract
@pytest.mark.parametrize("quarters", [1, 2])
def test_a_picture_on_its_side(quarters: int) -> None:
    assert SAYS[0] in ocr.read_image(picture(quarters))


@needs_tesseract
@pytest.mark.parametrize("quarters", [0, 3])
def test_a_scan(quarters: int) -> None:
    document = read_document(scanned(quarters), "scan.pdf")
    assert " ".join(SAYS) in document.text
    assert document.page_at(0) == 1
    assert document.title == "scan"


@needs_tesseract
def test_a_page_of_text_with_text_in_a_picture() -> None:
    with pymupdf.open(
        stream=pdf([lines(100, 600, ["Figure 3 of the report says what is to be done first."] * 4)])
    ) as document:
        document[0].insert_image(pymupdf.Rect(20, 60, 600, 560), stream=picture(says=4))
        text = read_document(document.tobytes(), "mixed.pdf").text
    assert SAYS[1] in text
    assert "Figure 3 of the report" in text


@needs_tesseract
def test_nothing_to_read() -> None:
    blank = io.BytesIO()
    Image.new("RGB", (300, 200), "white").save(blank, "PNG")
    with pytest.raises(NoText, match="no text in the picture"):
        ocr.read_image(blank.getvalue())
    with pytest.raises(NoText, match="OCR finds no more"):
        read_document(pdf([[]]), "blank.pdf")


def test_without_tesseract_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_OCR_LANGUAGES", "qqq+chi_sim")
    assert not ocr.available()
    for read in (lambda: ocr.read_image(picture()), lambda: read_document(scanned(), "scan.pdf")):
        with pytest.raises(NoText, match="tesseract-ocr-qqq tesseract-ocr-chi-sim"):
            read()
    monkeypatch.setenv("RAG_OCR_LANGUAGES", "none")
    with pytest.raises(NoText, match="switched off"):
        ocr.read_image(picture())


def test_bad_pictures() -> None:
    for data in (b"", b"no picture", picture()[:200], b"GIF89a" + picture()):
        with pytest.raises(CorruptFile):
            ocr.read_image(data)


def test_a_picture_bomb_is_refused_before_it_is_unpacked() -> None:
    def part(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    for side in (12_000, 60_000):
        size = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
        bomb = (
            b"\x89PNG\r\n\x1a\n"
            + part(b"IHDR", size)
            + part(b"IDAT", zlib.compress(bytes(10_000)))
            + part(b"IEND", b"")
        )
        with pytest.raises(TooLarge):
            ocr.read_image(bomb)
