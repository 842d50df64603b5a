"""How far two passes over the same questions agree: Cohen's kappa, and where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from optimize.labels import Problem, rows
from program.errors import LabelError
from program.types import ROUTE_LABELS


@dataclass(frozen=True, slots=True)
class Pair:
    """The two classes that one question was given."""

    id: str
    question: str
    first: str
    second: str


def read_pairs(path: Path, first: Mapping[str, tuple[str, str]]) -> list[Pair]:
    """A second pass: rows (JSONL or CSV) of `id` and `label`, and, where the first pass has changed since, `first` and
    `question`. first: id to class and question of the labels as they are now.

    Raises LabelError with file and line.
    """
    pairs = []
    for line, row in rows(path):
        if isinstance(row, Problem):
            raise LabelError(str(row))
        id, second = str(row.get("id", "")), str(row.get("label", ""))
        standing, question = first.get(id, ("", ""))
        given = str(row.get("first", standing))
        if not given:
            raise LabelError(f"{path}:{line}: column id: no label has the id {id!r}.", "Name the labels with --labels.")
        for column, label in (("first", given), ("label", second)):
            if label not in ROUTE_LABELS:
                hint = f"Write one of {', '.join(ROUTE_LABELS)}."
                raise LabelError(f"{path}:{line}: column {column}: {label!r} is no class.", hint)
        pairs.append(Pair(id, str(row.get("question", question)), given, second))
    if not pairs:
        raise LabelError(f"{path} holds no labels.", "Write one question a line.")
    return pairs


def agreement(pairs: Sequence[Pair]) -> float:
    """Share of questions given the same class twice."""
    return sum(pair.first == pair.second for pair in pairs) / len(pairs)


def kappa(pairs: Sequence[Pair]) -> float:
    """Cohen's kappa (1960): agreement beyond what both passes' class shares would give by chance. 1 is perfect, 0 is
    chance; 1 too where chance alone would always agree."""
    first, second = Counter(pair.first for pair in pairs), Counter(pair.second for pair in pairs)
    by_chance = sum(first[name] * second[name] for name in first) / len(pairs) ** 2
    return 1.0 if by_chance == 1 else (agreement(pairs) - by_chance) / (1 - by_chance)
