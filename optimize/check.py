"""Whether label files are sound: schema, ids, gold that really stands in its document, parts that know nothing of each
other; and how their classes are balanced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from optimize.gold import Documents
from optimize.labels import (
    QUESTIONS,
    ROUTING,
    Part,
    Problem,
    QuestionLabel,
    RoutingLabel,
    rows,
    scan,
)
from optimize.leakage import Row, Tie, across_parts, same_gold, same_meaning, same_words
from program.errors import LabelError
from program.ingest.quotes import contains_quote
from program.retrieval.encoders import Encoder
from program.types import ROUTE_LABELS
from program.words import numbers

PARTS: tuple[Part, ...] = ("train", "dev", "test")
FEW = 5  # questions of a class in a part below which its figures say little


@dataclass(frozen=True, slots=True)
class Found:
    """What one check came to. tried: how many things it looked at; `note` says more in a few words."""

    check: str
    tried: int
    problems: list[Problem]
    note: str = ""


def label_files(places: Sequence[Path]) -> list[Path]:
    """The label files among files and folders. Raises LabelError when there is none, or one does not exist."""
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            found += [p for p in sorted(place.iterdir()) if p.suffix.lower() in (".jsonl", ".csv")]
        elif place.is_file():
            found.append(place)
        else:
            raise LabelError(f"There is no file or folder {place}.", "Check the path.")
    if not found:
        raise LabelError(f"There is no JSONL or CSV file in {', '.join(map(str, places))}.")
    return found


def read(files: Sequence[Path], part: Part | None = None) -> tuple[list[Row], list[Problem]]:
    """The rows of all files that are sound in themselves, and what is wrong with the others. part: as in `scan`."""
    sound: list[Row] = []
    problems: list[Problem] = []
    for path in files:
        items = list(scan(path, kind_of(path), part))
        sound += [Row(path, line, item) for line, item in items if not isinstance(item, Problem)]
        problems += [item for _, item in items if isinstance(item, Problem)]
        if not items:
            problems.append(Problem(path, 1, "holds no labels.", "Write one question a line."))
    return sound, problems


def check(files: Sequence[Path], documents: Documents, encoder: Encoder | None) -> tuple[list[Row], list[Found]]:
    """The sound rows, and what each check came to. Without an encoder, paraphrases are not looked for."""
    sound, wrong = read(files)
    quotes = [(row, label, place) for row, label in _questions(sound) for place in range(len(label.quotes))]
    figures = [(row, label) for row, label in _questions(sound) if label.quotes]
    repeated = list(same_words(sound))
    found = [
        Found("columns, choices and ids", len(sound) + len({(p.path, p.line) for p in wrong}), wrong),
        Found("quotes stand in their documents", len(quotes), list(_misquoted(quotes, documents))),
        Found("figures of answers stand in quotes", len(figures), list(_unquoted_figures(figures))),
        Found("no question twice", len(sound), [_repeated(sound, tie) for tie in repeated]),
        Found("no passage is gold in two parts", len(quotes), _leaks(sound, list(same_gold(sound, documents)))),
    ]
    if encoder is not None:
        near = [tie for tie in same_meaning(sound, encoder) if tie not in repeated]
        kept = len(near) - len(across_parts(sound, near))
        found.append(
            Found("no paraphrase in two parts", len(sound), _leaks(sound, near), f"{kept} near pairs share a part")
        )
    return sound, found


def balance(labels: Sequence[RoutingLabel]) -> list[tuple[str, ...]]:
    """Rows of kind, train, dev, test and total: the ten classes, all of them, and what else parts should share."""
    kinds: list[tuple[str, list[RoutingLabel]]] = [
        *((name, [label for label in labels if label.label == name]) for name in ROUTE_LABELS),
        ("in all", list(labels)),
        ("follow-ups", [label for label in labels if label.history]),
    ]
    if any(isinstance(label, QuestionLabel) for label in labels):
        refused = [label for label in labels if isinstance(label, QuestionLabel) and not label.answerable]
        kinds.append(("unanswerable", [*refused]))
    return [(name, *(str(n) for n in _by_part(chosen))) for name, chosen in kinds]


def thin(labels: Sequence[RoutingLabel]) -> list[str]:
    """Advice on classes that a part has none or few of. Not problems: a small label set may be all there is. A router
    needs all ten; questions with answers may keep to some."""
    routing = not any(isinstance(label, QuestionLabel) for label in labels)
    wanted = [name for name in ROUTE_LABELS if routing or any(label.label == name for label in labels)]
    advice = []
    for part in PARTS:
        counts = Counter(label.label for label in labels if label.part == part)
        if not counts:
            advice.append(f"No question is in part {part}.")
            continue
        few = [f"{name} {counts[name]}" for name in wanted if 0 < counts[name] < FEW]
        if few:
            advice.append(f"Part {part} has few of: {', '.join(few)}.")
        if missing := [name for name in wanted if not counts[name]]:
            advice.append(f"Part {part} has none of: {', '.join(missing)}.")
    return advice


def kind_of(path: Path) -> type[RoutingLabel]:
    """What a file's rows are: named `routing` or `qa`, or known by an `answerable` column."""
    if path.stem in (ROUTING, QUESTIONS):
        return QuestionLabel if path.stem == QUESTIONS else RoutingLabel
    first = next((row for _, row in rows(path) if not isinstance(row, Problem)), {})
    return QuestionLabel if "answerable" in first else RoutingLabel


