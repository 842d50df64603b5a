"""Which library is asked and written to, and how the demo library keeps up with its articles."""

import shutil
from pathlib import Path

import pytest

from program import library
from program.errors import EncoderMismatch, LibraryError, LibraryMissing
from program.ingest import ingest
from program.library import library_for_writing, open_library, resolve
from program.retrieval.embedded import FILE, EmbeddedIndex
from program.settings import Settings
from tests.fakes import HashEncoder


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.delenv("RAG_INDEX", raising=False)
    return Settings(data=tmp_path / "data", cache=tmp_path / "cache", _env_file=None)


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.md").write_text("# Alpha\n\nThe first article says one thing.\n")
    (folder / "b.md").write_text("# Beta\n\nThe second article says another thing.\n")
    monkeypatch.setattr(library, "shipped", lambda relative: folder)
    return folder


def names(index) -> list[str]:
    with_names = [document.name for document in index.documents()]
    index.close()
    return with_names


def fill(place: Path, file: Path, encoder=None) -> None:
    encoder = encoder or HashEncoder()
    index = EmbeddedIndex.open(place, encoder.fingerprint, encoder.dimensions, create=True)
    ingest([file], index, encoder)
    index.close()


def test_demo_is_asked_until_the_own_library_holds_a_document(settings, corpus):
    assert resolve(settings) == settings.data / "demo"
    own = library_for_writing(settings)
    assert own == settings.data / "library"
    EmbeddedIndex.open(own, "hash-64", 64, create=True).close()
    assert resolve(settings) == settings.data / "demo"  # an empty one does not count
    fill(own, corpus / "a.md")
    assert resolve(settings) == own
    assert names(open_library(settings, HashEncoder())) == names(EmbeddedIndex.open_as_made(own))


def test_a_named_index_is_asked_and_written_to(settings, corpus, tmp_path):
    named = settings.model_copy(update={"index": tmp_path / "named"})
    fill(library_for_writing(settings), corpus / "a.md")
    assert resolve(named) == library_for_writing(named) == tmp_path / "named"
    with pytest.raises(LibraryMissing):
        open_library(named, HashEncoder())
    assert not (tmp_path / "named").exists()


def test_demo_follows_its_articles_and_leaves_unchanged_ones_alone(settings, corpus):
    assert len(names(open_library(settings, HashEncoder()))) == 2
    encoder = HashEncoder()
    assert len(names(open_library(settings, encoder))) == 2
    assert encoder.calls == []
    (corpus / "b.md").unlink()
    (corpus / "c.md").write_text("# Gamma\n\nA third article.\n")
    assert [name[0] for name in names(open_library(settings, encoder))] == ["a", "c"]
    assert len(encoder.calls) == 1


def test_demo_is_made_anew_for_another_encoder_but_an_own_library_is_not_touched(settings, corpus):
    open_library(settings, HashEncoder()).close()
    assert len(names(open_library(settings, HashEncoder(fingerprint="other")))) == 2
    fill(library_for_writing(settings), corpus / "a.md")
    with pytest.raises(EncoderMismatch):
        open_library(settings, HashEncoder(fingerprint="other"))


def test_progress_is_reported_while_the_demo_is_made(settings, corpus):
    seen = []
    open_library(settings, HashEncoder(), on_progress=lambda *step: seen.append(step)).close()
    assert seen[-1][0] == seen[-1][1] > 0


def test_a_damaged_own_library_is_reported_not_passed_over(settings, corpus):
    place = library_for_writing(settings)
    place.mkdir(parents=True)
    (place / FILE).write_bytes(b"this is no database, whatever its name says" * 100)
    assert resolve(settings) == place
    with pytest.raises(LibraryError):
        open_library(settings, HashEncoder())


def test_missing_articles_and_a_folder_that_cannot_be_made_say_what_to_do(settings, corpus, tmp_path):
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(LibraryError) as caught:
        open_library(settings, HashEncoder())
    assert "RAG_DATA" in caught.value.hint
    shutil.rmtree(corpus)
    with pytest.raises(LibraryError) as caught:
        open_library(settings, HashEncoder())
    assert "articles are missing" in str(caught.value)
