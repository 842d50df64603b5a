"""Labelled questions as typed values, read from JSONL or CSV and checked line by line.

Both files have one question a line with these columns; in CSV, `history`, `variants` and `quotes` hold JSON, and cells
are parted by commas, semicolons or tabs.

    routing: id, question, history, strategy, transform, domain, voice, part
    qa:      id, question, history, answer, variants, quotes, strategy, transform, answerable, part

Gold is a verbatim quote with its document, never a chunk, so that labels survive another way of chunking.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from program.errors import LabelError
from program.types import Strategy, Turn

Part = Literal["train", "dev", "test"]
LabelTransform = Literal["clear", "vague", "compound", "broad", "needs_context"]

ROUTING, QUESTIONS = "routing", "qa"
_LISTS = ("history", "variants", "quotes")
_HINTS = {  # by pydantic's name of the error
    "bool_parsing": "Write true or false.",
    "bool_type": "Write true or false.",
    "list_type": 'Write a list, for example [] or ["eight heads"].',
    "model_type": 'Write an object, for example {"document": "a.md", "quote": "..."}.',
    "string_too_short": "Write it out.",
    "string_type": "Write text.",
}


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class PastTurn(_Row):
    question: str = Field(min_length=1)
    answer: str


class Quote(_Row):
    """Words that stand in a document exactly so (white space apart)."""

    document: str = Field(min_length=1)
    quote: str = Field(min_length=3)


class RoutingLabel(_Row):
    """The route a question should take."""

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    history: list[PastTurn] = []
    strategy: Strategy
    transform: LabelTransform = "clear"
    domain: str = ""
    voice: str = ""
    part: Part

    @property
    def label(self) -> str:
        """The class in `ROUTE_LABELS`."""
        return self.transform if self.strategy == "single" else self.strategy

    @property
    def turns(self) -> list[Turn]:
        return [Turn(turn.question, turn.answer) for turn in self.history]

    @model_validator(mode="after")
    def _one_transform(self) -> RoutingLabel:
        if self.strategy != "single" and self.transform != "clear":
            raise ValueError(f"transform: {self.strategy} takes no transform; write clear instead of {self.transform}")
        return self


class QuestionLabel(RoutingLabel):
    """A question with its right answer, the quotes that hold it, and whether the library answers it at all."""

    answer: str = ""
    variants: list[str] = []
    quotes: list[Quote] = []
    answerable: bool

    @property
    def answers(self) -> list[str]:
        return [text for text in (self.answer, *self.variants) if text]

    @model_validator(mode="after")
    def _gold(self) -> QuestionLabel:
        if self.answerable and not self.answer:
            raise ValueError("answer: an answerable question needs its answer; write it, or set answerable to false")
        if self.answerable and self.strategy in ("single", "multi_hop") and not self.quotes:
            raise ValueError(
                "quotes: an answerable question needs the quotes that answer it; copy them from a document"
            )
        if not self.answerable and self.quotes:
            raise ValueError(
                "quotes: a question that cannot be answered has none; empty them, or set answerable to true"
            )
        return self


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with one line of a label file, and how to mend it."""

    path: Path
    line: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message} {self.hint}".strip()


@dataclass(frozen=True, slots=True)
class Labels:
    """A label set. `hashes`: file name to sha256, as the artifact keeps them."""

    routing: list[RoutingLabel]
    questions: list[QuestionLabel]
    hashes: dict[str, str]


Row = TypeVar("Row", bound=RoutingLabel)


def read_labels(folder: Path) -> Labels:
    """`routing` and `qa` (JSONL or CSV) of a folder. Raises LabelError, also when one of them is missing."""
    paths = {kind: find(folder, kind) for kind in (ROUTING, QUESTIONS)}
    return Labels(
        read_routing(paths[ROUTING]),
        read_questions(paths[QUESTIONS]),
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths.values()},
    )


def find(folder: Path, kind: str) -> Path:
    """The file `kind`.jsonl or `kind`.csv of a folder. Raises LabelError."""
    for path in (folder / f"{kind}.jsonl", folder / f"{kind}.csv"):
        if path.is_file():
            return path
    raise LabelError(
        f"There is neither {kind}.jsonl nor {kind}.csv in {folder}.", "Name the folder that holds them with --labels."
    )


def read_routing(path: Path) -> list[RoutingLabel]:
    """Raises LabelError with file, line, column and what to write instead."""
    return _all_or_raise(path, RoutingLabel)


def read_questions(path: Path) -> list[QuestionLabel]:
    """Raises LabelError with file, line, column and what to write instead."""
    return _all_or_raise(path, QuestionLabel)


