"""What the command line prints: answers, traces, tables, progress, JSON and failures.

Documents, titles, file names and model output are untrusted, so everything printed goes through `plain`: no escape
sequence reaches the terminal, and nothing is read as markup.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import Any

import typer

from program.errors import ProgramError, QuestionError, SettingsError
from program.types import Answer, Citation, Claim, Event, Usage

#: Exit codes besides 0, done, and 130, interrupted.
FAILED, WRONG_USE, BROKEN_PIPE = 1, 2, 141

#: ANSI escape sequences: CSI, the terminated string sequences (OSC, DCS, ...), and the short ones.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
#: Marks that reorder text, with which a line can be made to read as another one.
_REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
#: Rows of a list that a trace shows; `--json` has them all.
SHOWN = 10


def plain(text: object, width: int | None = None) -> str:
    """Text that is safe to print. With `width`, one line of at most that many characters."""
    kept = "".join(
        character
        for character in _ESCAPES.sub("", str(text))
        if character in "\n\t" or (unicodedata.category(character) not in ("Cc", "Cs") and character not in _REORDERING)
    )
    if width is None:
        return kept
    line = " ".join(kept.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def claim_text(claim: Claim) -> str:
    """A sentence of an answer; one that its passage does not support says so."""
    mark = " (not supported by the library)" if claim.status == "unsupported" else ""
    return plain(claim.text) + mark


def answer_text(answer: Answer) -> str:
    """The answer's sentences, or what a refusal says."""
    return " ".join(map(claim_text, answer.claims)) if answer.claims else plain(answer.text)


def citation_lines(citations: Sequence[Citation]) -> Iterator[str]:
    """Each citation as a line that says where, and a line that quotes."""
    for citation in citations:
        page = f", page {citation.page}" if citation.page is not None else ""
        kind = f" ({citation.kind})" if citation.kind != "passage" else ""
        document = f" ({plain(citation.document, 80)})" if citation.document not in ("", citation.title) else ""
        yield f"[{citation.n}] {plain(citation.title or citation.document, 120)}{document}{page}{kind}"
        yield f'    "{plain(citation.quote, 1000)}"'


def trace_lines(answer: Answer) -> Iterator[str]:
    """Every step with what it found, its language-model use and its seconds, then the totals."""
    yield "Steps"
    for event in answer.trace:
        used = f", {_usage(event.usage)}" if event.usage.calls else ""
        yield f"  {event.step:<11} {plain(event.summary, 400)}  [{event.seconds:.2f} s{used}]"
        yield from (f"  {'':<11} {line}" for line in _detail_lines(event))
    first = answer.first_token_seconds
    spoke = f", first sentence after {first:.2f} s" if first is not None else ""
    yield f"  {'total':<11} {_usage(answer.usage)}, {answer.seconds:.2f} s{spoke}"


def _detail_lines(event: Event) -> Iterator[str]:
    for name, value in event.detail.items():
        if isinstance(value, Mapping):
            yield f"{name}: " + ", ".join(f"{plain(key, 40)} {_short(item)}" for key, item in value.items())
        elif isinstance(value, Sequence) and not isinstance(value, str):
            if not any(isinstance(item, Mapping) for item in value):
                yield f"{name}: " + " | ".join(_short(item) for item in value)
                continue
            yield f"{name}:"
            yield from (f"  {_row(item)}" for item in value[:SHOWN])
            if len(value) > SHOWN:
                yield f"  and {len(value) - SHOWN} more (--json shows all)"
        elif value not in ("", None) and _short(value) not in event.summary:
            yield f"{name}: {_short(value)}"


def _row(item: Mapping[str, Any]) -> str:
    """A record as one line: numbers first, so that they line up, then words."""
    numbers = [f"{name} {_short(value):<7}" for name, value in item.items() if isinstance(value, (int, float))]
    words = [_short(value) for name, value in item.items() if isinstance(value, str) and name != "id"]
    return "  ".join([*numbers, *words])


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else plain(value, 160)


def _usage(usage: Usage) -> str:
    calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
    return (
        f"{calls}, {usage.prompt_tokens} tokens read ({usage.cached_tokens} cached), {usage.completion_tokens} written"
    )


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on standard output: drawn on a terminal, else with a tab between cells, for `cut` and the like."""
    texts = [[plain(cell, 1000) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for line in (columns, *texts):
            print("\t".join(line))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=SIMPLE_HEAD, pad_edge=False)
    for line in texts:
        table.add_row(*map(Text, line))
    Console(highlight=False).print(table)


@contextmanager
def progress() -> Iterator[Callable[[float, int, str], None]]:
    """What shows (done, total, what) on standard error: a bar on a terminal, else a line now and then."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    what_column = TextColumn("{task.description}", markup=False)  # last, so that the bar stays where it is
    console = Console(stderr=True)
    bar = (BarColumn(bar_width=20), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*bar, what_column, console=console, transient=True) as bars:
        task = bars.add_task("Loading", total=None)
        yield lambda done, total, what: bars.update(
            task, completed=done, total=total or None, description=plain(what, max(console.width - 40, 20))
        )


class _Lines:
    """Progress for a log: the first and the last step, and in between one line every few seconds."""

    EVERY = 5.0

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, done: float, total: int, what: str) -> None:
        now = time.monotonic()
        if now >= self._next or (done == total and total > 1):
            self._next = now + self.EVERY
            share = f" ({done / total:.0%})" if total > 1 or 0 < done < total else ""
            print(f"{plain(what, 100)}{share}", file=sys.stderr, flush=True)


class StatusLine:
    """One line on the terminal that says what is happening; nothing where standard error is not a terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def show(self, text: str) -> None:
        if self._shown:
            print(f"\r\x1b[K{plain(text, 78)}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def failures(as_json: bool) -> Iterator[None]:
    """Turns what goes wrong inside into a message with its hint, and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has had enough; Python's own last flush must not complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None
    except ProgramError as error:
        message, hint = str(error.args[0]), error.hint
        _report(type(error).__name__, message, hint, as_json)
        raise typer.Exit(WRONG_USE if isinstance(error, QuestionError | SettingsError) else FAILED) from error
    except Exception as error:
        if sys.flags.dev_mode or isinstance(error, (typer.Exit, typer.BadParameter)):
            raise
        hint = "This should not happen. `python -X dev -m program ...` shows where it did."
        _report(type(error).__name__, f"{type(error).__name__}: {error}", hint, as_json)
        raise typer.Exit(FAILED) from error


def _report(kind: str, message: str, hint: str, as_json: bool) -> None:
    if as_json:
        print_json({"error": {"type": kind, "message": message, "hint": hint}})
    else:
        say(f"Error: {message}")
        if hint:
            say(hint)


def say(text: str) -> None:
    print(plain(text), file=sys.stderr, flush=True)


def print_json(value: object) -> None:
    readable = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(_jsonable(value), indent=2, ensure_ascii=not readable)
    print(text.encode("utf-8", "backslashreplace").decode())  # a lone surrogate becomes JSON's own escape


def _jsonable(value: Any) -> Any:
    """JSON has no NaN, no infinity and no numpy: null and plain numbers instead."""
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (str, int)) or value is None:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return _jsonable(asdict(value))
    return _jsonable(value.item()) if hasattr(value, "item") else str(value)
