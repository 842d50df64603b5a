"""Reader for web pages, and for the HTML in mails and books, by lxml.

lxml builds the tree in linear time and memory and no deeper than 2,048 elements. A parser that follows HTML5 to the
letter reopens every unclosed element in each paragraph, and makes gigabytes of a few kilobytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from lxml import etree

from program.errors import NoText, TooLarge
from program.ingest.blocks import Block, Code, Grid, Heading, Item, Page, Paragraph, document_from_blocks
from program.ingest.documents import DocumentText, clean_text
from program.ingest.formulas import linear, lowered, raised
from program.ingest.plain import decode

#: Tags in one page, and characters.
MAX_TAGS = 2_000_000
MAX_PAGE = 50_000_000
#: Columns or rows that one cell of a table may span.
MAX_SPAN = 50
#: Cells of a table, with those that others span.
MAX_CELLS = 1_000_000
#: A list of so many links and nothing else is a menu.
MENU_ITEMS = 10
#: Rows of a header.
MAX_HEADS = 4

_LEFT_OUT = (
    "annotation", "annotation-xml", "audio", "button", "canvas", "dialog", "iframe", "nav", "noscript", "object",
    "script", "select", "style", "svg", "template", "textarea", "video",
)  # fmt: skip
#: In the body, but outside of an article, these lead elsewhere as a navigation bar does.
_FRAME = "//body//*[self::header or self::footer or self::aside][not(ancestor::article or ancestor::main)][not(.//h1)]"
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html", "legend", "li", "main", "ol", "p",
    "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
}  # fmt: skip
_CHARSET = re.compile(rb"""<(?:meta[^>]{0,200}?charset=|\?xml[^>]{0,100}?encoding=)\s*["']?\s*([\w.:-]{2,40})""", re.I)
_UNSEEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)
_NUMBER = re.compile(r"[-−+]?\d{1,4}")
_BREAK = "\u2028"  # a line break that is meant, among white space that is not


def read_html(data: bytes, stem: str, _password: str | None = None) -> DocumentText:
    """A web page: what is shown of it, without navigation. Raises CorruptFile, NoText, TooLarge."""
    root = parse_html(decode_html(data))
    return document_from_blocks(html_blocks(root), stem, title=page_title(root))


def decode_html(data: bytes) -> str:
    """Bytes as text, by what the page says of its encoding, else as any text. Raises CorruptFile."""
    declared = _CHARSET.search(data[:4096])
    return decode(data, declared.group(1).decode("ascii", "replace") if declared else "")


def parse_html(text: str) -> Any:
    """The root element of a page, without what nobody is shown. Raises NoText, TooLarge."""
    if text.count("<") > MAX_TAGS or len(text) > MAX_PAGE:
        raise TooLarge(
            f"The page has over {MAX_TAGS:,} tags or {MAX_PAGE:,} characters.", "Divide it into smaller files."
        )
    text = clean_text(text)
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, no_network=True, remove_comments=True, remove_pis=True)
    root = etree.fromstring(text.encode("utf-8", "replace"), parser) if text.strip() else None
    if root is None:
        raise NoText("The page holds no text.")
    if any("depth" in entry.message for entry in parser.error_log):
        raise TooLarge("The page is nested too deeply.", "Save its text instead.")
    unseen = [element for element in root.iter() if _is_unseen(element) or _is_menu(element)]
    for element in [*unseen, *root.xpath(_FRAME)]:
        element.tag = "template"
    etree.strip_elements(root, *_LEFT_OUT, with_tail=False)
    for element in root.iter("br"):
        element.tail = _BREAK + (element.tail or "")
    for element in list(root.iter("math", "sup", "sub")):
        words, tail = _moved(element), element.tail
        if words:
            element.clear()
            element.text, element.tail = words, tail
    return root


def page_title(root: Any) -> str:
    """What a parsed page calls itself; "" if nothing."""
    return " ".join((root.findtext(".//head/title") or "").split())


def html_blocks(root: Any) -> Iterator[Block]:
    """The blocks of a parsed page, in order. A table that only lays out the page is read through."""
    inline: list[str] = []
    lists: list[int] = []  # for each open list the number of its last item, or -1 if it has none
    mark = ""  # of the item whose text has not come yet
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        starts, tag = event == "start", element.tag
        whole = starts and (tag in _HEADINGS or tag == "pre" or (tag == "table" and _is_data(element)))
        if whole or tag in _BLOCKS:
            text = "".join(inline)
            inline.clear()
            if text.strip():
                yield Item(f"{mark} {text.strip()}") if mark else Paragraph(text.strip())
                mark = ""
        if whole or (starts and tag == "head"):
            yield from _whole(element) if whole else ()
            walker.skip_subtree()
        elif starts:
            if tag in ("ol", "ul"):
                lists.append(0 if tag == "ol" else -1)
            elif tag == "li":
                numbered = bool(lists) and lists[-1] >= 0
                if numbered:
                    lists[-1] += 1
                mark = f"{lists[-1]}." if numbered else "-"
            inline.append(_flowing(element.text))
        else:
            if tag in ("ol", "ul") and lists:
                lists.pop()
            inline.append(_flowing(element.tail) if element is not root else "")
    if "".join(inline).strip():
        yield Paragraph("".join(inline).strip())


