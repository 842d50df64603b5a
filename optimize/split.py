"""Gives labelled questions their part: every class in its share, what belongs together in one part."""

from __future__ import annotations

import csv
import io
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optimize.labels import Part, Problem, QuestionLabel, delimiter, is_csv, read_text, rows
from optimize.leakage import Row, Tie, groups

SHARES: Mapping[Part, float] = {"train": 0.5, "dev": 0.2, "test": 0.3}
PARTS: tuple[Part, ...] = tuple(SHARES)

Stratum = tuple[Path, str, bool, bool]  # file, class, answerable, follow-up


def assign(labels: Sequence[Row], standing: Sequence[Part | None], ties: Sequence[Tie], seed: int = 0) -> list[Part]:
    """A part for every row; rows with a `standing` one keep it, and draw what they are tied to after them.

    Groups of tied rows are dealt out whole, largest first, each to the part that lacks its strata (class, answerable,
    follow-up; by file) most, so that the shares of each hold as well as the ties let them.
    """
    strata = [_stratum(row) for row in labels]
    due = {(stratum, part): n * SHARES[part] for stratum, n in Counter(strata).items() for part in PARTS}
    parts = list(standing)
    for stratum, part in zip(strata, parts, strict=True):
        if part is not None:
            due[stratum, part] -= 1
    dice = random.Random(seed)
    dealt = sorted(groups(ties, len(labels)), key=lambda group: (-len(group), dice.random()))
    for group in dealt:
        waiting = [place for place in group if parts[place] is None]
        drawn = next((part for place in group if (part := parts[place]) is not None), None)
        part = drawn or _neediest(due, [strata[place] for place in waiting])
        for place in waiting:
            parts[place] = part
            due[strata[place], part] -= 1
    return [part for part in parts if part is not None]


def _neediest(due: Mapping[tuple[Stratum, Part], float], strata: Sequence[Stratum]) -> Part:
    """The part that lacks most of these, against its share: else one of 50% would starve one of 20%."""
    lacks = {part: sum(due[stratum, part] for stratum in strata) / SHARES[part] for part in PARTS}
    return max(PARTS, key=lacks.__getitem__)


def standing_parts(path: Path) -> list[Part | None]:
    """The part that each row of a file has, or None."""
    return [None if isinstance(row, Problem) else row.get("part") for _, row in rows(path)]


def write_parts(path: Path, parts: Sequence[Part]) -> None:
    """Write a file anew with these parts, one for each row, in one step; all else stays as it is."""
    values = [row for _, row in rows(path) if not isinstance(row, Problem)]
    filled = [{**row, "part": part} for row, part in zip(values, parts, strict=True)]
    text = _as_csv(read_text(path), filled) if is_csv(path) else _as_json(filled)
    beside = path.with_name(path.name + ".new")
    beside.write_text(text, "utf-8", newline="")
    beside.replace(path)


def _as_json(values: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def _as_csv(before: str, values: Sequence[Mapping[str, Any]]) -> str:
    parted = delimiter(before)
    header = next(csv.reader(io.StringIO(before, newline=""), delimiter=parted))
    out = io.StringIO(newline="")
    columns = header if "part" in header else [*header, "part"]
    writer = csv.DictWriter(out, columns, delimiter=parted, lineterminator="\n")
    writer.writeheader()
    writer.writerows(values)
    return out.getvalue()


def _stratum(row: Row) -> Stratum:
    label = row.label
    return row.path, label.label, label.answerable if isinstance(label, QuestionLabel) else True, bool(label.history)
