"""Files that could not be read are not tried again until something has changed that could help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import ingest_work
import pytest
from fakes import HashEncoder

from program.ingest import FileReport, Limits, identity, ingest, unread
from program.ingest.isolated import IsolatedReader
from program.retrieval.embedded import EmbeddedIndex


class Library:
    """A folder whose files are read as their bytes say (tests/ingest_work.py), and an index of them."""

    def __init__(self, place: Path, index: EmbeddedIndex) -> None:
        self.folder = place / "files"
        self.memory = place / "index" / unread.FILE
        self.index = index
        self.read: list[str] = []  # by the last `ingest`

    def write(self, name: str, what: str) -> Path:
        (self.folder / name).write_text(what)
        return self.folder / name

    def ingest(self, **how: Any) -> dict[str, FileReport]:
        self.read.clear()
        return {report.name: report for report in ingest([self.folder], self.index, HashEncoder(), **how)}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    monkeypatch.setattr("program.ingest.plan.read_passages", ingest_work.behave)
    monkeypatch.setattr(identity, "AT_REST", -1.0)
    monkeypatch.setattr(unread, "_languages", lambda: "")
    (tmp_path / "files").mkdir()
    encoder = HashEncoder()
    with closing(EmbeddedIndex.open(tmp_path / "index", encoder.fingerprint, encoder.dimensions, create=True)) as index:
        library = Library(tmp_path, index)
        read = IsolatedReader.read

        def reading(reader: IsolatedReader, data: bytes, name: str, password: str | None) -> object:
            library.read.append(name)
            return read(reader, data, name, password)

        monkeypatch.setattr(IsolatedReader, "read", reading)
        yield library


def test_a_second_run_says_what_the_first_met_without_reading(library: Library) -> None:
    for name, what in {"a.md": "", "b.md": "surprise", "c.md": "locked", "d.md": "good"}.items():
        library.write(name, what)
    first = library.ingest()
    assert library.read == ["a.md", "b.md", "c.md", "d.md"]
    for _ in range(2):
        again = library.ingest()
        assert library.read == []
        assert [report.status for report in again.values()] == ["no text", "corrupt", "encrypted", "unchanged"]
        for name in ("a.md", "b.md", "c.md"):
            assert again[name].message == f"As before: {first[name].message}"
    assert len(library.memory.read_text().splitlines()) == 3
    library.ingest(retry=True)
    assert library.read == ["a.md", "b.md", "c.md"]


def test_a_file_that_was_touched_copied_or_moved_is_known_by_its_content(library: Library) -> None:
    path = library.write("a.md", "surprise")
    library.ingest()
    path.touch()
    library.write("b.md", "surprise")
    assert {report.status for report in library.ingest().values()} == {"corrupt"}
    path.rename(library.folder / "c.md")
    assert {report.status for report in library.ingest().values()} == {"corrupt"}
    assert library.read == []


def test_a_file_that_was_mended_is_read(library: Library) -> None:
    library.write("a.md", "")
    library.ingest()
    library.write("a.md", "good")
    assert library.ingest()["a.md"].status == "indexed"


def test_a_password_opens_what_was_encrypted_and_a_wrong_one_is_not_remembered(library: Library) -> None:
    library.write("a.md", "locked")
    library.write("b.md", "surprise")
    library.ingest()
    for password, status in (("wrong", "encrypted"), ("open", "indexed")):
        assert library.ingest(password=password)["a.md"].status == status
        assert library.read == ["a.md"]


def test_other_limits_may_help(library: Library) -> None:
    library.write("a.md", "hang")
    assert library.ingest(limits=Limits(seconds=0.5))["a.md"].status == "took too long"
    assert library.ingest(limits=Limits(seconds=0.5))["a.md"].message.startswith("As before: Reading took more")
    assert library.read == []
    library.ingest(limits=Limits(seconds=0.6))
    assert library.read == ["a.md"]


def test_ocr_may_help_scans_and_nothing_else(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.md", "b.PDF", "c.png"):
        library.write(name, "surprise")
    library.ingest()
    monkeypatch.setattr(unread, "_languages", lambda: "deu eng")
    library.ingest()
    assert library.read == ["b.PDF", "c.png"]
    library.ingest()
    assert library.read == []


def test_what_is_kept_may_be_damaged_or_of_no_use(library: Library) -> None:
    library.write("a.md", "surprise")
    library.ingest()
    library.memory.write_bytes(b'\xff{"sha256": 3}\n[]\n{"error": \n' + library.memory.read_bytes())
    assert library.ingest()["a.md"].status == "corrupt"
    assert library.read == []
    library.memory.write_bytes(library.memory.read_bytes().replace(b"CorruptFile", b"SystemExit"))
    assert library.ingest()["a.md"].status == "corrupt"
    assert library.read == ["a.md"]
    library.memory.unlink()
    library.memory.mkdir()  # it can neither be read nor be written
    assert library.ingest()["a.md"].status == "corrupt"


def test_the_languages_of_tesseract_are_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("eng.traineddata", "deu.traineddata", "osd"):
        (tmp_path / name).touch()
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    unread._languages.cache_clear()
    assert unread._languages() == "deu eng"
    monkeypatch.delenv("TESSDATA_PREFIX")
    monkeypatch.setenv("PATH", str(tmp_path))
    unread._languages.cache_clear()
    assert unread._languages() == ""
    unread._languages.cache_clear()
