"""Reader for presentations, by python-pptx: a section and a page number for each slide, with its notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pptx
from lxml import etree
from pptx.enum.shapes import MSO_SHAPE_TYPE, PP_PLACEHOLDER
from pptx.oxml import parse_xml

from program.ingest.archives import office_package
from program.ingest.blocks import Block, Grid, Heading, Item, Page, Paragraph, document_from_blocks, usable_title
from program.ingest.documents import DocumentText

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_FRAME = (PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.SLIDE_NUMBER, PP_PLACEHOLDER.HEADER)
_TITLES = (PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.CENTER_TITLE, PP_PLACEHOLDER.VERTICAL_TITLE)


def read_pptx(data: bytes, stem: str, password: str | None) -> DocumentText:
    """A presentation: slides in order, each with what stands on it from top to bottom, and its notes.

    Raises CorruptFile, EncryptedFile, NoText, TooLarge.
    """
    presentation = pptx.Presentation(office_package(data, "presentation", password))
    blocks: list[Block] = []
    first_title = ""
    for number, slide in enumerate(presentation.slides, 1):
        shapes = sorted(_leaves(slide.shapes), key=_place)
        title = next((" ".join(shape.text_frame.text.split()) for shape in shapes if _kind(shape) in _TITLES), "")
        first_title = first_title or (title if number == 1 else "")
        content = [block for shape in shapes if _kind(shape) not in (*_TITLES, *_FRAME) for block in _shape(shape)]
        content += _diagrams(slide.part)
        notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        said = [paragraph.text for paragraph in notes.paragraphs if paragraph.text.strip()] if notes else []
        content += [Paragraph(f"Notes: {text}" if place == 0 else text) for place, text in enumerate(said)]
        if title or content:
            blocks += [Page(number), Heading(title or f"Slide {number}"), *content]
    return document_from_blocks(
        blocks, stem, title=usable_title(presentation.core_properties.title or "") or first_title
    )


def _leaves(shapes: Any) -> Iterator[Any]:
    """The shapes of a slide, those in groups too."""
    waiting = [iter(shapes)]
    while waiting:
        shape = next(waiting[-1], None)
        if shape is None:
            waiting.pop()
        elif shape.shape_type == MSO_SHAPE_TYPE.GROUP:
            waiting.append(iter(shape.shapes))
        else:
            yield shape


def _place(shape: Any) -> tuple[int, int]:
    """From top to bottom, then from left to right, in the units of the file."""
    return shape.top or 0, shape.left or 0


def _kind(shape: Any) -> Any:
    return shape.placeholder_format.type if shape.is_placeholder else None


def _shape(shape: Any) -> Iterator[Block]:
    """What a shape says: text (in a placeholder of several paragraphs, the items of a list), a table or a chart."""
    if shape.has_text_frame:
        texts = [text for paragraph in shape.text_frame.paragraphs if (text := " ".join(paragraph.text.split()))]
        listed = shape.is_placeholder and len(texts) > 1
        yield from (Item(f"- {text}") if listed else Paragraph(text) for text in texts)
    elif getattr(shape, "has_table", False):
        yield Grid([[_cell(cell) for cell in row.cells] for row in shape.table.rows])
    elif getattr(shape, "has_chart", False):
        yield from _chart(etree.fromstring(shape.chart_part.blob, etree.XMLParser(resolve_entities=False)))


def _cell(cell: Any) -> str:
    return "" if cell.is_spanned else " ".join(cell.text_frame.text.split())


def _chart(chart: Any) -> Iterator[Block]:
    """A chart as the table of its values, a column for each series."""
    title = chart.find(f".//{_C}title")
    if title is not None:
        yield Paragraph("".join(text.text or "" for text in title.iter(f"{_A}t")))
    columns = [_points(series.find(f"{_C}cat")) for series in chart.iter(f"{_C}ser")][:1]
    names = [""]
    for series in chart.iter(f"{_C}ser"):
        names.append(" ".join(_points(series.find(f"{_C}tx")).values()))
        columns.append(_points(series.find(f"{_C}val")))
    places = sorted({place for column in columns for place in column})
    if places:
        yield Grid([names, *([column.get(place, "") for column in columns] for place in places)])


def _points(values: Any | None) -> dict[int, str]:
    """The cached values of a series, by their place in it."""
    found: dict[int, str] = {}
    for point in values.iter(f"{_C}pt") if values is not None else ():
        place = point.get("idx", "")
        if place.isascii() and place.isdigit() and len(place) < 9:
            found[int(place)] = point.findtext(f"{_C}v") or ""
    return found


def _diagrams(part: Any) -> Iterator[Block]:
    """The text of SmartArt, whose shapes are in parts of their own."""
    for relation in part.rels.values():
        if relation.reltype.endswith("/diagramData") and not relation.is_external:
            for paragraph in parse_xml(relation.target_part.blob).iter(f"{_A}p"):
                text = "".join(piece.text or "" for piece in paragraph.iter(f"{_A}t"))
                if text.strip():
                    yield Item(f"- {text.strip()}")
