"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from optimize import cli
from optimize.plan import BUDGETS, STAGES, TYPICAL, estimate, fitted
from optimize.shell import FAILED
from program.artifact import Artifact, save
from program.errors import ArtifactError
from tests.optimize_library import labels, run, script

RUNNER = CliRunner()


def test_help_teaches_with_examples() -> None:
    labels_commands = (["labels", name] for name in ("check", "split", "agreement"))
    for command in ([], ["compare"], ["eval"], ["anchors"], *labels_commands):
        result = RUNNER.invoke(cli.app, [*command, "--help"])
        assert result.exit_code == 0
        assert "python -m optimize" in result.stdout


def test_labels_check_says_where_and_exits_with_1(tmp_path: Path) -> None:
    labels(tmp_path / "labels")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    result = RUNNER.invoke(cli.app, ["labels", "check", str(tmp_path / "labels"), "--corpus", str(corpus)])
    assert result.exit_code == FAILED
    assert f"{tmp_path / 'labels' / 'qa.jsonl'}:1: column quotes.0: there is no document 'badger.md'" in result.stdout
    assert "no_retrieval" in result.stdout


def test_a_missing_folder_is_one_sentence(tmp_path: Path) -> None:
    result = RUNNER.invoke(cli.app, ["--labels", str(tmp_path / "none"), "--yes"])
    assert result.exit_code == FAILED
    assert "neither routing.jsonl nor routing.csv" in result.stderr
    assert "Traceback" not in result.output


def test_an_unknown_stage_is_wrong_use() -> None:
    result = RUNNER.invoke(cli.app, ["--only", "head,everything"])
    assert result.exit_code == cli.WRONG_USE
    assert "everything" in result.output


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    runner = run(tmp_path, script())
    monkeypatch.setattr(cli, "load_program", lambda *_: runner.make())
    return tmp_path / "labels" / "qa.jsonl"


def test_compare_prints_a_table_and_json(loaded: Path) -> None:
    result = RUNNER.invoke(cli.app, ["compare", str(loaded), "--json"])
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    assert len(found) == len(loaded.read_text().splitlines())
    assert all(set(item) == {"question", "naive", "pool", "evidence", "answer"} for item in found)
    assert all(isinstance(item[key], bool) for item in found for key in ("naive", "pool", "evidence", "answer"))
    emperor = next(item for item in found if "emperor" in item["question"])
    assert (emperor["pool"], emperor["evidence"]) == (False, False)
    badger = next(item for item in found if "badger" in item["question"] and "emperor" not in item["question"])
    assert (badger["naive"], badger["pool"], badger["evidence"]) == (True, True, True)
    table = RUNNER.invoke(cli.app, ["compare", str(loaded)])
    assert f"evidence {sum(item['evidence'] for item in found)} of {len(found)}" in table.stdout


def test_eval_gives_scores_and_cost_per_route(loaded: Path) -> None:
    result = RUNNER.invoke(cli.app, ["eval", "--labels", str(loaded.parent), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["part"] == "test"
    assert found["summary"]["n"] == len(found["records"]) == sum(c["n"] for c in found["cost_per_route"].values())
    assert found["summary"]["all_gold_evidence"]["mean"] == 1.0
    assert found["summary"]["calls"]["mean"] > 0
    shown = RUNNER.invoke(cli.app, ["eval", "--labels", str(loaded.parent), "--part", "dev", "--limit", "1"])
    assert "MRR" in shown.stdout


def test_what_is_no_better_is_not_written_unless_forced(tmp_path: Path) -> None:
    standing = run(tmp_path, None)("trial").artifact
    out = tmp_path / "artifact"
    save(standing, out)
    before = (out / "artifact.json").read_bytes()
    runner = run(tmp_path, None, incumbent=standing, seed=3)
    outcome = runner("trial")
    with pytest.raises(cli.typer.Exit) as exit_code:
        cli._finish(runner, outcome, out, force=False)
    assert exit_code.value.exit_code == cli.NOT_WRITTEN
    assert (out / "artifact.json").read_bytes() == before
    cli._finish(runner, outcome, out, force=True)
    assert (out / "artifact.json").read_bytes() != before


def test_an_artifact_that_does_not_fit_is_no_incumbent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runner = run(tmp_path, None)
    made: Artifact = runner("trial").artifact
    save(made, tmp_path / "artifact")
    program = runner.make()
    encoder = program.retriever.encoder.fingerprint
    assert cli._incumbent(tmp_path / "artifact", encoder, program) is not None
    assert cli._incumbent(tmp_path / "none", encoder, program) is None
    assert cli._incumbent(tmp_path / "artifact", "another", program) is None
    (tmp_path / "artifact" / "program.json").write_text("{}")
    assert cli._incumbent(tmp_path / "artifact", encoder, program) is None
    assert capsys.readouterr().err.count("not compared with") == 2


def test_a_head_of_another_width_is_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    runner = run(tmp_path, None, only=("head",))
    made = runner("trial").artifact
    assert made.head is not None
    narrow = replace(made, head=replace(made.head, weights=made.head.weights[:, :-1]))
    with pytest.raises(ArtifactError, match="features"):
        narrow.apply(runner.make())


def test_the_plan_fits_its_minutes(tmp_path: Path) -> None:
    found = labels(tmp_path / "labels")
    quick = BUDGETS["quick"]
    slow = type(TYPICAL)(TYPICAL.read / 4, TYPICAL.write / 4)
    whole = estimate(found, quick, slow, STAGES, "bootstrap")
    smaller = fitted(quick, whole)
    assert smaller != quick
    cut = estimate(found, smaller, slow, STAGES, "bootstrap")
    assert sum(line.seconds for line in cut) < sum(line.seconds for line in whole)
    assert sum(line.calls for line in cut) < sum(line.calls for line in whole)
    assert all(line.calls == 0 for line in estimate(found, quick, None, STAGES, "bootstrap"))
