"""Reader for photographs and scans in picture files, by OCR."""

from __future__ import annotations

from program.ingest.blocks import Page, Paragraph, document_from_blocks
from program.ingest.documents import DocumentText
from program.ingest.ocr import read_image


def read_picture(data: bytes, stem: str, _password: str | None = None) -> DocumentText:
    """The text on a PNG or JPEG picture. Raises CorruptFile, TooLarge, and NoText (also where there is no OCR)."""
    return document_from_blocks([Page(1), *map(Paragraph, read_image(data).split("\n\n"))], stem)
