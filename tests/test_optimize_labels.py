"""Label files: what is read, what is refused, and what `labels check` finds."""

import json
from pathlib import Path
from typing import Any

import pytest

from optimize.check import PARTS, balance, check, read, thin
from optimize.gold import Documents
from optimize.labels import Problem, QuestionLabel, RoutingLabel, read_labels, read_questions, read_routing
from optimize.leakage import Row, nearest
from program.errors import LabelError
from program.retrieval.encoders import load_encoder
from program.settings import settings_from
from tests.fakes import HashEncoder

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
        ({**ROUTE, "history": "none"}, "column history: Input should be a valid list. Write a list"),
        ({**ROUTE, "question": 3}, "column question: Input should be a valid string. Write text."),
        ({**ROUTE, "question": " "}, "column question: String should have at least 1 character. Write it out."),
        ({**ROUTE, "id": "r0"}, "column id: 'r0' was used in line 1"),
    ],
)
def test_a_wrong_line_is_named_with_file_line_and_column(tmp_path: Path, row: dict[str, Any] | str, said: str) -> None:
    path = write(tmp_path / "routing.jsonl", {**ROUTE, "id": "r0"}, row)
    with pytest.raises(LabelError) as error:
        read_routing(path)
    assert f"{path}:2: " in str(error.value)
    assert said in str(error.value)
    assert error.value.hint or "write clear instead" in str(error.value)


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


def problems_of(*files: Path, corpus_folder: Path, encoder: HashEncoder | None = None) -> list[Problem]:
    _, found = check(files, Documents(corpus_folder), encoder)
    return [problem for item in found for problem in item.problems]


