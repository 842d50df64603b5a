"""Reader for Word documents, by python-docx, which opens the package and knows its parts; the text is walked here.

Walked, because its own paragraphs leave out what stands in content controls, text boxes, insertions and formulas.
Deleted and hidden text is left out, and so are headers, footers, comments and the table of contents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import docx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import qn

from program.ingest.archives import office_package
from program.ingest.blocks import Block, Grid, Heading, Item, Paragraph, document_from_blocks, usable_title
from program.ingest.documents import DocumentText
from program.ingest.formulas import linear, lowered, raised
from program.ingest.numbering import Numbering
from program.ingest.web import joined_header

#: Styles are based on others, at most so many deep.
MAX_BASES = 20
#: Longest text, in characters, that is a heading for being bold, in documents without headings.
BOLD_HEADING = 80

_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_P, _TBL, _TR, _TC, _R, _T = (qn(f"w:{name}") for name in ("p", "tbl", "tr", "tc", "r", "t"))
_VAL = qn("w:val")
_CHARACTERS = {
    qn("w:tab"): " ", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-", qn("w:softHyphen"): "",
}  # fmt: skip
_PIECES = (_T, f"{_M}oMath", *_CHARACTERS)
_GONE = frozenset({qn("w:del"), qn("w:moveFrom"), _FALLBACK})
_HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)


def read_docx(data: bytes, stem: str, password: str | None) -> DocumentText:
    """A Word document. Raises CorruptFile, EncryptedFile, NoText, TooLarge."""
    document = docx.Document(office_package(data, "Word document", password))
    styles = _Styles(document.styles.element)
    numbering = _numbering(document.part, styles)
    blocks: list[Block] = []
    title = ""
    bold: list[int] = []  # places of paragraphs that might be headings
    for element in document.element.body.iter(_P, _TBL):
        text = "" if element.tag == _TBL else _text(element).strip()
        if (not text and element.tag == _P) or next(element.iterancestors(_TBL, _FALLBACK), None) is not None:
            continue
        if element.tag == _TBL:
            blocks += _table(element)
            continue
        style = _style(element)
        name, level = styles.read(style)
        level = _level(element, level)
        if name.startswith("toc "):
            continue
        mark = numbering.mark(element, style)
        if name == "title" and not title:
            title = text
        elif level:
            blocks.append(Heading(f"{mark} {text}".strip() if mark != "-" else text, level))
        else:
            if not mark and len(text) <= BOLD_HEADING and text[-1] not in ".,;:!?" and _is_bold(element):
                bold.append(len(blocks))
            blocks.append(Item(f"{mark} {text}") if mark else Paragraph(text))
    if not any(isinstance(block, Heading) for block in blocks):
        for place in bold:
            blocks[place] = Heading(blocks[place].text)  # type: ignore[union-attr]
    notes = list(_notes(document.part))
    if notes:
        blocks += [Heading("Notes"), *notes]
    return document_from_blocks(blocks, stem, title=title or usable_title(document.core_properties.title or ""))


class _Styles:
    """Names and outline levels of the document's styles, by their ids; a style has what it is based on."""

    def __init__(self, element: Any) -> None:
        self._styles = {style.get(qn("w:styleId")): style for style in element.iter(qn("w:style"))}
        self._read: dict[str, tuple[str, int]] = {}
        self._default = next((i for i, style in self._styles.items() if style.get(qn("w:default")) == "1"), "")

    def chain(self, style: str) -> Iterator[Any]:
        """The style and those that it is based on."""
        for _ in range(MAX_BASES):
            element = self._styles.get(style or self._default)
            if element is None:
                return
            yield element
            style = _value(element, "w:basedOn") or "\0"

    def read(self, style: str) -> tuple[str, int]:
        """Name of a style, and its level as a heading: 1 for the largest, 0 for text."""
        if style not in self._read:
            names = [_value(element, "w:name") for element in self.chain(style)]
            outlines = [_outline(_value(element, "w:pPr/w:outlineLvl")) for element in self.chain(style)]
            headings = [int(found.group(1)) if (found := _HEADING.fullmatch(name)) else 0 for name in names]
            levels = [heading or outline for heading, outline in zip(headings, outlines, strict=True)]
            self._read[style] = names[0].casefold() if names else "", next(filter(None, levels), 0)
        return self._read[style]


