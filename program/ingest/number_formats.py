"""Values of spreadsheet cells as people see them: the number formats of Excel, as far as they show in text.

Colours, fillers and alignment are nothing to read and are left out. What has no plain meaning outside of Excel
(fractions, conditions other than by sign) is shown as Excel's General format does. Source: ECMA-376 part 1, 18.8.31.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

#: Decimal places that a format may ask for.
MAX_PLACES = 30

_TOKEN = re.compile(
    r"""
    "(?P<quoted>[^"]*)" | \\(?P<escaped>.) | _. | \*. | \[\$(?P<currency>[^\]-]*)[^\]]*\] | \[(?P<elapsed>[hms]+)\]
    | \[[^\]]*\] | (?P<half>AM/PM|A/P) | (?P<date>y+|m+|d+|h+|s+(?:\.0+)?)
    | (?P<digits>[0#?][0#?,]*(?:\.[0#?]*,*)?|\.[0#?]+,*)
    | (?P<power>E[+-]0+) | (?P<general>General) | (?P<literal>.)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_TEXT = ("quoted", "escaped", "currency", "literal")
_CONDITION = re.compile(r"\[[<>=]")
#: Formats that every country shows in its own way; here as ISO 8601 writes dates.
_LOCAL = {"mm-dd-yy": "yyyy-mm-dd", "m/d/yy h:mm": "yyyy-mm-dd hh:mm"}


def shown(value: object, number_format: str = "General") -> str:
    """A cell's value as its number format shows it; "" for an empty cell. Never raises."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).upper()
        case datetime() | date() | time() | timedelta():
            return _shown_date(value, number_format)
        case int() | float():
            try:
                return _shown_number(value, number_format)
            except (ArithmeticError, ValueError):  # not a finite number, or out of all bounds
                return str(value)[:40]
        case _:
            return str(value)


def _shown_number(value: float, number_format: str) -> str:
    sections = _sections(number_format)
    if _CONDITION.search(number_format):
        return _general(value)
    place = 1 if value < 0 and len(sections) > 1 else 2 if value == 0 and len(sections) > 2 else 0
    tokens = sections[place]
    if not tokens and len(sections) > 1:
        return ""  # a section without anything hides the number
    sign = "-" if value < 0 and place == 0 else ""
    kinds = [kind for kind, _ in tokens]
    if kinds.count("digits") != 1 or "date" in kinds:
        rest = "".join(text for kind, text in tokens if kind in _TEXT)
        has_number = not tokens or "@" in rest or {"digits", "general", "date"} & set(kinds)
        return _general(value) if has_number else rest
    parts: list[str] = []
    number = abs(Decimal(repr(value)))
    number *= 100 ** sum(text == "%" for kind, text in tokens if kind == "literal")
    power = next((text for kind, text in tokens if kind == "power"), "")
    for kind, text in tokens:
        if kind == "digits":
            parts.append(_scientific(number, text, power) if power else _digits(number, text))
        elif kind in _TEXT:
            parts.append(text)
    return sign + "".join(parts).strip()


def _digits(number: Decimal, pattern: str) -> str:
    whole, _, decimals = pattern.partition(".")
    for part in (whole, decimals):
        number /= 1000 ** (len(part) - len(part.rstrip(",")))  # each comma at the end divides by a thousand
    whole, decimals = whole.rstrip(","), decimals.rstrip(",")
    places = min(len(decimals), MAX_PLACES)
    number = number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    digits = f"{number:,f}" if "," in whole else f"{number:f}"
    head, _, tail = digits.partition(".")
    while tail and len(tail) > decimals.rfind("0") + 1 and tail.endswith("0"):
        tail = tail[:-1]
    head = head.zfill(whole.count("0")) if "," not in whole else head
    if head == "0" and "0" not in whole:
        head = ""
    return f"{head}.{tail}" if tail else head


def _scientific(number: Decimal, pattern: str, power: str) -> str:
    places = min(len(pattern.partition(".")[2]), MAX_PLACES)
    mantissa, _, exponent = f"{number:.{places}E}".partition("E")
    sign = "-" if exponent.startswith("-") else "+" if power[1] == "+" else ""
    return f"{mantissa}E{sign}{exponent[1:].lstrip('0').zfill(len(power) - 2)}"


def _general(value: float) -> str:
    """As Excel shows a number without a format: no more than 11 digits, without the noise of binary fractions."""
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        return str(int(value))
    return f"{value:.10g}".replace("e", "E")


def _shown_date(value: date | time | timedelta, number_format: str) -> str:
    if isinstance(value, timedelta):
        seconds = int(abs(value.total_seconds()))
        return f"{'-' if value < timedelta(0) else ''}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    tokens = _sections(_LOCAL.get(number_format, number_format))[0]
    if not any(kind == "date" for kind, _ in tokens):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    half = any(kind == "half" for kind, _ in tokens)
    clock = [place for place, (kind, text) in enumerate(tokens) if kind == "date" and text[0].lower() in "hs"]
    units = [place for place, (kind, _) in enumerate(tokens) if kind == "date"]
    parts: list[str] = []
    for place, (kind, text) in enumerate(tokens):
        if kind == "date":
            around = units[max(units.index(place) - 1, 0) : units.index(place) + 2]
            after_hours = around[0] in clock and tokens[around[0]][1][0].lower() == "h"
            before_seconds = around[-1] in clock and tokens[around[-1]][1][0].lower() == "s"
            parts.append(_date_part(value, text.lower(), after_hours or before_seconds, half))
        elif kind == "half":
            parts.append(("AM" if getattr(value, "hour", 0) < 12 else "PM")[: 1 if len(text) < 3 else 2])
        elif kind in _TEXT:
            parts.append(text)
    return "".join(parts).strip()


def _date_part(value: date | time, code: str, is_minute: bool, half: bool) -> str:
    width = len(code)
    if code[0] in "hs" or is_minute:
        clock = value.time() if isinstance(value, datetime) else value if isinstance(value, time) else time()
        if code[0] == "h":
            number = (clock.hour % 12 or 12) if half else clock.hour
        else:
            number = clock.minute if code[0] == "m" else clock.second
        return f"{number:02}" if width > 1 else str(number)
    if isinstance(value, time):
        return ""
    match code[0]:
        case "y":
            return f"{value.year:04}" if width > 2 else f"{value.year % 100:02}"
        case "m":
            return (str(value.month), f"{value.month:02}", f"{value:%b}", f"{value:%B}", f"{value:%B}"[0])[
                min(width, 5) - 1
            ]
        case _:
            return (str(value.day), f"{value.day:02}", f"{value:%a}", f"{value:%A}")[min(width, 4) - 1]


@lru_cache(maxsize=1024)
def _sections(number_format: str) -> list[list[tuple[str, str]]]:
    """A format as (kind, text) tokens of its sections: for positive numbers, negative ones, zero, and text."""
    sections: list[list[tuple[str, str]]] = [[]]
    for token in _TOKEN.finditer(number_format[:500]):
        if token.lastgroup == "literal" and token.group() == ";":
            sections.append([])
        elif token.lastgroup:
            sections[-1].append((token.lastgroup, token.group(token.lastgroup)))
    return sections
