"""A line of print as MuPDF gives it, turned so that it reads from left to right, and its words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from unicodedata import bidirectional

from program.ingest.bidi import has_right_to_left, logical_order, mirrored_back, mostly_right_to_left
from program.ingest.documents import clean_text
from program.ingest.grids import Word
from program.ingest.layout import Box

_BOLD = 16  # flag of a span
_PRINTED = 16 | 32  # flags of a span's characters: filled, stroked
_CJK = re.compile(r"[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]")


@dataclass(frozen=True, slots=True)
class Frame:
    """How a page is turned: the direction its text runs in, and whether it is mirrored (text from right to left)."""

    direction: tuple[int, int]
    mirrored: bool = False

    def turn(self, box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        """The box in a frame where this text runs from left to right, lines from top to bottom."""
        if self.direction == (1, 0) and not self.mirrored:
            return box
        x, y = self.direction if self.direction != (0, 0) else (1, 0)
        us = [u * x + v * y for u in (box[0], box[2]) for v in (box[1], box[3])]
        vs = [v * x - u * y for u in (box[0], box[2]) for v in (box[1], box[3])]
        left, right = (-max(us), -min(us)) if self.mirrored else (min(us), max(us))
        return left, min(vs), right, max(vs)


@dataclass(frozen=True, slots=True)
class Line:
    """A line as MuPDF gives it, in its frame; `printed` is false for the invisible text over a scan."""

    text: str
    words: tuple[Word, ...]
    box: Box
    size: float
    bold: bool
    printed: bool


def read_line(line: Any, frame: Frame) -> Line:
    spans = [span for span in line["spans"] if any(not c["c"].isspace() for c in span["chars"])]
    characters = [(c["c"], frame.turn(c["bbox"])) for span in line["spans"] for c in span["chars"]]
    if has_right_to_left("".join(character for character, _ in characters)):
        characters = _in_reading_order(characters, frame)
    words = tuple(_words(characters))
    text = " ".join(word.text for word in words)
    if not spans or not text:
        return Line("", (), Box(0, 0, 0, 0, 0), 0.0, False, True)
    size = max(float(max(spans, key=lambda span: len(span["chars"]))["size"]), 0.1)  # damaged files have 0
    bold = all(span["flags"] & _BOLD or "bold" in span["font"].casefold() for span in spans)
    printed = any(span["char_flags"] & _PRINTED or span["alpha"] for span in spans)
    _, y0, _, y1 = frame.turn(line["bbox"])
    x0, x1 = min(word.box.x0 for word in words), max(word.box.x1 for word in words)
    length = len(text) + len(_CJK.findall(text))  # an ideograph says as much as two letters
    return Line(text, words, Box(x0, y0, x1, y1, length), size, bold, printed)


def _words(characters: Iterable[tuple[str, tuple[float, float, float, float]]]) -> Iterator[Word]:
    letters: list[str] = []
    boxes: list[tuple[float, float, float, float]] = []

    def word() -> Word:
        wide = [box for box in boxes if not _narrow(box)] or boxes  # a mark may stand where it likes
        x0, y0 = min(box[0] for box in wide), min(box[1] for box in wide)
        x1, y1 = max(box[2] for box in wide), max(box[3] for box in wide)
        return Word("".join(letters), Box(x0, y0, x1, y1, len(letters)))

    for character, box in characters:
        cleaned = character if character.isprintable() else clean_text(character)
        if cleaned.isspace():
            if letters:
                yield word()
            letters, boxes = [], []
        else:
            letters.append(cleaned)
            boxes.append(box)
    if letters:
        yield word()


def _narrow(box: tuple[float, float, float, float]) -> bool:
    return box[2] - box[0] < 0.05


def _in_reading_order(
    characters: list[tuple[str, tuple[float, float, float, float]]], frame: Frame
) -> list[tuple[str, tuple[float, float, float, float]]]:
    """The characters of a line with right-to-left letters: MuPDF keeps such words whole but mixes up their order."""
    glyphs: list[list[tuple[str, tuple[float, float, float, float]]]] = []
    for character in characters:  # what has no width belongs to the glyph before it: marks, the rest of a ligature
        if glyphs and _narrow(character[1]) and bidirectional(character[0]) not in ("L", "EN"):
            glyphs[-1].append(character)
        else:
            glyphs.append([character])
    glyphs.sort(key=lambda glyph: glyph[0][1][0] + glyph[0][1][2], reverse=frame.mirrored)
    text = "".join(character for character, _ in characters)
    order = logical_order([glyph[0][0] for glyph in glyphs], mostly_right_to_left(text))
    ordered = [character for index in order for character in glyphs[index]]
    turned = mirrored_back("".join(character for character, _ in ordered))
    return [(new, box) for new, (_, box) in zip(turned, ordered, strict=True)]


def direction_of(line: Any) -> tuple[int, int]:
    return round(line["dir"][0]), round(line["dir"][1])


def bounds_of(lines: list[Line]) -> Box:
    boxes = [line.box for line in lines]
    return Box(
        min(box.x0 for box in boxes),
        min(box.y0 for box in boxes),
        max(box.x1 for box in boxes),
        max(box.y1 for box in boxes),
        sum(box.prose for box in boxes) / len(boxes),
    )
