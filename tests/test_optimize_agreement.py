"""Two labelling passes compared: kappa, what is read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sklearn.metrics import cohen_kappa_score
from typer.testing import CliRunner

from optimize import cli
from optimize.agreement import Pair, agreement, kappa, read_pairs
from optimize.shell import FAILED
from program.errors import LabelError
from tests.optimize_library import labels

FIRST = {"a": ("clear", "What is A?"), "b": ("vague", "and that thing?")}


def test_kappa_is_cohen_s() -> None:
    given = [("clear", "clear"), ("clear", "vague"), ("vague", "vague"), ("broad", "clear"), ("web", "web")]
    pairs = [Pair(str(i), "", *two) for i, two in enumerate(given)]
    assert agreement(pairs) == 0.6
    assert kappa(pairs) == pytest.approx(cohen_kappa_score(*zip(*given, strict=True)))
    assert kappa([Pair("a", "", "web", "web")] * 3) == 1.0


def test_what_the_first_pass_said_is_read_from_the_labels_or_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "second.csv"
    path.write_text("id,label,first,question\na,broad,,\nb,clear,compound,A or B?\n")
    assert read_pairs(path, FIRST) == [
        Pair("a", "What is A?", "clear", "broad"),
        Pair("b", "A or B?", "compound", "clear"),
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "z", "label": "clear"}, ":1: column id: no label has the id 'z'"),
        ({"id": "a", "label": "easy"}, ":1: column label: 'easy' is no class"),
        ({"id": "a"}, ":1: column label: '' is no class"),
        ({"id": "a", "label": "clear", "first": "hard"}, ":1: column first: 'hard' is no class"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, row: dict[str, str], said: str) -> None:
    path = tmp_path / "second.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(LabelError) as error:
        read_pairs(path, FIRST)
    assert said in str(error.value)
    assert error.value.hint


def test_the_command_lists_disagreements(tmp_path: Path) -> None:
    labels(tmp_path / "labels")
    second = tmp_path / "second.jsonl"
    second.write_text('{"id": "c0", "label": "clear"}\n{"id": "v1", "label": "broad"}\n')
    run = ["labels", "agreement", str(second), "--labels", str(tmp_path / "labels")]
    result = CliRunner().invoke(cli.app, run)
    assert result.exit_code == 0, result.output
    assert "2 questions, agreed 0.500" in result.stdout
    assert "v1\tvague\tbroad\tso what about that heron thing" in result.stdout
    second.write_text("")
    assert CliRunner().invoke(cli.app, run).exit_code == FAILED


def test_the_shipped_second_passes_are_as_the_guideline_s_page_says() -> None:
    folder = Path(__file__).parent.parent / "data" / "labeled"
    page = " ".join((folder / "README.md").read_text().split())
    for name, n, kappa_said in (("routing", 150, "1.00"), ("routing_again", 150, "1.00"), ("qa", 150, "0.94")):
        pairs = read_pairs(folder / "second_pass" / f"{name}.jsonl", {})
        assert len(pairs) == n
        assert f"{kappa(pairs):.2f}" == kappa_said
        assert f"`second_pass/{name}.jsonl` | {n} | {agreement(pairs):.3f} | {kappa_said} |" in page
