"""The routes that are not the library: calculator, web search, SQL.

Each returns its result as one piece of Evidence, so that it is cited like any passage, or raises NotConfigured.
"""

from __future__ import annotations

import ast
import math
import re

import simpleeval

from program.errors import NotConfigured, QuestionError
from program.types import Chunk, Evidence, Sentence, SourceKind

_FUNCTIONS = {
    "sqrt": math.sqrt, "log": math.log, "log2": math.log2, "log10": math.log10, "exp": math.exp,
    "abs": abs, "round": round, "min": min, "max": max,
}  # fmt: skip
_NAMES = {"pi": math.pi, "e": math.e}
_SEVERAL_ARGUMENTS = re.compile(r"\b(?:min|max|round|log)\s*\(")  # in them, `1,200` is two numbers
_LARGEST_POWER = 32_768  # bits
_ARITHMETIC = re.compile(r"[\d.,\s()+\-*/%^×÷·−–]+")
_OPERATOR = re.compile(r"[+*/^×÷·]|(?<=[\d)\s])[-−–]\s*(?=[\d(.])")
_SPELLING = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "^": "**"})


def plain_arithmetic(question: str) -> str | None:
    """The expression in a question that is all figures and operators but for a lead-in (`What is 17 * 23?`), or None.

    Percent signs are left to the language model: `15% of 80` is not the modulo that `15 % 80` is.
    """
    body = re.sub(
        r"^\s*(what('s| is)|whats|calculate|compute|evaluate|how much is|solve)\b[:\s]*", "", question, flags=re.I
    )
    body = body.strip().rstrip("?=. ").strip()
    if "%" in body or not _ARITHMETIC.fullmatch(body) or not _OPERATOR.search(body):
        return None
    return re.sub(r"(?<=\d),(?=\d{3}\b)", "", body).translate(_SPELLING)


def calculate(expression: str) -> Evidence:
    """Evaluate arithmetic and give `expression = value` as evidence.

    Raises QuestionError when it is not arithmetic, is too large, or has no value (1/0).
    """
    cleaned = expression.strip().translate(_SPELLING)
    if not _SEVERAL_ARGUMENTS.search(cleaned):
        cleaned = re.sub(r"(?<=\d),(?=\d{3}\b)", "", cleaned)
    operators = {**simpleeval.DEFAULT_OPERATORS, ast.Pow: _power}
    try:
        value = simpleeval.SimpleEval(operators, _FUNCTIONS, _NAMES).eval(cleaned)
        text = f"{cleaned} = {_number(value)}"
    except Exception as error:  # simpleeval raises its own tree, SyntaxError, ArithmeticError, TypeError, ...
        raise QuestionError(
            f"This could not be calculated: {cleaned[:80]!r} ({error}).", "Ask with plain numbers."
        ) from error
    return _evidence("calculation", "calculator", "Calculator", text)


def search_web(_question: str) -> Evidence:
    """Search the web. No search engine can be set up yet, so this always raises NotConfigured."""
    raise NotConfigured("Web search is not configured.", "The library is searched instead.")


def query_sql(_question: str) -> Evidence:
    """Query a database. No database can be set up yet, so this always raises NotConfigured."""
    raise NotConfigured("No SQL database is configured.", "The library is searched instead.")


def _power(base: float, exponent: float) -> float:
    """base ** exponent, refused where the figure would take seconds: it may have some 10,000 digits."""
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > _LARGEST_POWER:
        raise ValueError("too large")
    return base**exponent  # type: ignore[no-any-return]


def _number(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not a finite number")
    if isinstance(value, int) and abs(value) >= 10**30:
        return f"{value:.10e}"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _evidence(kind: SourceKind, document: str, title: str, text: str) -> Evidence:
    chunk = Chunk(id=f"{kind}:{text}", document=document, title=title, text=text, end=len(text))
    return Evidence(1, chunk, (Sentence(text, 0, len(text)),), score=1.0, kind=kind)