def scan(path: Path, row: type[Row], part: Part | None = None) -> Iterator[tuple[int, Row | Problem]]:
    """(line, label or problem) for every line. part: what a row without one gets; else that is a problem.

    Raises LabelError when the file cannot be read at all.
    """
    seen: dict[str, int] = {}
    for line, found in rows(path):
        value = found if isinstance(found, Problem) else _parsed(path, line, found)
        if isinstance(value, Problem):
            yield line, value
            continue
        try:
            label = row.model_validate(value if part is None else {"part": part} | value)
        except ValidationError as error:
            for detail in error.errors():
                yield line, _problem(path, line, dict(detail))
            continue
        if label.id in seen:
            message = f"column id: {label.id!r} was used in line {seen[label.id]}."
            yield line, Problem(path, line, message, "Give every question an id of its own.")
            continue
        seen[label.id] = line
        yield line, label


def rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | Problem]]:
    """(line, the row as the file has it) for every line that is not empty; a CSV row's empty cells are left out.

    Raises LabelError when the file cannot be read at all.
    """
    text = read_text(path)
    yield from _csv_rows(path, text) if is_csv(path) else _json_rows(path, text)


def is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def read_text(path: Path) -> str:
    """Raises LabelError."""
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise LabelError(f"{path} cannot be read ({error.strerror}).", "Check the path.") from error
    except UnicodeDecodeError as error:
        raise LabelError(f"{path} is not UTF-8 (byte {error.start}).", "Save it as UTF-8.") from error


def delimiter(text: str) -> str:
    """What parts the cells of a CSV file: spreadsheets of some countries write semicolons."""
    return max(",;\t", key=text.split("\n", 1)[0].count)


def _all_or_raise(path: Path, row: type[Row]) -> list[Row]:
    found = [item for _, item in scan(path, row)]
    problems = [item for item in found if isinstance(item, Problem)]
    if problems:
        more = f" {len(problems) - 1} more: run `python -m optimize labels check {path}`." if len(problems) > 1 else ""
        raise LabelError(f"{path}:{problems[0].line}: {problems[0].message}", problems[0].hint + more)
    if not found:
        raise LabelError(f"{path} holds no labels.", "Write one question a line.")
    return [item for item in found if not isinstance(item, Problem)]


def _json_rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any] | Problem]]:
    # Not splitlines: a JSON string may hold U+2028, which that would break at.
    for line, row in enumerate(text.split("\n"), 1):
        if not row.strip():
            continue
        try:
            value = json.loads(row)
        except json.JSONDecodeError as error:
            yield line, Problem(path, line, f"not JSON at character {error.colno}: {error.msg}.", "One object a line.")
            continue
        if isinstance(value, dict):
            yield line, value
        else:
            yield line, Problem(path, line, f"a {type(value).__name__}, not an object.", "One object a line.")


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any] | Problem]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter(text), strict=True)
    line = 2  # a row's first line; the reader counts to its last
    try:
        for row in reader:
            if None in row:
                yield line, Problem(path, line, "more cells than the header names.", "Quote cells that hold commas.")
            else:
                yield line, {name: cell for name, cell in row.items() if cell not in (None, "")}
            line = reader.line_num + 1
    except csv.Error as error:
        yield line, Problem(path, line, f"not CSV: {error}.", "Quote cells that hold quotes.")


def _parsed(path: Path, line: int, row: dict[str, Any]) -> dict[str, Any] | Problem:
    """A row's values; in CSV the lists among them are JSON."""
    if not is_csv(path):
        return row
    value = dict(row)
    for name in _LISTS:
        try:
            value |= {name: json.loads(row[name])} if name in row else {}
        except json.JSONDecodeError as error:
            hint = 'Write a JSON list, for example ["eight heads"].'
            return Problem(path, line, f"column {name}: not JSON ({error.msg}).", hint)
    return value


def _problem(path: Path, line: int, detail: dict[str, Any]) -> Problem:
    place: Sequence[Any] = detail["loc"]
    column = ".".join(str(item) for item in place)
    kind, message = detail["type"], str(detail["msg"])
    if kind == "missing":
        hint = "Add it, or have `python -m optimize labels split` do so." if column == "part" else "Add it."
        return Problem(path, line, f"column {column}: missing.", hint)
    if kind == "extra_forbidden":
        return Problem(path, line, f"column {column}: unknown.", "Remove it, or correct its name.")
    if kind == "literal_error":
        given = str(detail["input"])[:40]
        return Problem(path, line, f"column {column}: {given!r} is none of the choices.", f"Write {message[16:]}.")
    if kind == "value_error":  # ours: already "column: what"
        return Problem(path, line, f"column {message.removeprefix('Value error, ')}.")
    return Problem(path, line, f"column {column}: {message}.", _HINTS.get(kind, "Correct it."))
