"""Every check, in its good state and in the broken ones; nothing here loads a real model."""

import json
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from program import cli, doctor
from program.artifact import read
from program.errors import WeightsError
from program.retrieval import encoders, rerankers
from program.retrieval.embedded import FILE, EmbeddedIndex
from program.settings import Settings, shipped
from tests.fakes import HashEncoder


@pytest.fixture(autouse=True)
def encoder(monkeypatch):
    fake = HashEncoder()
    monkeypatch.setattr(encoders, "load_encoder", lambda settings: fake)
    monkeypatch.setattr(rerankers, "load_reranker", lambda settings: None)
    for name in ("RAG_LM", "RAG_INDEX", "RAG_WEIGHTS", "RAG_LM_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return fake


@pytest.fixture
def settings(tmp_path):
    return Settings(data=tmp_path / "data", cache=tmp_path / "cache", offline=True, _env_file=None)


def check(name: str, settings: Settings, **changes) -> doctor.Check:
    found = {check.name: check for check in doctor.run(settings.model_copy(update=changes))}
    assert all(check.mend for check in found.values() if check.status != "ok")
    return found[name]


def test_every_check_runs_and_each_that_is_not_ok_says_how_to_mend_it(settings):
    names = [check.name for check in doctor.run(settings)]
    assert names == ["language model", "weights", "encoder", "reranker", "library", "artifact", "disk", "memory"]


def test_a_check_that_breaks_is_a_finding(settings, monkeypatch):
    def broken(settings):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(encoders, "load_encoder", broken)
    found = check("encoder", settings)
    assert (found.status, found.message) == ("fail", "ZeroDivisionError: oops")


def test_missing_weights_fail_and_nothing_is_fetched(settings):
    found = check("weights", settings, offline=False)
    assert found.status == "fail"
    assert "program.weights" in found.mend
    assert check("weights", settings, lm="openai/gpt-4o-mini").status == "ok"


def test_damaged_weights_fail(settings, tmp_path):
    from program.weights import DEFAULT, MODELS

    (tmp_path / MODELS[DEFAULT].file).write_bytes(b"GGUF, but not that one")
    found = check("weights", settings, weights=tmp_path)
    assert found.status == "fail"
    assert "damaged" in found.message


@pytest.mark.parametrize(
    ("lm", "key", "status"),
    [("none", None, "warn"), ("openai/gpt-4o-mini", None, "fail"), ("openai/gpt-4o-mini", "sk-secret", "ok")],
)
def test_language_model_without_a_url(settings, monkeypatch, lm, key, status):
    if key:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    found = check("language model", settings, lm=lm)
    assert found.status == status
    assert "sk-secret" not in found.line()


@pytest.mark.parametrize(("code", "status"), [(200, "ok"), (401, "fail"), (404, "warn")])
def test_language_model_behind_a_url_is_asked_for_its_models(settings, monkeypatch, code, status):
    asked = []
    monkeypatch.setattr(httpx, "get", lambda url, **options: asked.append(url) or httpx.Response(code))
    assert check("language model", settings, lm="openai/x", lm_url="http://127.0.0.1:9/v1/").status == status
    assert asked == ["http://127.0.0.1:9/v1/models"]


def test_language_model_that_is_down(settings, monkeypatch):
    def refuse(url, **options):
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(httpx, "get", refuse)
    found = check("language model", settings, lm="ollama/qwen2.5")
    assert found.status == "fail"
    assert "localhost:11434" in found.message
    assert "Start the server" in found.mend


def test_reranker_says_which_is_in_use(settings, monkeypatch):
    assert "late interaction" in check("reranker", settings).message

    class CrossEncoder:
        name = "tiny"

    monkeypatch.setattr(rerankers, "load_reranker", lambda settings: CrossEncoder())
    assert check("reranker", settings).message == "cross-encoder tiny"


def test_library_states(settings, encoder, tmp_path):
    assert "to be made with the first question" in check("library", settings).message
    named = tmp_path / "named"
    missing = check("library", settings, index=named)
    assert (missing.status, named.exists()) == ("fail", False)
    EmbeddedIndex.open(named, encoder.fingerprint, encoder.dimensions, create=True).close()
    assert check("library", settings, index=named).status == "warn"  # empty
    other = tmp_path / "other"
    EmbeddedIndex.open(other, "another-encoder", encoder.dimensions, create=True).close()
    mismatch = check("library", settings, index=other)
    assert mismatch.status == "fail"
    assert "another-encoder" in mismatch.message
    (other / FILE).write_bytes(b"no database at all" * 100)
    assert check("library", settings, index=other).status == "fail"


def test_artifact_that_is_not_there_or_damaged(settings, tmp_path):
    assert check("artifact", settings, artifact=tmp_path / "none").status == "fail"
    (tmp_path / "artifact.json").write_text("{")
    found = check("artifact", settings, artifact=tmp_path)
    assert found.status == "fail"
    assert "optimize" in found.mend


def test_the_shipped_artifact_fits_the_encoder_it_was_compiled_for(settings, encoder):
    assert "was compiled for the encoder" in check("artifact", settings).message
    encoder.fingerprint, encoder.dimensions = read(shipped("artifacts/default")).compiled_with.encoder, 384
    assert check("artifact", settings).status == "ok"


@pytest.mark.parametrize(("free", "status"), [(0.1, "fail"), (1.0, "warn"), (50.0, "ok")])
def test_disk(settings, monkeypatch, free, status):
    class Usage:
        def __init__(self, gib):
            self.free = gib * doctor.GIB

    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda place: Usage(free))
    assert check("disk", settings).status == status


def test_deep_asks_one_question(settings, monkeypatch):
    from program import lm

    def no_model(settings):
        raise WeightsError("No weights.", "Fetch them.")

    monkeypatch.setattr(lm, "connect", no_model)
    last = list(doctor.run(settings, deep=True))[-1]
    assert (last.name, last.status, last.mend) == ("question", "fail", "Fetch them.")


def test_settings_in_force_hide_keys(settings):
    shown = doctor.in_force(Settings(lm="openai/x", lm_key="sk-secret", _env_file=None))
    assert shown["lm"] == "openai/x"
    assert "sk-secret" not in str(shown)


def test_command_prints_one_line_each_and_fails_when_something_must_be_mended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_DATA", str(tmp_path))
    checks = [doctor.Check("a", "ok", "good"), doctor.Check("b", "warn", "low \x1b[31m", "Free some.")]
    monkeypatch.setattr(doctor, "run", lambda settings, deep: iter(checks))
    result = CliRunner().invoke(cli.app, ["doctor"])
    assert result.exit_code == 0
    assert result.stdout.endswith("ok    a: good\nwarn  b: low \n      -> Free some.\n")
    assert f"RAG_DATA={tmp_path}" in result.stdout
    checks.append(doctor.Check("c", "fail", "broken", "Mend it."))
    result = CliRunner().invoke(cli.app, ["doctor", "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["ok"] is False
    assert found["checks"][2] == {"name": "c", "status": "fail", "message": "broken", "mend": "Mend it."}


def test_folders_that_do_not_exist_yet_are_judged_by_what_is_above_them(tmp_path):
    assert doctor._existing(tmp_path / "a" / "b") == tmp_path
    assert doctor._existing(Path("/nowhere/at/all")) == Path("/")