def test_sound_labels_have_no_problems(tmp_path: Path) -> None:
    files = [write(tmp_path / "qa.jsonl", GOLD), write(tmp_path / "routing.jsonl", ROUTE)]
    rows, found = check(files, Documents(corpus(tmp_path / "corpus")), HashEncoder())
    assert [item.problems for item in found] == [[]] * 6
    assert [item.tried for item in found] == [2, 1, 1, 2, 1, 2]
    assert balance([rows[1].label])[0] == ("clear", "1", "0", "0", "1")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"quotes": [{"document": "bert.md", "quote": "BERT-large has 12 heads."}]}, "bert.md does not hold"),
        ({"quotes": [{"document": "gpt.md", "quote": "Anything."}]}, "there is no document 'gpt.md'"),
        ({"answer": "24 heads"}, "column answer: 24 stands in no quote"),
        ({"question": "what is  LoRA", "part": "dev"}, "stands in line 1 too, in part test"),
        ({"part": "dev"}, "column quotes: share a passage with line 1 of part test (this one is in dev)"),
    ],
)
def test_check_finds_gold_that_does_not_stand(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    first = {**GOLD, "id": "q0", "question": "What is LoRA?"}
    path = write(tmp_path / "qa.jsonl", first, {**GOLD, **change})
    problems = problems_of(path, corpus_folder=corpus(tmp_path / "corpus"))
    assert {problem.line for problem in problems} == {2}
    assert any(said in str(problem) for problem in problems)
    assert all(problem.hint for problem in problems)


def test_overlapping_gold_is_found_in_any_length_and_typesetting(tmp_path: Path) -> None:
    longer = {"document": "bert.md", "quote": "has 16 attention\nheads. It is large."}
    other = {**GOLD, "id": "q2", "question": "Is BERT large?", "answer": "yes", "quotes": [longer], "part": "train"}
    path = write(tmp_path / "qa.jsonl", GOLD, other)
    (problem,) = problems_of(path, corpus_folder=corpus(tmp_path / "corpus"))
    assert "share a passage with line 1 of part test" in problem.message


@pytest.mark.parametrize(
    ("second", "part", "tied"),
    [
        ("In the ImageNet contest, which top-5 error had ResNet?", "dev", True),
        ("In the ImageNet contest, which top-5 error had VGG?", "dev", False),  # each names its own
        ("In the ImageNet contest, which top-5 error had ResNet?", "train", False),  # one part
        ("Which metric ranks retrieval results?", "dev", False),
    ],
)
def test_a_paraphrase_may_not_be_in_two_parts(tmp_path: Path, second: str, part: str, tied: bool) -> None:
    first = {**ROUTE, "question": "Which top-5 error had ResNet in the ImageNet contest?"}
    path = write(tmp_path / "routing.jsonl", first, {**ROUTE, "id": "r2", "question": second, "part": part})
    problems = problems_of(path, corpus_folder=corpus(tmp_path / "corpus"), encoder=HashEncoder())
    assert [("asks the same as line 1 of part train" in problem.message) for problem in problems] == [True] * tied


def test_an_empty_file_is_a_problem(tmp_path: Path) -> None:
    (problem,) = problems_of(write(tmp_path / "routing.jsonl", ""), corpus_folder=corpus(tmp_path / "corpus"))
    assert str(problem) == f"{tmp_path / 'routing.jsonl'}:1: holds no labels. Write one question a line."


def test_a_paraphrase_in_another_file_is_found_too(tmp_path: Path) -> None:
    routing = write(tmp_path / "routing.jsonl", {**ROUTE, "question": "BERT-large: how many heads does it have?"})
    qa = write(tmp_path / "qa.jsonl", {**GOLD, "question": "How many heads does it have, BERT-large?"})
    found = problems_of(routing, qa, corpus_folder=corpus(tmp_path / "corpus"), encoder=HashEncoder())
    assert any(f"{routing}:1" in str(problem) for problem in found)


def test_the_most_alike_pairs_of_two_parts_are_listed_alikest_first() -> None:
    def row(place: int, question: str, part: str) -> Row:
        values = {**ROUTE, "id": f"r{place}", "question": question, "part": part}
        return Row(Path("routing.jsonl"), place, RoutingLabel.model_validate(values))

    rows = [
        row(0, "Who wrote the Adam paper?", "train"),
        row(1, "Who wrote the Adam paper then?", "train"),  # alikest, but in the same part
        row(2, "Who wrote the LoRA paper?", "test"),
        row(3, "How do tides arise?", "dev"),
    ]
    pairs = nearest(rows, HashEncoder(), 2)
    assert [(tie.first, tie.second) for tie in pairs] == [(0, 2), (1, 2)]
    assert len(nearest(rows, HashEncoder(), 100)) == 5
    assert nearest(rows, HashEncoder(), 0) == []


def test_classes_that_a_part_lacks_are_told_but_are_no_problem() -> None:
    row = RoutingLabel.model_validate(ROUTE)
    assert thin([row])[0].startswith("Part train has few of: clear 1")
    assert "Part train has none of: vague, compound" in thin([row])[1]
    assert thin([row])[2:] == ["No question is in part dev.", "No question is in part test."]
    assert thin([QuestionLabel.model_validate(GOLD)])[-1] == "Part test has few of: clear 1."


def test_csv_problems_name_the_row_s_first_line_and_semicolons_part_cells(tmp_path: Path) -> None:
    path = tmp_path / "routing.csv"
    rows = ['a;"What is\nLoRA?";single;clear;train', "b;What is Adam?;singel;clear;train"]
    path.write_text("\n".join(["id;question;strategy;transform;part", *rows]) + "\n")
    (problem,) = problems_of(path, corpus_folder=corpus(tmp_path / "corpus"))
    assert str(problem).startswith(f"{path}:4: column strategy: 'singel' is none of the choices. Write")


def test_the_guideline_s_page_counts_what_is_there() -> None:
    folder = Path(__file__).parent.parent / "data" / "labeled"
    page = (folder / "README.md").read_text()
    for name in ("routing", "qa"):
        table = page.split(f"`{name}.jsonl`: ")[1].split("\n\n")[1].splitlines()[2:]
        said = [tuple(cell.strip(" `") for cell in line.strip("|").split("|")) for line in table]
        rows, _ = read([folder / f"{name}.jsonl"])
        assert said == [row for row in balance([row.label for row in rows]) if row[-1] != "0"]


@pytest.mark.e2e
def test_shipped_labels_are_sound() -> None:
    folder = Path(__file__).parent.parent / "data"
    files = sorted((folder / "labeled").glob("*.jsonl"))
    rows, found = check(files, Documents(folder / "corpus"), load_encoder(settings_from(None)))
    assert [str(problem) for item in found for problem in item.problems] == []
    qa = [row.label for row in rows if isinstance(row.label, QuestionLabel)]
    routing = [row.label for row in rows if not isinstance(row.label, QuestionLabel)]
    assert thin(routing) == []
    assert {(label.label, part) for label in qa for part in PARTS} == {(label.label, label.part) for label in qa}, (
        "every class of qa.jsonl is in every part"
    )