def _is_unseen(element: Any) -> bool:
    if element.tag in ("html", "body"):
        return False
    hidden = element.get("hidden") is not None or element.get("aria-hidden") == "true"
    return hidden or _UNSEEN.search(element.get("style") or "") is not None


def _is_menu(element: Any) -> bool:
    """Does it lead elsewhere: by its role, or as a long list of nothing but links?"""
    if element.get("role") in ("navigation", "search", "dialog"):
        return True
    if element.tag not in ("ul", "ol") or len(element) < MENU_ITEMS:
        return False
    for item in element:
        links = list(item.iter("a"))
        if len(links) != 1 or "".join(links[0].itertext()).strip() != "".join(item.itertext()).strip():
            return False
    return True


def _moved(element: Any) -> str:
    """A formula on one line; a number above or below the line; "" for other text there, which stays as it is."""
    if element.tag == "math":
        return element.get("alttext") or linear(element)
    text = "".join(element.itertext()).strip()
    if not _NUMBER.fullmatch(text):
        return ""
    return raised(text) if element.tag == "sup" else lowered(text)


def _flowing(text: str | None) -> str:
    return re.sub(r"[ \t\r\n\f]+", " ", text or "")


def _whole(element: Any) -> Iterator[Block]:
    """A heading, preformatted text, or a table of data."""
    if element.tag in _HEADINGS:
        yield Heading(_flowing("".join(element.itertext())).strip(" \u200b#¶"), _HEADINGS[element.tag])
    elif element.tag == "pre":
        yield Code("".join(element.itertext()))
    else:
        for caption in element.iterchildren("caption"):
            yield Paragraph(_flowing("".join(caption.itertext())))
        yield from _table(element)


def _is_data(table: Any) -> bool:
    """Is this a table of data, and no frame for what stands in it?"""
    inside = table.find(".//table") is not None or any(table.find(f".//{name}") is not None for name in _HEADINGS)
    if inside or table.get("role") in ("presentation", "none"):
        return False
    return len(table.xpath(".//tr")) > 1 and any(len(row.xpath("td | th")) > 1 for row in table.iter("tr"))


def _table(table: Any) -> Iterator[Block]:
    """A table of data: above it, as text, the rows of one cell; names and values (an info box) go line by line."""
    rows = _grid(table)
    while rows and len(texts := set(rows[0]) - {""}) < 2:
        yield Paragraph("".join(texts))
        del rows[0]
    cells = [[cell.tag for cell in row.xpath("td | th")] for row in table.iter("tr")]
    if all(tags == ["th", "td"] for tags in cells if len(tags) > 1):
        yield from (Paragraph(": ".join(filter(None, row))) for row in rows)
    else:
        yield Grid(rows)


def _grid(table: Any) -> list[list[str]]:
    """Rows of text. A cell that spans rows stands in each of them; a header of several rows is made one row."""
    rows: list[list[str]] = []
    heads = cells = 0
    below: dict[int, tuple[int, str]] = {}  # column: (rows that a cell above still spans, its text)
    for row in table.iter("tr"):
        line: list[str] = []
        found = row.xpath("td | th")
        is_head = heads == len(rows) < MAX_HEADS and (
            row.getparent().tag == "thead" or all(c.tag == "th" for c in found)
        )
        heads += is_head
        for cell in [*found, None]:
            while len(line) in below:
                left, text = below.pop(len(line))
                if left > 1:
                    below[len(line)] = left - 1, text
                line.append(text)
            if cell is not None:
                text = _cell(cell)
                for place in range(_span(cell, "colspan")):
                    if (deep := _span(cell, "rowspan")) > 1:
                        below[len(line)] = deep - 1, text
                    line.append(text if place == 0 or is_head else "")
        cells += len(line)
        if cells > MAX_CELLS:
            raise TooLarge(f"A table of the page has over {MAX_CELLS:,} cells.", "Divide it into smaller files.")
        rows.append(line)
    return [joined_header(rows[:heads]), *rows[heads:]] if heads > 1 else rows


def _cell(cell: Any) -> str:
    """What stands in a cell, on one line; the items of a list with semicolons between them."""
    blocks = [block for block in html_blocks(cell) if not isinstance(block, Grid | Page)]
    if blocks and all(isinstance(block, Item) for block in blocks):
        return "; ".join(" ".join(block.text.removeprefix("- ").split()) for block in blocks)
    return " ".join(" ".join(block.text.split()) for block in blocks)


def joined_header(rows: list[list[str]]) -> list[str]:
    """The rows of a header as one: each column's different texts, from top to bottom."""
    return [" ".join(dict.fromkeys(filter(None, texts))) for texts in zip_longest(*rows, fillvalue="")]


def _span(cell: Any, name: str) -> int:
    value = cell.get(name, "1").strip()
    return min(max(int(value), 1), MAX_SPAN) if value.isascii() and value.isdigit() and len(value) < 10 else 1