def _level(paragraph: Any, of_style: int) -> int:
    outline = _value(paragraph, "w:pPr/w:outlineLvl")
    return min(_outline(outline) if outline else of_style, 6)


def _outline(value: str) -> int:
    return int(value) + 1 if value in tuple("012345678") else 0


def _style(paragraph: Any) -> str:
    return _value(paragraph, "w:pPr/w:pStyle")


def _value(element: Any, path: str) -> str:
    """The value of an element below; "" without it."""
    found = element.find(_clark(path))
    return "" if found is None else found.get(_VAL) or ""


@cache
def _clark(path: str) -> str:
    return "/".join(qn(name) for name in path.split("/"))


def _text(paragraph: Any) -> str:
    """What a paragraph says, without the paragraphs of a text box in it."""
    parts: list[str] = []
    for piece in paragraph.iter(*_PIECES):
        for ancestor in piece.iterancestors():
            if ancestor is paragraph:
                parts.append(_said(piece))
                break
            if ancestor.tag in _GONE or ancestor.tag == _P or (ancestor.tag == _R and _is_on(ancestor, "w:vanish")):
                break
    return "".join(parts)


def _said(piece: Any) -> str:
    if piece.tag != _T:
        return linear(piece) if piece.tag == f"{_M}oMath" else _CHARACTERS[piece.tag]
    text = piece.text or ""
    place = _value(piece.getparent(), "w:rPr/w:vertAlign") if text.strip("+-−").isdigit() else ""
    return raised(text) if place == "superscript" else lowered(text) if place == "subscript" else text


def _is_on(run: Any, name: str) -> bool:
    found = run.find(_clark(f"w:rPr/{name}"))
    return found is not None and found.get(_VAL) not in ("0", "false", "off")


def _is_bold(paragraph: Any) -> bool:
    runs = [run for run in paragraph.iter(_R) if any((text.text or "").strip() for text in run.iter(_T))]
    return bool(runs) and all(_is_on(run, "w:b") for run in runs)


def _table(table: Any) -> Iterator[Block]:
    """A table with a cell that spans rows in each of them; one of one column is but a frame around text."""
    rows: list[list[str]] = []
    heads = 0
    for row in table.iterchildren(_TR):
        is_head = heads == len(rows) and row.find(f"{qn('w:trPr')}/{qn('w:tblHeader')}") is not None
        heads += is_head
        line: list[str] = []
        for cell in row.iter(_TC):
            if next(cell.iterancestors(_TR)) is not row:
                continue  # of a table in a cell, whose text is in the cell
            text = " ".join(filter(None, (_text(paragraph).strip() for paragraph in cell.iter(_P))))
            merge = cell.find(f"{qn('w:tcPr')}/{qn('w:vMerge')}")
            if merge is not None and merge.get(qn("w:val")) != "restart" and rows and len(line) < len(rows[-1]):
                text = rows[-1][len(line)]
            span = _value(cell, "w:tcPr/w:gridSpan")
            columns = min(int(span), 63) if span.isascii() and span.isdigit() and len(span) < 4 else 1
            line += [text] + [text if is_head else ""] * (columns - 1)
        rows.append(line)
    if max(map(len, rows), default=0) < 2:
        yield from (Paragraph(text) for row in rows for text in row)
    else:
        yield Grid([joined_header(rows[:heads]), *rows[heads:]] if heads > 1 else rows)


def _notes(part: Any) -> Iterator[Block]:
    """Footnotes and endnotes, in the order of their numbers."""
    for relation in part.rels.values():
        if relation.reltype in (RELATIONSHIP_TYPE.FOOTNOTES, RELATIONSHIP_TYPE.ENDNOTES) and not relation.is_external:
            for note in parse_xml(relation.target_part.blob):
                if note.get(qn("w:type")) not in ("separator", "continuationSeparator", "continuationNotice"):
                    yield Paragraph(" ".join(_text(paragraph).strip() for paragraph in note.iter(_P)))


def _numbering(part: Any, styles: _Styles) -> Numbering:
    relation = next((r for r in part.rels.values() if r.reltype == RELATIONSHIP_TYPE.NUMBERING), None)
    known = relation is not None and not relation.is_external
    return Numbering(relation.target_part.element if relation and known else None, styles.chain)
