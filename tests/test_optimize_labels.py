"""Label files: what is read, what is refused, and what `labels check` finds."""

import json
from pathlib import Path
from typing import Any

import pytest

from optimize.check import balance, check
from optimize.labels import QuestionLabel, read_labels, read_questions, read_routing
from program.errors import LabelError

ROUTE = {"id": "r1", "question": "What is LoRA?", "strategy": "single", "transform": "clear", "part": "train"}
GOLD = {
    "id": "q1",
    "question": "How many heads does BERT-large have?",
    "history": [],
    "answer": "16",
    "variants": ["sixteen"],
    "quotes": [{"document": "bert.md", "quote": "BERT-large has 16 attention heads."}],
    "strategy": "single",
    "transform": "clear",
    "answerable": True,
    "part": "test",
}


def write(path: Path, *rows: dict[str, Any] | str) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return path


def corpus(folder: Path) -> Path:
    folder.mkdir()
    text = "# BERT\n\nBERT-large has 16 attention\nheads. It is large.\n"
    (folder / "bert.md").write_text(f"---\ntitle: BERT\n---\n\n{text}")
    return folder


def test_questions_come_back_typed(tmp_path: Path) -> None:
    (label,) = read_questions(write(tmp_path / "qa.jsonl", GOLD))
    assert label.answers == ["16", "sixteen"]
    assert label.label == "clear"
    assert label.quotes[0].document == "bert.md"


def test_csv_says_the_same_as_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "qa.csv"
    path.write_text(
        "id,question,history,answer,variants,quotes,strategy,transform,answerable,part\n"
        'q1,How many heads does BERT-large have?,[],16,"[""sixteen""]",'
        '"[{""document"": ""bert.md"", ""quote"": ""BERT-large has 16 attention heads.""}]",single,clear,true,test\n'
    )
    assert read_questions(path) == read_questions(write(tmp_path / "qa.jsonl", GOLD))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**ROUTE, "strategy": "guess"}, "column strategy: 'guess' is none of the choices"),
        ({**ROUTE, "part": "validation"}, "column part"),
        ({k: v for k, v in ROUTE.items() if k != "part"}, "column part: missing"),
        ({**ROUTE, "colour": "blue"}, "column colour: unknown"),
        ({**ROUTE, "strategy": "math", "transform": "vague"}, "column transform: math takes no transform"),
        ({**ROUTE, "history": [{"question": "And?"}]}, "column history.0.answer: missing"),
        ("{not json", "not JSON at character 2"),
        ('["a list"]', "a list, not an object"),
        ({**ROUTE, "id": "r0"}, "column id: 'r0' was used in line 1"),
    ],
)
def test_a_wrong_line_is_named_with_file_line_and_column(tmp_path: Path, row: dict[str, Any] | str, said: str) -> None:
    path = write(tmp_path / "routing.jsonl", {**ROUTE, "id": "r0"}, row)
    with pytest.raises(LabelError) as error:
        read_routing(path)
    assert f"{path}:2: " in str(error.value)
    assert said in str(error.value)
    assert error.value.hint or "transform" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"answer": ""}, "column answer"),
        ({"quotes": []}, "column quotes"),
        ({"answerable": False}, "column quotes: a question that cannot be answered has none"),
    ],
)
def test_gold_must_fit_whether_a_question_can_be_answered(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(LabelError, match=said):
        read_questions(write(tmp_path / "qa.jsonl", {**GOLD, **change}))


def test_a_missing_file_says_which(tmp_path: Path) -> None:
    write(tmp_path / "routing.jsonl", ROUTE)
    with pytest.raises(LabelError, match=r"neither qa\.jsonl nor qa\.csv"):
        read_labels(tmp_path)


def test_sound_labels_have_no_problems(tmp_path: Path) -> None:
    files = [write(tmp_path / "qa.jsonl", GOLD), write(tmp_path / "routing.jsonl", ROUTE)]
    problems, labels = check(files, corpus(tmp_path / "corpus"))
    assert problems == []
    assert balance(labels[files[1]])[0] == ("clear", "1", "0", "0", "1")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"quotes": [{"document": "bert.md", "quote": "BERT-large has 12 heads."}]}, "bert.md does not hold"),
        ({"quotes": [{"document": "gpt.md", "quote": "Anything."}]}, "there is no document 'gpt.md'"),
        ({"answer": "24 heads"}, "column answer: 24 stands in no quote"),
        ({"question": "what is  LoRA", "part": "dev"}, "stands in line 1 too, in part test"),
    ],
)
def test_check_finds_gold_that_does_not_stand(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    first = {**GOLD, "id": "q0", "question": "What is LoRA?"}
    path = write(tmp_path / "qa.jsonl", first, {**GOLD, **change})
    problems, _ = check([path], corpus(tmp_path / "corpus"))
    assert {problem.line for problem in problems} == {2}
    assert any(said in str(problem) for problem in problems)


def test_shipped_labels_are_sound() -> None:
    folder = Path(__file__).parent.parent / "data"
    problems, labels = check(sorted((folder / "labeled").glob("*.jsonl")), folder / "corpus")
    assert [str(problem) for problem in problems] == []
    counts = {path.name: len(found) for path, found in labels.items()}
    assert counts["routing.jsonl"] >= 150
    assert counts["qa.jsonl"] >= 40
    for found in labels.values():
        assert {label.part for label in found} == {"train", "dev", "test"}
    assert all(isinstance(label, QuestionLabel) for label in labels[folder / "labeled" / "qa.jsonl"])
