"""Parts for labelled questions: shares, ties, what stands, and files that stay as they are."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optimize import cli, labels_cli
from optimize.labels import QuestionLabel, RoutingLabel, read_routing
from optimize.leakage import Row, Tie, groups
from optimize.shell import FAILED
from optimize.split import assign, write_parts
from tests.fakes import HashEncoder


def row(place: int, transform: str = "clear", answerable: bool | None = None) -> Row:
    values = {"id": f"r{place}", "question": f"Question {place}?", "strategy": "single", "part": "train"}
    values |= {"transform": transform}
    if answerable is None:
        return Row(Path("routing.jsonl"), place + 1, RoutingLabel.model_validate(values))
    values |= {"answerable": answerable, "answer": "x", "quotes": [{"document": "d", "quote": "xyz"}] * answerable}
    return Row(Path("qa.jsonl"), place + 1, QuestionLabel.model_validate(values))


def test_every_class_is_shared_out_50_20_30() -> None:
    rows = [row(i, "vague" if i < 20 else "clear") for i in range(60)]
    parts = assign(rows, [None] * 60, [])
    assert Counter(parts[:20]) == {"train": 10, "dev": 4, "test": 6}
    assert Counter(parts[20:]) == {"train": 20, "dev": 8, "test": 12}


def test_unanswerable_questions_are_shared_out_too() -> None:
    rows = [row(i, answerable=i >= 10) for i in range(40)]
    assert Counter(assign(rows, [None] * 40, [])[:10]) == {"train": 5, "dev": 2, "test": 3}


def test_what_is_tied_comes_into_one_part() -> None:
    rows = [row(i) for i in range(30)]
    ties = [Tie(0, 5, "quotes"), Tie(5, 17, "question"), Tie(3, 4, "quotes")]
    for seed in range(20):
        parts = assign(rows, [None] * 30, ties, seed)
        assert parts[0] == parts[5] == parts[17]
        assert parts[3] == parts[4]
        assert (
            max(
                abs(n - due)
                for n, due in zip((Counter(parts)[p] for p in ("train", "dev", "test")), (15, 6, 9), strict=True)
            )
            <= 1
        )


def test_a_standing_part_stays_and_draws_what_is_tied_to_it() -> None:
    parts = assign([row(i) for i in range(4)], [None, "test", None, None], [Tie(0, 1, "quotes"), Tie(2, 3, "quotes")])
    assert parts[:2] == ["test", "test"]
    assert parts[2] == parts[3] == "train"


def test_groups_join_through_others() -> None:
    assert sorted(map(sorted, groups([Tie(0, 2, "quotes"), Tie(4, 2, "quotes")], 5))) == [[0, 2, 4], [1], [3]]


def test_a_csv_keeps_its_columns_its_delimiter_and_its_cells(tmp_path: Path) -> None:
    path = tmp_path / "routing.csv"
    path.write_text('id;question;strategy;domain\na;"What is; LoRA?";single;ml\nb;"Two\nlines?";single;\n', "utf-8")
    write_parts(path, ["train", "test"])
    with path.open(newline="") as file:
        read = list(csv.reader(file, delimiter=";"))
    assert read == [
        ["id", "question", "strategy", "domain", "part"],
        ["a", "What is; LoRA?", "single", "ml", "train"],
        ["b", "Two\nlines?", "single", "", "test"],
    ]
    assert [label.part for label in read_routing(path)] == ["train", "test"]
    assert [p.name for p in tmp_path.iterdir()] == ["routing.csv"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(labels_cli, "_encoder", HashEncoder)
    (tmp_path / "corpus").mkdir()
    asked = [
        "How do tides arise?",
        "Who wrote Hamlet?",
        "ibuprofen max dose",
        "why bread flat",
        "Is it legal?",
        "2 + 2",
    ]
    rows = [{"id": f"r{i}", "question": question, "strategy": "single"} for i, question in enumerate(asked)]
    rows[0]["part"] = "dev"
    rows.append({"id": "again", "question": "Tides: how do they arise?", "strategy": "single"})
    (tmp_path / "routing.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def split(folder: Path) -> str:
    result = CliRunner().invoke(
        cli.app, ["labels", "split", str(folder / "routing.jsonl"), "--corpus", str(folder / "corpus")]
    )
    assert result.exit_code == 0, result.output
    return result.stderr


def test_the_command_fills_in_what_is_missing_and_then_changes_nothing(folder: Path) -> None:
    assert "6 questions got a part." in split(folder)
    labels = read_routing(folder / "routing.jsonl")
    assert {label.part for label in labels} == {"train", "dev", "test"}
    assert labels[0].part == labels[6].part == "dev"  # asks what r0 asks
    before = (folder / "routing.jsonl").read_bytes()
    assert "0 questions got a part." in split(folder)
    assert (folder / "routing.jsonl").read_bytes() == before


def test_unsound_files_are_left_alone(folder: Path) -> None:
    path = folder / "routing.jsonl"
    path.write_text(path.read_text() + '\n{"id": "x"}')
    before = path.read_bytes()
    result = CliRunner().invoke(cli.app, ["labels", "split", str(path), "--corpus", str(folder / "corpus")])
    assert result.exit_code == FAILED
    assert "column question: missing" in result.stderr
    assert path.read_bytes() == before
