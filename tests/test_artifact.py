"""What an artifact may hold: everything else is refused with the reason, and nothing of it is executed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from program import artifact
from program.artifact import Artifact, CompiledWith, read, save, state_of
from program.errors import ArtifactError, SettingsError
from program.params import Params
from program.pipeline import AdaptiveRAG
from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.retriever import Retriever
from program.router import RouterHead
from program.settings import Settings
from program.shape import SHAPE_SIZE
from program.weights import DEFAULT
from tests.fakes import HashEncoder

NAME = "transforms.vague.rewrite"


@pytest.fixture
def rag(tmp_path: Path) -> AdaptiveRAG:
    encoder = HashEncoder()
    index = EmbeddedIndex.open(tmp_path / "index", encoder.fingerprint, encoder.dimensions, create=True)
    return AdaptiveRAG(Retriever(index, encoder))


def compiled(rag: AdaptiveRAG, head: RouterHead | None = None, **changes: Any) -> Artifact:
    states = state_of(rag)
    states[NAME] = {key: value for key, value in {**states[NAME], **changes}.items() if value != "left out"}
    with_ = CompiledWith(language_model="script/test", encoder="hash-64", reranker="none")
    return Artifact("trial", with_, Params(accept_bar=0.7), head, states, {})


def test_what_is_saved_is_read_and_applied(rag: AdaptiveRAG, tmp_path: Path) -> None:
    weights = np.ones((2, 64 + SHAPE_SIZE), np.float32)
    head = RouterHead(("clear", "math"), weights, np.zeros(2, np.float32))
    demos = [{"headings": "", "question": "¿qué? 注意", "rewritten": "x"}]
    for _ in range(2):  # the second takes the place of the first
        save(compiled(rag, head, demos=demos), tmp_path / "a")
    read(tmp_path / "a").apply(rag)
    assert rag.params.accept_bar == 0.7
    assert rag.head is not None
    assert rag.head.labels == ("clear", "math")
    assert rag.transforms.vague.rewrite.demos == demos
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".saving")] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"lm": {"model": "openai/x", "api_base": "http://elsewhere"}},
        {"config": {"api_base": "http://elsewhere"}},
        {"forward": "x"},
        {"lm": "left out"},
        {"demos": "abc"},
        {"demos": [3]},
        {"signature": 3},
        {"signature": {}},
        {"signature": {"instructions": "x", "fields": [{"prefix": "Question:"}]}},
        {"signature": {"instructions": "x", "fields": [{"prefix": "Question:", "description": "q"}]}},
    ],
)
def test_a_predictor_with_anything_but_its_own_state_is_refused(rag: AdaptiveRAG, changes: dict[str, Any]) -> None:
    with pytest.raises(ArtifactError, match=NAME):
        compiled(rag, **changes).apply(rag)


def test_a_changed_file_a_missing_head_and_a_number_out_of_bounds_are_refused(rag: AdaptiveRAG, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    save(compiled(rag), folder)
    file = folder / "artifact.json"
    sound = json.loads(file.read_text())
    changes: tuple[dict[str, Any], ...] = (
        {"router_labels": ["clear"]},
        {"router_labels": ["nonsense"]},
        {"files": {"program.json": "0" * 64}},
        {"files": {}},
        {"schema_version": 0},
        {"params": {"accept_bar": 2.0}},
        {"surprise": 1},
    )
    for change in changes:
        file.write_text(json.dumps({**sound, **change}))
        with pytest.raises(ArtifactError):
            read(folder)


def test_the_old_artifact_stays_when_the_new_one_cannot_take_its_place(
    rag: AdaptiveRAG, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rename = tmp_path / "a", Path.rename
    save(compiled(rag), folder)

    def failing(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError("full")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="full"):
        save(compiled(rag), folder)
    assert read(folder).name == "trial"


@pytest.mark.parametrize(
    "numbers",
    [
        {"search": {"clear": {}}},
        {"rank_without_cross_encoder": {"bias": float("nan"), "weights": {}}},
        {"rank_without_cross_encoder": {"bias": 0.0, "weights": {"no such signal": 1.0}}},
        {"no_such_number": 1},
    ],
)
def test_numbers_are_complete_finite_and_known(numbers: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Params.model_validate(numbers)


def test_a_setting_that_cannot_be_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_OFFLINE", "perhaps")
    with pytest.raises(SettingsError, match="RAG_OFFLINE"):
        artifact.load()


@pytest.mark.parametrize(
    ("compiled_for", "answers", "warned"),
    [
        ("embedded", "embedded", False),
        ("embedded", f"embedded/{DEFAULT}", False),
        ("embedded", "openai/x", True),
        ("embedded", "none", False),
    ],
)
def test_only_another_language_model_is_a_warning(
    rag: AdaptiveRAG, compiled_for: str, answers: str, warned: bool
) -> None:
    made = compiled(rag)
    made = replace(made, compiled_with=made.compiled_with.model_copy(update={"language_model": compiled_for}))
    assert bool(artifact._warnings(made, Settings(lm=answers))) == warned
