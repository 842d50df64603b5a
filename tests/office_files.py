"""Small files of every format but PDF, made for tests."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
from typing import Any

import docx
import openpyxl
import pptx
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from PIL import Image, ImageDraw
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)


def word(build: Callable[[Any], None], title: str = "") -> bytes:
    """A Word document; `build` adds to a `docx.Document`."""
    document = docx.Document()
    document.core_properties.title = title
    build(document)
    return _saved(document)


def add_xml(document: Any, xml: str) -> None:
    """Adds an element of WordprocessingML (prefix w, formulas m) to the end of a document's body."""
    namespaces = nsdecls("w") + ' xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    name, rest = (
        xml[1:].split(" ", 1) if " " in xml.split(">")[0] else (xml[1:].split(">")[0], ">" + xml.split(">", 1)[1])
    )
    document.element.body.insert(-1, parse_xml(f"<{name} {namespaces} {rest}"))


def workbook(build: Callable[[Any], None]) -> bytes:
    book = openpyxl.Workbook()
    build(book)
    return _saved(book)


def presentation(build: Callable[[Any], None]) -> bytes:
    slides = pptx.Presentation()
    build(slides)
    return _saved(slides)


def add_slide(slides: Any, title: str, lines: Sequence[str] = (), notes: str = "") -> Any:
    """A slide with a title and a list."""
    slide = slides.slides.add_slide(slides.slide_layouts[1])
    slide.shapes.title.text = title
    slide.placeholders[1].text = "\n".join(lines)
    if notes:
        slide.notes_slide.notes_text_frame.text = notes
    return slide


def add_chart(slide: Any, categories: Sequence[str], series: Mapping[str, Sequence[float]]) -> None:
    data = CategoryChartData()
    data.categories = categories
    for name, values in series.items():
        data.add_series(name, values)
    place = (Inches(1), Inches(5), Inches(4), Inches(2))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *place, data)


def archive(entries: Mapping[str, str | bytes]) -> bytes:
    """A zip file."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return target.getvalue()


def changed(data: bytes, entries: Mapping[str, str | bytes]) -> bytes:
    """A zip file with some of its entries replaced, or added."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return archive({name: file.read(name) for name in file.namelist()} | dict(entries))


def book(chapters: Mapping[str, str], *, extra: Mapping[str, str] | None = None) -> bytes:
    """An EPUB book by Ada Byron, of 1843, with these pages (by name) in this order."""
    items = "".join(f'<item id="{n}" href="{n}" media-type="application/xhtml+xml"/>' for n in chapters)
    order = "".join(f'<itemref idref="{n}"/>' for n in chapters)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<dc:title>Notes on the Engine</dc:title><dc:creator>Ada Byron</dc:creator>"
        "<dc:date>1843-09-01</dc:date></metadata>"
        '<manifest><item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
        f'{items}</manifest><spine><itemref idref="nav"/>{order}</spine></package>'
    )
    pages = {f"OPS/{name}": page for name, page in {"nav.xhtml": "<nav>Contents</nav>", **chapters}.items()}
    return archive({"META-INF/container.xml": CONTAINER, "OPS/book.opf": package, **pages, **(extra or {})})


def mail(text: str = "", html: str = "", attachments: Sequence[str] = (), **fields: str) -> bytes:
    message = EmailMessage()
    for name, value in fields.items():
        message[name] = value
    if text:
        message.set_content(text)
    if html:
        (message.add_alternative if text else message.set_content)(html, subtype="html")
    for name in attachments:
        message.add_attachment(b"\x00\x01", maintype="application", subtype="octet-stream", filename=name)
    return message.as_bytes()


def picture(text: str, kind: str = "PNG") -> bytes:
    image = Image.new("RGB", (900, 160), "white")
    ImageDraw.Draw(image).text((30, 50), text, fill="black", font_size=48)
    target = io.BytesIO()
    image.save(target, kind)
    return target.getvalue()


def _saved(file: Any) -> bytes:
    target = io.BytesIO()
    file.save(target)
    return target.getvalue()
