"""The numbers that Word sets before paragraphs: they are not in the text, but people see and cite them.

Source: ECMA-376 part 1, 17.9 (numbering). A paragraph, or its style, names a list and a level of it; the list's
abstract one has the form of each level, for example `%1.%2)`, where `%n` is the number of level n.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from docx.oxml.ns import qn

#: Levels of a list, and the largest number written out in letters or Roman numerals.
LEVELS = 9
MAX_WRITTEN = 3999

_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
          (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip


class Numbering:
    """Counts along as a document is read from its beginning to its end."""

    def __init__(self, definitions: Any | None, chain: Callable[[str], Iterable[Any]]) -> None:
        """definitions: the root of the numbering part, if there is one. chain: a style and those it is based on."""
        self._chain = chain
        self._levels: dict[str, dict[int, tuple[str, str, int]]] = {}  # of each abstract list: (format, form, start)
        self._lists: dict[str, str] = {}  # list: its abstract list
        self._counts: dict[str, list[int | None]] = {}
        if definitions is None:
            return
        for abstract in definitions.iterchildren(qn("w:abstractNum")):
            self._levels[abstract.get(qn("w:abstractNumId"), "")] = {
                _number(level.get(qn("w:ilvl")), 0): (
                    _attribute(level, "w:numFmt"),
                    _attribute(level, "w:lvlText"),
                    _number(_attribute(level, "w:start"), 1),
                )
                for level in abstract.iterchildren(qn("w:lvl"))
            }
        for item in definitions.iterchildren(qn("w:num")):
            self._lists[item.get(qn("w:numId"), "")] = _attribute(item, "w:abstractNumId")

    def mark(self, paragraph: Any, style: str) -> str:
        """What Word sets before this paragraph: its number, `-` for any bullet, "" if it is in no list."""
        name, level = self._place(paragraph, style)
        levels = self._levels.get(self._lists.get(name, ""), {})
        if level not in levels:
            return ""
        form, text, _ = levels[level]
        if form == "bullet":
            return "-"
        if form == "none":
            return ""
        counts = self._counts.setdefault(self._lists[name], [None] * LEVELS)
        for place in range(level + 1):
            start = levels[place][2] if place in levels else 1
            if place == level:
                now = counts[place]
                counts[place] = start if now is None else now + 1
            elif counts[place] is None:
                counts[place] = start
        counts[level + 1 :] = [None] * (LEVELS - level - 1)

        def number(found: re.Match[str]) -> str:
            place = int(found.group(1)) - 1
            return _written(counts[place] or 0, levels[place][0] if place in levels else "decimal")

        return re.sub(r"%([1-9])", number, text).strip()

    def _place(self, paragraph: Any, style: str) -> tuple[str, int]:
        """(list, level) of a paragraph."""
        for element in (paragraph, *self._chain(style)):
            found = element.find(f"{qn('w:pPr')}/{qn('w:numPr')}")
            if found is not None:
                level = _number(_attribute(found, "w:ilvl"), 0)
                return _attribute(found, "w:numId"), min(level, LEVELS - 1)
        return "", 0


def _attribute(element: Any, name: str) -> str:
    found = element.find(qn(name))
    return "" if found is None else found.get(qn("w:val")) or ""


def _number(value: str | None, default: int) -> int:
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 8 else default


def _written(number: int, form: str) -> str:
    if form.endswith("Letter") and 0 < number <= MAX_WRITTEN:
        letters = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)  # z is followed by aa, bb
    elif form.endswith("Roman") and 0 < number <= MAX_WRITTEN:
        letters = ""
        for value, digits in _ROMAN:
            letters += digits * (number // value)
            number %= value
    else:
        return f"{number:02}" if form == "decimalZero" else str(number)
    return letters.upper() if form.startswith("upper") else letters
