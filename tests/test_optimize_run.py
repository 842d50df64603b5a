"""Whole runs of the optimizer over a tiny library, with a scripted language model."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optimize.journal import Journal
from optimize.rivals import dev_score
from program.artifact import read, save
from program.params import Params
from program.pipeline import AdaptiveRAG
from tests.optimize_library import BUDGET, run, script


def test_a_run_compiles_everything_and_the_artifact_round_trips(tmp_path: Path) -> None:
    lm = script()
    outcome = run(tmp_path, lm)("trial")
    made = outcome.artifact
    save(made, tmp_path / "artifact")
    back = read(tmp_path / "artifact")
    assert back.params == made.params
    assert back.head is not None
    assert set(back.head.labels) == {"clear", "vague", "no_retrieval"}
    assert made.head is not None
    np.testing.assert_array_equal(back.head.weights, made.head.weights)
    assert back.compiled_with.labels.keys() == {"qa.jsonl", "routing.jsonl"}
    assert back.compiled_with.language_model == "script/test"
    report = json.loads(json.dumps(made.report))
    assert report["compiled"]["n"] == report["uncompiled"]["n"] == BUDGET.test
    assert {"mean", "low", "high", "n"} <= report["compiled"]["right"].keys()
    assert report["router"]["dev"]["accuracy"] > 0.6
    assert report["retrieval"]["part"] == "dev"
    names = {item["name"] for item in report["predictors"]}
    assert {
        "router.decide",
        "transforms.vague.rewrite",
        "standalone.fold",
        "grader.grade",
        "synthesizer.answer",
    } <= names
    assert "calculation" in report["not_compiled"]
    for name, state in back.predictors.items():
        assert state["lm"] is None, name
    # The refusal's example is kept, or the answers were already as good without any.
    answer = next(item for item in report["predictors"] if item["name"] == "synthesizer.answer")
    assert answer["after"] >= answer["before"]
    fresh = run(tmp_path, script()).make()
    back.apply(fresh)
    assert fresh("How many toes was the heron counted with?").citations[0].document == "heron.md"


def test_a_second_run_asks_the_language_model_nothing(tmp_path: Path) -> None:
    first = run(tmp_path, script())("trial")
    again = script()
    second = run(tmp_path, again)("trial")
    assert again.asked == []
    assert second.artifact.params == first.artifact.params
    assert second.artifact.predictors == first.artifact.predictors


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    lm = script()
    replies = dict(lm.replies)

    def stop(_: str) -> str:
        raise SystemExit

    lm.replies["NextHop"] = stop  # compiled after the router, the transforms and the grader
    with pytest.raises(SystemExit):
        run(tmp_path, lm)("trial")
    before = lm.asked.count("GradeEvidence")
    assert before > 0
    lm.replies = replies
    lm.asked.clear()
    run(tmp_path, lm)("trial")
    compiled_first = lm.asked[: lm.asked.index("NextHop")]
    assert compiled_first == []


def test_without_a_language_model_head_and_retrieval_are_compiled(tmp_path: Path) -> None:
    outcome = run(tmp_path, None)("trial")
    assert outcome.artifact.head is not None
    assert "predictors" not in outcome.artifact.report
    assert outcome.artifact.params.router_bar == 0.0
    assert outcome.artifact.report["compiled"]["calls"]["mean"] == 0


def test_stages_left_out_keep_what_stands(tmp_path: Path) -> None:
    standing = run(tmp_path, None)("trial").artifact
    standing = replace(standing, params=Params(accept_bar=0.123, router_bar=0.9))
    only_head = run(tmp_path, None, only=("head",), incumbent=standing)("trial").artifact
    assert only_head.params == standing.params
    assert only_head.report["dev"]["against"] == "the artifact trial"


def test_better_means_a_higher_dev_score(tmp_path: Path) -> None:
    same = run(tmp_path, None)("trial")
    again = run(tmp_path, None, incumbent=same.artifact, seed=0)("trial")
    assert again.before == again.after
    assert not again.better
    assert dev_score([]) == 0.0


def test_the_journal_forgets_when_anything_changes(tmp_path: Path) -> None:
    made: list[str] = []

    def work() -> list[str]:
        made.append("x")
        return ["result"]

    journal = Journal(tmp_path, "model a")
    assert journal.once("stage", [1], work) == journal.once("stage", [1], work) == ["result"]
    assert len(made) == 1
    journal.once("stage", [2], work)
    Journal(tmp_path, "model b").once("stage", [1], work)
    Journal(tmp_path, "model a", fresh=True).once("stage", [1], work)
    assert len(made) == 4
    for path in tmp_path.glob("*.json"):
        path.write_text("{cut off")
    assert journal.once("stage", [1], work) == ["result"]


def test_the_program_is_not_changed_by_being_asked(tmp_path: Path) -> None:
    runner = run(tmp_path, script())
    program = runner.make()
    assert isinstance(program, AdaptiveRAG)
    before = program.retriever
    from optimize.compare import compare

    label = next(x for x in runner.labels.questions if x.answerable)
    found = compare(program, label)
    assert (found.naive, found.pool, found.evidence, found.answer) == (True, True, True, True)
    assert program.retriever is before
    refusal = next(x for x in runner.labels.questions if not x.answerable)
    lost = compare(program, refusal)
    assert (lost.naive, lost.evidence, lost.answer) == (False, False, True)
