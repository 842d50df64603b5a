"""Text of pictures and scans, by the Tesseract engine inside PyMuPDF. It needs Tesseract's language files, which come
with an installed Tesseract; without them `NoText` says how to get them.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from program.errors import CorruptFile, NoText, TooLarge
from program.ingest.mupdf import MUPDF_LOCK, mupdf
from program.ingest.pages import page_rows
from program.ingest.prose import document_from_rows
from program.settings import settings_from
from program.tokens import count_tokens

#: Resolution at which a page is read, in dots per inch (what Tesseract's models were trained for).
DPI = 300
#: Longest side of what Tesseract is given, in pixels; larger pictures are scaled down.
LONGEST_SIDE = 5000
#: Most pixels of a picture that is decoded: a small file can stand for gigabytes.
MOST_PIXELS = 100_000_000
#: Share of common words among all from which a picture stands upright.
UPRIGHT = 0.25

_WORD = re.compile(r"[^\W\d_]{3,}")


@cache
def language_files(languages: str) -> Path | None:
    """The folder with Tesseract's files for these languages (`eng`, or several as `deu+eng`); None without them."""
    try:
        folder = Path(mupdf().get_tessdata())
    except RuntimeError:
        return None
    return folder if all((folder / f"{name}.traineddata").is_file() for name in languages.split("+")) else None


def available() -> bool:
    """Can pictures be read here?"""
    return language_files(settings_from().ocr_languages) is not None


def advice() -> str:
    """What to do so that pictures and scans can be read: the hint of the error."""
    languages = settings_from().ocr_languages
    if languages == "none":
        return "OCR is switched off (RAG_OCR_LANGUAGES=none)."
    packages = " ".join(
        ["tesseract-ocr", *(f"tesseract-ocr-{name.replace('_', '-').lower()}" for name in languages.split("+"))]
    )
    return f"To have it read by OCR, install Tesseract with its files for {languages} (apt install {packages})."


def read_image(data: bytes) -> str:
    """The text of a PNG or JPEG picture, its paragraphs with blank lines between them.

    Raises CorruptFile, TooLarge, NoText (nothing to read in it, or no Tesseract).
    """
    picture = _picture(data)
    if not available():
        raise NoText("The picture's text cannot be read without OCR.", advice())
    pymupdf = mupdf()

    def turned(quarters: int) -> Any:
        now = picture.rotate(-90 * quarters, expand=True) if quarters else picture
        return pymupdf.Pixmap(pymupdf.csRGB, now.width, now.height, now.tobytes(), False)

    with MUPDF_LOCK, recognised(turned) as document:
        rows = page_rows(document[0], 1)
    if not any(character.isalnum() for row in rows for character in row.text):
        raise NoText("There is no text in the picture that OCR can read.")
    return document_from_rows(rows).text


def recognised(turned: Callable[[int], Any]) -> Any:
    """A PDF document of one page with the text (invisible) of a picture at its places, the picture upright.

    turned: gives the picture as a pixmap in RGB, turned clockwise by that many quarters. Raises NoText.
    """
    languages = settings_from().ocr_languages
    folder = language_files(languages)
    if folder is None:
        raise NoText("There is no OCR.", advice())
    best: tuple[float, Any] | None = None
    for quarters in (0, 1, 3, 2):
        pixels = turned(quarters)
        with _without_stderr():
            read = pixels.pdfocr_tobytes(compress=False, language=languages, tessdata=str(folder))
        document = mupdf().open("pdf", read)
        made = sense(document[0].get_text("text"))
        if best is None or made > best[0]:
            best = made, document
        if best[0] >= UPRIGHT:
            break
    assert best is not None
    return best[1]


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Tesseract writes what it thinks of a picture to the process's standard error, and cannot be told otherwise."""
    with Path(os.devnull).open("wb") as nowhere:
        kept = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def page_picture(page: Any) -> Callable[[int], Any]:
    """A page of a PDF document as `recognised` takes it."""
    upright = page.rotation
    dpi = min(DPI, int(72 * LONGEST_SIDE / max(page.rect.width, page.rect.height, 1)))

    def turned(quarters: int) -> Any:
        page.set_rotation((upright + 90 * quarters) % 360)
        try:
            return page.get_pixmap(dpi=max(dpi, 1), alpha=False)
        finally:
            page.set_rotation(upright)

    return turned


def _picture(data: bytes) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=("PNG", "JPEG")) as opened:
                if opened.width * opened.height > MOST_PIXELS:
                    raise TooLarge(f"The picture has {opened.width} by {opened.height} pixels.", "Scale it down.")
                opened.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))
                picture = _on_white(ImageOps.exif_transpose(opened))
    except TooLarge:
        raise
    except Image.DecompressionBombError as error:
        raise TooLarge("The picture has too many pixels.", "Scale it down.") from error
    except Exception as error:  # Pillow's decoders raise what they like
        raise CorruptFile(f"The picture is damaged ({error}).", "Its name may have the wrong extension.") from error
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    return picture


def _on_white(picture: Image.Image) -> Image.Image:
    """In RGB (from grey, MuPDF's OCR gives nothing), what is transparent being white."""
    if "A" in picture.getbands() or "transparency" in picture.info:
        layers = picture.convert("RGBA")
        white = Image.new("RGBA", layers.size, "white")
        return Image.alpha_composite(white, layers).convert("RGB")
    return picture.convert("RGB")


def sense(text: str) -> float:
    """Share of words that are common ones (one token of the language model's vocabulary): sideways there are none."""
    words = text.split()
    common = sum(count_tokens(f" {found.group().lower()}") == 1 for word in words if (found := _WORD.search(word)))
    return common / max(len(words), 1)
