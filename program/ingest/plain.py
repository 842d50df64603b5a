"""Readers for Markdown and plain text."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import yaml
from charset_normalizer import from_bytes
from frontmatter.default_handlers import YAMLHandler

from program.errors import CorruptFile, NoText
from program.ingest.documents import DocumentText, Outline, Section, clean_text, clean_title, kind_of, title_from_name
from program.ingest.tables import find_tables, repeat_headers

#: Bytes that encoding detection looks at.
DETECTION_BYTES = 200_000
#: Share of control characters from which bytes are no text.
CONTROL_SHARE = 0.05

_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_CONTROL = bytes(sorted(set(range(32)) - set(b"\t\n\v\f\r\x1b")))
#: Character sets; Python's other codecs (of escapes, of domain names) are not made for texts of strangers.
_CHARACTER_SETS = re.compile(
    r"utf[-_]?8|utf[-_]?16([-_]?[lb]e)?|(us-)?ascii|iso[-_]?(8859[-_]?\d+|2022[-_](jp|kr))|latin[-_]?\d|windows[-_]?125\d|cp\d+"
    r"|koi8[-_][ru]|gb2312|gbk|gb18030|big5([-_]hkscs)?|euc[-_](jp|kr)|(x-)?s(hift)?[-_]?jis|mac[-_]?roman|tis[-_]?620",
    re.IGNORECASE,
)
_LATIN_1 = re.compile(r"(us-)?ascii|iso[-_]?8859[-_]?1|latin[-_]?1", re.IGNORECASE)
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_TITLE_LINE = re.compile(r"\s*(?=[^\n]*[^\W\d_]{3})(\S[^\n]{3,100}[^\s.,:;!?])[ \t]*\n[ \t]*\n\s*\S")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")


def read_markdown(data: bytes, stem: str, _password: str | None = None) -> DocumentText:
    """Markdown with optional YAML front matter (title, authors, year, arxiv, field, topics).

    The document's text is what follows the front matter; long tables in it are written in parts. Raises CorruptFile,
    NoText.
    """
    metadata, text = _front_matter(clean_text(decode(data)))
    text = repeat_headers(text)
    title, sections = markdown_sections(text)
    if not sections:
        raise NoText("The file holds no text.")
    topics = _words(metadata.get("topics"))
    return DocumentText(
        title=clean_title(_word(metadata.get("title"))) or title or title_from_name(stem),
        text=text,
        sections=tuple(sections),
        source=_source(metadata),
        field=_word(metadata.get("field")) or (topics[0] if topics else ""),
        year=_year(metadata.get("year")),
        tables=find_tables(text),
    )


def read_text(data: bytes, stem: str, _password: str | None = None) -> DocumentText:
    """Plain text: one section. A line that stands alone above the rest is its title. Raises CorruptFile, NoText."""
    text = clean_text(decode(data))
    if not text.strip():
        raise NoText("The file holds no text.")
    first = _TITLE_LINE.match(text)
    title = clean_title(first.group(1)) if first else title_from_name(stem)
    return DocumentText(title=title, text=text, sections=(Section(0, len(text)),))


def decode(data: bytes, declared: str = "") -> str:
    """Bytes as text: by their mark, by the encoding they are `declared` to be in, as UTF-8, or as statistics say.

    Raises CorruptFile for binary data.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    if _CHARACTER_SETS.fullmatch(declared):
        try:
            # What is called Latin 1 or ASCII is Windows' superset of both, as browsers read it.
            return data.decode("cp1252" if _LATIN_1.fullmatch(declared) else declared)
        except (LookupError, UnicodeError):
            pass  # many a page says one thing and is another
    if len(data) - len(data.translate(None, _CONTROL)) > CONTROL_SHARE * len(data):
        raise CorruptFile("This is binary data, not text.", "Its name may have the wrong extension.")
    text = data.decode("utf-8", errors="replace")
    foreign = len(text) - len(text.encode("ascii", errors="ignore"))
    if text.count("\ufffd") <= foreign / 2:  # a few damaged bytes do not make it another encoding
        return text
    best = from_bytes(data[:DETECTION_BYTES]).best()
    if best is None:
        raise CorruptFile("The text is in no known encoding.", "Save the file as UTF-8.")
    return data.decode(best.encoding, errors="replace")


def _front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Metadata and the rest; text whose front matter is no plain YAML mapping is all text.

    YAML is read by the safe loader, and aliases are refused: a few of them can stand for gigabytes.
    """
    handler = YAMLHandler()
    if not handler.detect(text):
        return {}, text
    try:
        block, content = handler.split(text)
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(block)):
            return {}, text
        metadata = handler.load(block)
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return {}, text  # the loader's own errors, and what its number and date constructors raise
    return (metadata, content) if isinstance(metadata, dict) else ({}, text)


def markdown_sections(text: str) -> tuple[str, list[Section]]:
    """The first top heading, which is the document's title, and the sections between headings."""
    title, heading, kind = "", "", kind_of("")
    outline = Outline()
    sections: list[Section] = []
    start = position = 0
    fenced = False
    for line in text.splitlines(keepends=True):
        if _FENCE.match(line):
            fenced = not fenced
        found = None if fenced else _HEADING.match(line.rstrip("\n"))
        if found:
            sections.append(Section(start, position, heading, kind))
            own, level = clean_title(found.group(2)), len(found.group(1))
            if not title and level == 1:
                title, own = own, ""
            kind = kind_of(own)
            heading = outline.heading(level, own, after_text=bool(text[start:position].strip()))
            start = position + len(line)
        position += len(line)
    sections.append(Section(start, len(text), heading, kind))
    return title, [section for section in sections if text[section.start : section.end].strip()]


def _word(value: object) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def _words(value: object) -> list[str]:
    values = value if isinstance(value, list) else str(value).split(",") if isinstance(value, str) else []
    return [word for word in map(_word, values) if word]


def _year(value: object) -> int | None:
    found = re.search(r"\b(?:1[5-9]|20)\d\d\b", str(value)) if isinstance(value, str | int | date) else None
    return int(found.group()) if found else None


def _source(metadata: dict[str, Any]) -> str:
    authors = _words(metadata.get("authors"))
    named = ", ".join(authors[:3]) + (" et al." if len(authors) > 3 else "")
    arxiv = _word(metadata.get("arxiv")).removeprefix("arXiv:")
    return ", ".join(part for part in (named, f"arXiv:{arxiv}" if arxiv else "") if part)
