"""How files are known again: by content, by name and by place; and what names they get."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import ingest_work
import pytest
from fakes import HashEncoder

from program.ingest import FileReport, identity, ingest
from program.ingest.files import find_files
from program.retrieval.embedded import EmbeddedIndex

TEXT = "A title\n" + "The Adam optimizer was used with a learning rate of 0.001. " * 3
OTHER = "Another title\n" + "Dropout was 0.1 in all of the experiments, and nothing else. " * 3


class Library:
    """A folder of files, and an index of them."""

    def __init__(self, folder: Path, index: EmbeddedIndex) -> None:
        self.folder = folder
        self.index = index
        self.encoder = HashEncoder()

    def write(self, name: str, text: str = TEXT, *, at_rest: bool = True) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def ingest(self, *names: str, mirror: bool = False) -> list[FileReport]:
        self.encoder.calls.clear()
        return ingest([self.folder / name for name in names or (".",)], self.index, self.encoder, mirror=mirror)

    def outcome(self, *names: str, mirror: bool = False) -> dict[str, tuple[str, str]]:
        """File to status and document."""
        return {report.name: (report.status, report.document) for report in self.ingest(*names, mirror=mirror)}

    @property
    def encoded(self) -> int:
        """Passages encoded by the last `ingest`."""
        return sum(map(len, self.encoder.calls))

    @property
    def texts(self) -> dict[str, str]:
        """Document to the first words that are found of it."""
        hits = self.index.search("the", self.encoder.encode(["the"])[0], k=99, alpha=1.0, fusion="ranked")
        assert len(hits) == len(self.index)
        return {hit.chunk.document: hit.chunk.text.split()[1] for hit in hits}


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    encoder = HashEncoder()
    index = EmbeddedIndex.open(tmp_path / "index", encoder.fingerprint, encoder.dimensions, create=True)
    (tmp_path / "files").mkdir()
    yield Library(tmp_path / "files", index)
    index.close()


@pytest.fixture(autouse=True)
def read_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("program.ingest.plan.read_passages", ingest_work.one_passage)


@pytest.fixture
def at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as at rest from when they are written."""
    monkeypatch.setattr(identity, "AT_REST", -1.0)


def test_a_copy_stays_under_the_name_it_is_known_by(library: Library) -> None:
    library.write("a.md")
    library.ingest()
    library.write("b.md")
    for _ in range(2):
        (_, copy) = library.ingest()
        assert (copy.name, copy.document, copy.status, copy.chunks) == ("b.md", "a.md", "unchanged", 1)
        assert "a.md" in copy.message
        assert library.encoded == 0
    assert list(library.texts) == ["a.md"]


def test_copies_in_one_batch_are_read_once(library: Library) -> None:
    for name in ("a.md", "b.md", "c/a.md"):
        library.write(name)
    assert library.outcome() == {
        "a.md": ("indexed", "a.md"), "b.md": ("unchanged", "a.md"), "c/a.md": ("unchanged", "a.md")
    }  # fmt: skip
    assert library.encoded == 1


def test_the_same_bytes_with_another_extension_are_another_content(library: Library) -> None:
    library.write("a.md")
    library.write("a.txt")
    assert library.outcome() == {"a.md": ("indexed", "a.md"), "a.txt": ("indexed", "a.txt")}


def test_a_renamed_file_keeps_its_chunks_under_its_new_name(library: Library) -> None:
    path = library.write("a.md")
    library.write("z.md", OTHER)
    library.ingest()
    path.rename(library.folder / "b.md")
    (renamed, _) = library.ingest()
    assert (renamed.name, renamed.document, renamed.status, renamed.chunks) == ("b.md", "b.md", "unchanged", 1)
    assert "a.md" in renamed.message
    assert library.encoded == 0
    assert library.texts == {"b.md": "Adam", "z.md": "was"}
    # nothing but the path tells it from a library that was made of these files
    fresh = chunks(library.index)
    library.index.delete("b.md")
    library.ingest()
    assert chunks(library.index) == fresh


def chunks(index: EmbeddedIndex) -> list[object]:
    vector = HashEncoder().encode(["the"])[0]
    return index.search("the", vector, k=99, alpha=0.5, fusion="ranked")  # type: ignore[return-value]


def test_a_moved_folder_keeps_its_documents(library: Library, tmp_path: Path) -> None:
    library.write("a.md")
    library.ingest()
    library.folder = library.folder.rename(tmp_path / "moved")
    assert library.outcome() == {"a.md": ("unchanged", "a.md")}
    assert library.encoded == 0
    assert [document.path for document in library.index.documents()] == [str(tmp_path / "moved" / "a.md")]


def test_names_that_change_places(library: Library) -> None:
    a, b = library.write("a.md"), library.write("b.md", OTHER)
    library.ingest()
    a.rename(library.folder / "x")
    b.rename(a)
    (library.folder / "x").rename(b)
    library.ingest()
    assert library.texts == {"a.md": "was", "b.md": "Adam"}


def test_a_new_file_with_the_old_content_of_a_changed_one_is_not_lost(library: Library) -> None:
    library.write("b.md")
    library.ingest()
    library.write("a.md")
    library.write("b.md", OTHER)
    library.ingest()
    assert library.texts == {"a.md": "Adam", "b.md": "was"}


def test_a_file_that_becomes_a_copy_no_longer_answers_with_its_old_text(library: Library) -> None:
    library.write("a.md")
    library.write("b.md", OTHER)
    library.ingest()
    library.write("b.md")
    assert library.outcome()["b.md"] == ("unchanged", "a.md")
    assert library.texts == {"a.md": "Adam"}


