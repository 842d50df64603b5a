"""The stations measured on their own: who routes how, and where the gold ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optimize import cli
from optimize.labels import QuestionLabel, RoutingLabel
from optimize.stations import Found, Routing, retrieval, retrieval_rows, routing
from program.pipeline import AdaptiveRAG
from tests.fakes import HashEncoder
from tests.optimize_library import labels, retriever, run, script


def test_rows_give_accuracy_macro_f1_and_each_class() -> None:
    found = Routing(("clear", "clear", "vague", "math"), {"head": ("clear", "vague", "vague", "clear")})
    rows = dict(found.rows())
    assert rows["accuracy"] == "0.50"
    assert rows["F1 of clear (2)"] == "0.50"  # one hit, two due, two given
    assert rows["F1 of vague (1)"] == "0.67"
    assert rows["F1 of math (1)"] == "0.00"
    assert rows["macro F1"] == "0.39"
    assert "F1 of web (0)" not in rows


def test_head_model_and_program_are_told_apart(tmp_path: Path) -> None:
    program = run(tmp_path, script()).make()
    program.head = None
    asked = [label for label in labels(tmp_path / "labels").routing if label.part == "dev"]
    steps: list[int] = []
    found = routing(program, asked, lambda: steps.append(1))
    assert set(found.given) == {"language model"}  # no head, nothing to mix
    assert len(found.gold) == len(steps) == len(asked)


def test_without_a_language_model_the_head_alone_is_measured(tmp_path: Path) -> None:
    from optimize.head import fit_head

    read = labels(tmp_path / "labels")
    program = AdaptiveRAG(retriever(tmp_path / "index"))
    program.head = fit_head([x for x in read.routing if x.part == "train"], HashEncoder(), 0).head
    found = routing(program, [x for x in read.routing if x.part == "test"])
    assert set(found.given) == {"head"}


def test_follow_ups_are_not_routed_unfolded(tmp_path: Path) -> None:
    program = AdaptiveRAG(retriever(tmp_path / "index"))
    turn = {"question": "What is a vole?", "answer": "An animal."}
    row = {"id": "f", "question": "And its toes?", "history": [turn], "strategy": "single", "part": "dev"}
    assert routing(program, [RoutingLabel.model_validate(row)]).gold == ()


def test_gold_is_ranked_by_three_ways_of_searching(tmp_path: Path) -> None:
    program = AdaptiveRAG(retriever(tmp_path / "index"))
    asked = [x for x in labels(tmp_path / "labels").questions if x.part == "train"]
    found = retrieval(program, asked)
    assert {item.label.id for item in found} == {x.id for x in asked if x.quotes}
    assert all(set(item.ranks) == {"dense", "question", "transform"} for item in found)
    clear = next(item for item in found if item.label.label == "clear" and not item.label.history)
    assert clear.ranks["question"] == [1]


def test_retrieval_rows_average_within_a_class(tmp_path: Path) -> None:
    base = labels(tmp_path / "labels").questions[0]
    other = QuestionLabel.model_validate(base.model_dump() | {"id": "x", "transform": "vague"})
    rows = retrieval_rows(
        [
            Found(base, {"dense": [1, 7], "question": [1, 2], "transform": [1, 0]}),
            Found(other, {"dense": [0], "question": [11], "transform": [10]}),
        ]
    )
    assert rows == [
        ("clear", "1", "0.50 / 1.00", "1.00 / 1.00", "0.50 / 0.00"),
        ("vague", "1", "0.00 / 0.00", "0.00 / 0.00", "0.00 / 1.00"),
        ("all", "2", "0.25 / 0.50", "0.50 / 0.50", "0.25 / 0.50"),
    ]


@pytest.mark.parametrize("of", ["routing", "retrieval"])
def test_the_command_prints_a_table_and_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str) -> None:
    runner = run(tmp_path, script())
    monkeypatch.setattr(cli, "load_program", lambda *_: runner.make())
    asked = ["eval", "--of", of, "--part", "dev", "--labels", str(tmp_path / "labels")]
    table = CliRunner().invoke(cli.app, asked)
    assert table.exit_code == 0, table.output
    assert "dev part" in table.stdout
    as_json = json.loads(CliRunner().invoke(cli.app, [*asked, "--json"]).stdout)
    assert as_json["part"] == "dev"