def _questions(sound: Sequence[Row]) -> list[tuple[Row, QuestionLabel]]:
    return [(row, row.label) for row in sound if isinstance(row.label, QuestionLabel)]


def _misquoted(quotes: Sequence[tuple[Row, QuestionLabel, int]], documents: Documents) -> Iterator[Problem]:
    for row, label, place in quotes:
        gold, column = label.quotes[place], f"column quotes.{place}"
        text = documents.text(gold.document)
        if text is None:
            message, hint = f"{column}: there is no document {gold.document!r}.", "Name a file of the corpus."
        elif not contains_quote(text, gold.quote):
            message, hint = f"{column}: {gold.document} does not hold {gold.quote[:60]!r}.", "Copy it verbatim."
        else:
            continue
        yield Problem(row.path, row.line, message, hint)


def _unquoted_figures(questions: Sequence[tuple[Row, QuestionLabel]]) -> Iterator[Problem]:
    for row, label in questions:
        stated = numbers(" ".join(gold.quote for gold in label.quotes))
        if missing := sorted(numbers(label.answer) - stated):
            message = f"column answer: {', '.join(missing)} stands in no quote."
            yield Problem(row.path, row.line, message, "Correct the figure, or quote the sentence that has it.")


def _repeated(sound: Sequence[Row], tie: Tie) -> Problem:
    first, second = sound[tie.first], sound[tie.second]
    where = f"part {first.label.part}" if first.label.part != second.label.part else "the same part"
    message = f"column question: stands in {_place(first, second.path)} too, in {where}."
    return Problem(second.path, second.line, message, "Keep one of them.")


def _leaks(sound: Sequence[Row], ties: Sequence[Tie]) -> list[Problem]:
    """Ties between parts: what is chosen on one would leak into the other."""
    problems = []
    for tie in across_parts(sound, ties):
        first, second = sound[tie.first], sound[tie.second]
        where = f"{_place(first, second.path)} of part {first.label.part} (this one is in {second.label.part})"
        if tie.likeness is None:
            message = f"column quotes: share a passage with {where}."
        else:
            message = f"column question: asks the same as {where}, likeness {tie.likeness:.2f}."
        problems.append(Problem(second.path, second.line, message, "Put both into one part, or drop one."))
    return problems


def _place(row: Row, path: Path) -> str:
    return f"line {row.line}" if row.path == path else f"{row.path}:{row.line}"


def _by_part(labels: Sequence[RoutingLabel]) -> list[int]:
    counts = Counter(label.part for label in labels)
    return [*(counts[part] for part in PARTS), len(labels)]