def test_a_file_at_rest_is_not_opened_again(library: Library, at_rest: None, monkeypatch: pytest.MonkeyPatch) -> None:
    path = library.write("a.md")
    library.ingest()

    def opened(*_arguments: object) -> None:
        raise AssertionError("the file is opened")

    with monkeypatch.context() as patched:
        patched.setattr("program.ingest.plan.read_content", opened)
        assert library.outcome() == {"a.md": ("unchanged", "a.md")}
        path.write_text(OTHER)
        with pytest.raises(AssertionError, match="the file is opened"):
            library.ingest()
    # as long, and with the old time of modification: the time of change still tells
    before = path.stat()
    library.ingest()
    path.write_text(OTHER.replace("0.1", "0.2"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert library.outcome() == {"a.md": ("indexed", "a.md")}


def test_a_file_that_was_written_just_before_it_was_read_is_hashed(library: Library) -> None:
    path = library.write("a.md")
    library.ingest()
    assert [document.stamp for document in library.index.documents()] == [""]
    path.write_text(TEXT.replace("0.001", "0.002"))
    assert library.outcome() == {"a.md": ("indexed", "a.md")}


def test_a_file_that_was_touched_is_known_without_being_opened_the_next_time(library: Library, at_rest: None) -> None:
    path = library.write("a.md")
    library.ingest()
    (before,) = library.index.documents()
    os.utime(path)
    assert library.outcome() == {"a.md": ("unchanged", "a.md")}
    (after,) = library.index.documents()
    assert (after.sha256, after.chunks) == (before.sha256, before.chunks)
    assert identity.as_recorded(path, after)
    assert not identity.as_recorded(path, before)


def test_other_rules_index_anew(library: Library, at_rest: None, monkeypatch: pytest.MonkeyPatch) -> None:
    library.write("a.md")
    library.ingest()
    monkeypatch.setattr(identity, "RULES", "other")
    identity._rules.cache_clear()
    assert library.outcome() == {"a.md": ("indexed", "a.md")}
    monkeypatch.undo()
    identity._rules.cache_clear()


def test_names(library: Library) -> None:
    library.write("one/a.md")
    library.write("two/a.md", OTHER)
    expected = {"a.md": ("indexed", "a.md"), "two/a.md": ("indexed", "two/a.md")}
    assert library.outcome("one/a.md", "two/a.md", "one/a.md") == expected
    for names in (("one/a.md", "two/a.md"), ("two/a.md", "one/a.md"), ("two", "one")):
        outcome = library.outcome(*names)
        assert outcome == {"a.md": ("unchanged", "a.md"), "two/a.md": ("unchanged", "two/a.md")}
    assert library.ingest("missing.md")[0].name == "missing.md"


def test_another_file_of_the_same_name_does_not_take_a_documents_place(library: Library) -> None:
    library.write("one/readme.md")
    library.write("two/readme.md", OTHER)
    assert library.outcome("one") == {"readme.md": ("indexed", "readme.md")}
    for status in ("indexed", "unchanged"):
        assert library.outcome("two") == {"two/readme.md": (status, "two/readme.md")}
    assert library.texts == {"readme.md": "Adam", "two/readme.md": "was"}
    shutil.rmtree(library.folder / "one")  # now the name is free
    library.write("three/readme.md", OTHER.replace("0.1", "0.3"))
    assert library.outcome("three") == {"readme.md": ("indexed", "readme.md")}


def test_a_mirror_holds_these_files_under_these_names_and_no_others(library: Library, tmp_path: Path) -> None:
    library.write("a.md")
    library.write("b.md", OTHER)
    library.ingest(mirror=True)
    here, there = library.folder, tmp_path / "elsewhere"
    shutil.copytree(here, there)
    library.folder = there
    (there / "a.md").rename(there / "c.md")
    library.write("b.md", OTHER.replace("Dropout was", "Noise is"))
    library.write("d.md", "Third\nA third one that is about nothing in particular.")
    assert library.outcome(mirror=True) == {
        "b.md": ("indexed", "b.md"), "c.md": ("unchanged", "c.md"), "d.md": ("indexed", "d.md")
    }  # fmt: skip
    assert library.texts == {"b.md": "is", "c.md": "Adam", "d.md": "third"}


def found(*paths: Path) -> list[str]:
    return [file.name for file in find_files(paths)]


def test_patterns(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.md", "b.txt", "sub/c.md", "sub/deep/d.md", "sub/.hidden.md", "odd[1].md", "sub/deep/a.md"):
        library.write(name)
    folder = library.folder
    assert found(folder / "*.md") == ["a.md", "odd[1].md"]
    assert found(folder / "**/*.md") == ["a.md", "odd[1].md", "c.md", "deep/a.md", "d.md"]
    assert found(folder / "**") == ["a.md", "b.txt", "odd[1].md", "c.md", "deep/a.md", "d.md"]
    assert found(folder / "s*") == ["c.md", "deep/a.md", "deep/d.md"]
    assert found(folder / "odd[1].md") == ["odd[1].md"]  # a file of that name comes first
    assert found(folder / "[ab].*") == ["a.md", "b.txt"]
    monkeypatch.chdir(folder)
    assert found(Path("sub/*/d.md"), Path("*.txt")) == ["d.md", "b.txt"]
    (nothing,) = find_files([folder / "*.pdf"])
    assert "No file matches" in nothing.problem
