"""Reader for PDF files, by PyMuPDF: running text in reading order, with the page of every place.

A page gives rows (`pages`), rows make paragraphs (`prose`): one line of text each, words that were broken at line ends
mended, and a paragraph that a page or column break cuts put together again. Tables are Markdown. Running headers and
footers and page numbers are left out, and so are a paper's acknowledgments and references, unless the settings keep
them. A page that is a picture is read by OCR where there is one. Form values and the names of attached files follow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unicodedata import normalize

from program.errors import CorruptFile, EncryptedFile, NoText, ReadError
from program.ingest import ocr
from program.ingest.documents import DocumentText, Section, clean_title, title_from_name
from program.ingest.forms import form_values
from program.ingest.mupdf import MUPDF_LOCK, mupdf
from program.ingest.pages import page_rows
from program.ingest.paragraphs import Row, body_size, names_section
from program.ingest.prose import document_from_rows
from program.ingest.pulse import begins
from program.settings import settings_from

#: Fewer letters and digits than this in a file without OCR is a scan, or nothing.
MIN_CHARACTERS = 100
#: Fewest letters and digits that OCR must find in a file.
MIN_RECOGNISED = 20
#: Share of a page that pictures cover from which they may hold its text, and from which it may be a scan.
PICTURED = 0.3
WHOLE = 0.9
#: Letters and digits up to which a page with pictures is read by OCR too, and how many such pages of a file at most.
LITTLE_TEXT = 800
MOST_MIXED = 8
#: Share of common words in a text under which invisible text is OCR of a bad kind, done again.
POOR_OCR = 0.5

_LIGATURES = re.compile(r"\[\s*(?:\d+\s*|/[A-Za-z](?:_[A-Za-z])+\s*)+\]")
_PAGE_NUMBER = re.compile(r"[-–—|\s]*(?:page\s*)?(?:\d{1,4}|[ivxlc]+)(?:\s*(?:of|/)\s*\d+)?[-–—|\s]*", re.IGNORECASE)
_NO_TITLE = re.compile(r"untitled|microsoft|powerpoint|adobe|arxiv:|\.[a-z]{2,4}$|^[\W\d_]*$", re.IGNORECASE)


def read_pdf(data: bytes, stem: str, password: str | None = None) -> DocumentText:
    """Raises CorruptFile, EncryptedFile, NoText."""
    if b"%PDF-" not in data[:1024]:
        raise CorruptFile("This is not a PDF file.", "Its name may have the wrong extension.")
    settings = settings_from()
    with MUPDF_LOCK:
        try:
            with mupdf().open(stream=data, filetype="pdf") as document:
                _unlock(document, password)
                metadata_title = str((document.metadata or {}).get("title") or "")
                with suppress(Exception):  # a damaged font is read as it is
                    _mend_fonts(document)
                pages = [page_rows(document[number], number + 1) for number in range(document.page_count)]
                can_recognise = ocr.available()
                recognised = _recognise(document, pages) if can_recognise else set()
                after: list[Row] = []
                attached: list[str] = []
                with suppress(Exception):  # a damaged form costs only itself
                    after = _form(document, len(pages))
                with suppress(Exception):
                    attached = [clean_title(str(name)) for name in document.embfile_names()]
                dynamic = document.xref_get_key(document.pdf_catalog(), "NeedsRendering")[1] == "true"
        except (ReadError, MemoryError):
            raise
        except Exception as error:  # MuPDF's errors have no common type
            raise CorruptFile(f"The PDF file is damaged ({error}).", "Open it in a viewer and save it anew.") from error
    least = MIN_RECOGNISED if can_recognise else MIN_CHARACTERS
    rows = _flat(_without_margins(pages))
    if _characters(rows) < MIN_CHARACTERS:
        rows = _flat(pages)
    if _characters([*rows, *after]) < least:
        raise _no_text(_characters(rows), can_recognise, attached, dynamic)
    title_rows = [] if 1 in recognised else _title_rows(rows)
    printed = clean_title(normalize("NFKC", " ".join(row.text for row in title_rows)))
    title = clean_title(normalize("NFKC", metadata_title))
    if len(title) < 5 or _NO_TITLE.search(title):
        title = printed or title_from_name(stem)
    text = document_from_rows([row for row in rows if row not in title_rows], back_matter=settings.back_matter)
    text = _with_section(text, "Form fields", after)
    names = [Row(name, len(pages), place, 0, 0, 0, 0, 1.0, False, 1, False) for place, name in enumerate(attached)]
    return replace(_with_section(text, "Attached files", names), title=title)


def _mend_fonts(document: Any) -> None:
    """Fonts of ligatures alone, as Quartz writes them, say that f_f_i is `!` and f_i is `"`: the names are right."""
    fonts = {font[0] for number in range(document.page_count) for font in document.get_page_fonts(number)}
    for font in fonts:
        if _LIGATURES.fullmatch(document.xref_get_key(font, "Encoding/Differences")[1]):
            document.xref_set_key(font, "ToUnicode", "null")


def _recognise(document: Any, pages: list[list[Row]]) -> set[int]:
    """Puts what OCR reads in the place of pages that are pictures, and gives their numbers.

    That is every page of a file without text, and pages with much picture and little text (or OCR of a bad kind)
    besides, MOST_MIXED of them at the most: OCR takes seconds for a page.
    """
    read: set[int] = set()
    scan = _characters(_flat(pages)) < MIN_CHARACTERS
    mixed = 0
    for place, rows in enumerate(pages):
        page, text = document[place], " ".join(row.text for row in rows)
        share = 0.0 if scan else _pictured(page)
        poor = share >= WHOLE and ocr.sense(text) < POOR_OCR
        unknown = text.count("\ufffd") > 0.3 * len(text)
        if not scan:
            little = share >= PICTURED and _characters(rows) < LITTLE_TEXT
            mixed += poor or unknown or little
            if not (poor or unknown or little) or mixed > MOST_MIXED:
                continue
        begins(place + 1, len(pages))
        with ocr.recognised(ocr.page_picture(page)) as made:
            new = page_rows(made[0], place + 1)
        if poor:
            better = ocr.sense(" ".join(row.text for row in new)) > ocr.sense(text)
        else:  # text that stands in the file is better than the same text, read again
            better = _characters(new) > 1.5 * _characters(rows)
        if better:
            pages[place] = new
            read.add(place + 1)
    return read


def _pictured(page: Any) -> float:
    """The share of the page that pictures cover."""
    boxes = [image["bbox"] for image in page.get_image_info()]
    return float(sum((x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in boxes) / (page.cropbox.width * page.cropbox.height))


def _form(document: Any, pages: int) -> list[Row]:
    """A row for each field of a form that holds something."""
    return [
        Row(f"{name}: {value}", page, pages + place, 0, 0, 0, 0, 1.0, False, 1, False)
        for place, (page, name, value) in enumerate(form_values(document))
    ]


def _with_section(document: DocumentText, heading: str, rows: Sequence[Row]) -> DocumentText:
    """The document with a section of lines at its end."""
    if not rows:
        return document
    text = document.text + ("\n\n" if document.text else "")
    text += heading + "\n\n"
    start, page_starts = len(text), list(document.pages)
    for row in rows:
        if not page_starts or page_starts[-1][1] != row.page:
            page_starts.append((len(text), row.page))
        text += row.text + "\n\n"
    text = text.rstrip()
    section = Section(start, len(text), heading)
    return replace(document, text=text, sections=(*document.sections, section), pages=tuple(page_starts))


def _no_text(characters: int, can_recognise: bool, attached: list[str], dynamic: bool) -> NoText:
    if dynamic:
        return NoText("The PDF file is a form that only Adobe's reader shows (XFA).", "Print it there to a PDF file.")
    if attached:
        return NoText(f"The PDF file holds no text but other files: {', '.join(attached)}.", "Save and add those.")
    held = f"The PDF file holds only {characters} letters of text" if characters else "The PDF file holds no text"
    if can_recognise:
        return NoText(f"{held}, and OCR finds no more.", "Where there is more to see, scan it anew and larger.")
    return NoText(f"{held}: it may be a scan.", f"{ocr.advice()} Or add text to it with ocrmypdf.")


def _flat(pages: list[list[Row]]) -> list[Row]:
    return [row for rows in pages for row in rows]


def _characters(rows: Sequence[Row]) -> int:
    return sum(character.isalnum() for row in rows for character in row.text)


def _unlock(document: Any, password: str | None) -> None:
    if document.needs_pass and not document.authenticate(password or ""):
        wrong = "is wrong" if password else "is needed"
        raise EncryptedFile(f"The PDF file is encrypted and a password {wrong}.", "Give it with --password.")


def _without_margins(pages: list[list[Row]]) -> list[list[Row]]:
    """Pages without page numbers and without what comes back, but for its digits, in the margins of several pages."""
    seen = Counter(key for rows in pages for key in {_margin_key(row) for row in rows if row.in_margin})
    often = 2 if len(pages) < 5 else 3

    def left_out(row: Row, lowest: float) -> bool:
        number = (row.in_margin or row.y0 == lowest) and _PAGE_NUMBER.fullmatch(row.text) is not None
        return number or (row.in_margin and seen[_margin_key(row)] >= often)

    lowest = [max((row.y0 for row in rows), default=0.0) for rows in pages]
    return [[row for row in rows if not left_out(row, low)] for rows, low in zip(pages, lowest, strict=True)]


def _margin_key(row: Row) -> str:
    return re.sub(r"\d+", "#", row.text).casefold()


def _title_rows(rows: list[Row]) -> list[Row]:
    """The rows of the largest type on the first page, if it is larger than the text's and reads like a title."""
    first = [
        row for row in rows if row.page == rows[0].page and not row.table and sum(c.isalpha() for c in row.text) > 2
    ]
    if not first:
        return []
    largest = max(row.size for row in first)
    title = [row for row in first if row.size > largest - 0.5]
    words = " ".join(row.text for row in title)
    large = largest >= 1.15 * body_size(rows) and len(title) <= 4
    return title if large and 4 < len(words) <= 250 and not names_section(words) else []
