"""Formulas on one line, as people type them: MathML of web pages and books, and Office's own mark-up.

What is raised or lowered becomes so in Unicode where it can (10⁻⁶, x₂), else it is written x^(n+1), x_(ij); a fraction
becomes a/b. Text would else read as another number: 10-6, x2, ab.
"""

from __future__ import annotations

import re
from typing import Any

#: Formulas nested deeper than this are written as their text alone.
MAX_DEPTH = 40

_PLAIN = "0123456789+-−=()ni"
_RAISED = dict(zip(_PLAIN, "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿⁱ", strict=True)) | {"∘": "°", "°": "°", "′": "′"}
_LOWERED = dict(zip(_PLAIN, "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₙᵢ", strict=True))
_SIMPLE = re.compile(r"[\w.⁰¹²³⁴⁵⁶⁷⁸⁹⁻₀₁₂₃₄₅₆₇₈₉]*|[(\[{][^()\[\]{}]*[)\]}]")
#: Elements of MathML, and of Office's mark-up, by what they do with their parts.
_SCRIPTS = {"msup": "^", "sSup": "^", "msub": "_", "sSub": "_", "msubsup": "_^", "sSubSup": "_^"}
_FRACTIONS = ("mfrac", "f")
_ROOTS = ("msqrt", "mroot", "rad")
_LEFT_OUT = ("annotation", "annotation-xml")


def linear(formula: Any, depth: int = 0) -> str:
    """The text of an element of a formula (lxml) and of all in it."""
    if depth > MAX_DEPTH:
        return "".join(formula.itertext())
    name = _name(formula)
    parts = [linear(part, depth + 1) for part in formula if _name(part) not in _LEFT_OUT and not _is_property(part)]
    if name in _FRACTIONS and len(parts) == 2:
        return f"{_grouped(parts[0])}/{_grouped(parts[1])}"
    if name in _SCRIPTS and len(parts) == 1 + len(_SCRIPTS[name]):
        moved = [
            raised(part) if kind == "^" else lowered(part) for kind, part in zip(_SCRIPTS[name], parts[1:], strict=True)
        ]
        return parts[0] + "".join(moved)
    if name in _ROOTS:
        # Office puts the degree first, MathML last; MathML's square root has all of its content under the root.
        degree = parts.pop(0 if name == "rad" else -1) if name != "msqrt" and len(parts) == 2 else ""
        return f"{raised(degree) if degree else ''}√{_grouped(''.join(parts))}"
    if not len(formula):
        return (formula.text or "").strip(" \t\r\n")
    return "".join(parts)


def raised(text: str) -> str:
    """Text as an exponent."""
    return _moved(text, _RAISED, "^")


def lowered(text: str) -> str:
    """Text as an index."""
    return _moved(text, _LOWERED, "_")


def _moved(text: str, characters: dict[str, str], mark: str) -> str:
    text = text.strip()
    if all(character in characters for character in text):
        return "".join(characters[character] for character in text)
    return f"{mark}{_grouped(text)}"


def _grouped(text: str) -> str:
    return text if _SIMPLE.fullmatch(text) else f"({text})"


def _name(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _is_property(element: Any) -> bool:
    return _name(element).endswith("Pr")
