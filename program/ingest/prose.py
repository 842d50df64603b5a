"""From the rows of a laid-out document to running text: paragraphs, headings, sections."""

from __future__ import annotations

import re
from collections import Counter

from program.ingest.documents import DocumentText, Outline, Section, Table, clean_title, kind_of
from program.ingest.line_ends import joined_rows, set_before, vocabulary_of
from program.ingest.paragraphs import Paragraph, Row, body_size, in_order, paragraphs_of
from program.ingest.tables import find_tables

#: Earliest place, as a share of the document, where its references and its acknowledgments may begin.
REFERENCES_FROM = 0.3
ACKNOWLEDGMENTS_FROM = 0.5

_RUN_IN = re.compile(
    r"(?:(Abstract|ABSTRACT)\s*[—–:.-]|(Acknowledge?ments?|ACKNOWLEDGE?MENTS?)(?:\s*[—–:.-]|\s))\s*(?=[A-Z\"“])"
)
_LEVELS = re.compile(r"((?:\d{1,2}|[A-Z])(?:\.\d{1,2})*)\.?\s")
_NUMBER = r"(?:[\dIVX]+\.?\s+)?"
_OF_A_PAPER = re.compile(rf"{_NUMBER}(?:abstract|introduction)[.:]?", re.I)
_REFERENCES = re.compile(rf"{_NUMBER}(?:references|bibliography|works cited|literature cited)[.:]?", re.I)
_ACKNOWLEDGMENTS = re.compile(rf"{_NUMBER}acknowledge?ments?[.:]?", re.I)
_APPENDIX = re.compile(
    r"(?:[A-Z]\.?\s+)?(?:[Aa]ppendi|APPENDI|[Ss]upplement|SUPPLEMENT)|[A-Z](?:\.\d{1,2})*\.?\s+[A-Z]"
)


def document_from_rows(rows: list[Row], *, back_matter: bool = False) -> DocumentText:
    """Text with a blank line between paragraphs, its sections, tables and pages; the title is left to the caller.

    back_matter: keep a paper's acknowledgments and references too.
    """
    paragraphs = list(in_order(paragraphs_of(rows, body_size(rows))))
    headed = [(_heading_of(paragraph), paragraph) for paragraph in paragraphs]
    if not back_matter and any(_OF_A_PAPER.fullmatch(heading) for (_, heading), _ in headed):
        headed = _without_back_matter(headed)
    return _assemble([(run_in, paragraph) for (run_in, _), paragraph in headed], vocabulary_of(rows))


def _heading_of(paragraph: Paragraph) -> tuple[str, str]:
    """(what is run into the paragraph, the heading): Abstract. We ...; both are "" for most."""
    if paragraph.kind == "heading":
        return "", paragraph.text
    run_in = _RUN_IN.match(paragraph.text) if paragraph.kind in ("body", "float") else None
    return (run_in.group(), run_in.group(1) or run_in.group(2)) if run_in else ("", "")


def _without_back_matter(
    paragraphs: list[tuple[tuple[str, str], Paragraph]],
) -> list[tuple[tuple[str, str], Paragraph]]:
    """Without all that follows the heading of the acknowledgments or the references, but for appendices: they hold
    numbers and proofs that people ask for, and nobody's name."""
    kept: list[tuple[tuple[str, str], Paragraph]] = []
    total = sum(len(paragraph.text) for _, paragraph in paragraphs)
    position = 0
    left_out = False
    for headed, paragraph in paragraphs:
        heading = headed[1]
        at = position / total
        if (at >= REFERENCES_FROM and _REFERENCES.fullmatch(heading)) or (
            at >= ACKNOWLEDGMENTS_FROM and _ACKNOWLEDGMENTS.fullmatch(heading)
        ):
            left_out = True
        elif heading and _APPENDIX.match(heading):
            left_out = False
        position += len(paragraph.text)
        if not left_out:
            kept.append((headed, paragraph))
    return kept


def _assemble(paragraphs: list[tuple[str, Paragraph]], vocabulary: Counter[str]) -> DocumentText:
    parts: list[str] = []
    length = 0
    sections: list[Section] = []
    pages: list[tuple[int, int]] = []
    tables: list[Table] = []
    heading, kind, start = "", kind_of(""), 0
    outline = Outline()

    def add(text: str) -> None:
        nonlocal length
        parts.append(text)
        length += len(text)

    for run_in, paragraph in paragraphs:
        if length:
            add("\n\n")
        if paragraph.kind == "heading" or run_in:
            sections.append(Section(start, length, heading, kind))
            own = clean_title(run_in.strip(" —–:.-") or joined_rows(paragraph.rows, vocabulary))
            kind = kind_of(own)
            number = _LEVELS.match(own)
            level = len(number.group(1).split(".")) if number else 0
            heading = outline.heading(level, own, after_text=length - start > len("\n\n"))
        before = length
        for place, row in enumerate(paragraph.rows):
            following = paragraph.rows[place + 1] if place + 1 < len(paragraph.rows) else None
            if not pages or pages[-1][1] != row.page:
                pages.append((length, row.page))
            if paragraph.kind == "table":
                tables += [
                    Table(length + found.start, length + found.end, length + found.header_end)
                    for found in find_tables(row.text)
                ]
            add(set_before(row.text, following.text, vocabulary) if following else row.text)
        if paragraph.kind == "heading":
            start = length
        elif run_in:
            start = before + len(run_in)
    sections.append(Section(start, length, heading, kind))
    text = "".join(parts)
    return DocumentText(
        title="",
        text=text,
        sections=tuple(section for section in sections if text[section.start : section.end].strip()),
        pages=tuple(pages),
        tables=tuple(tables),
    )
