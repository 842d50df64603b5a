"""Which library is asked and written to, and how the demo library keeps up with its articles, on both engines."""

import shutil
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from program import library
from program.errors import EncoderMismatch, LibraryError, LibraryMissing, LibraryUnavailable, SettingsError
from program.ingest import ingest
from program.library import Folder, OnServer, Place, demo_library, library_for_writing, open_library, resolve
from program.retrieval.embedded import FILE
from program.settings import Settings
from tests.fakes import HashEncoder


@pytest.fixture
def embedded(tmp_path, monkeypatch):
    monkeypatch.delenv("RAG_INDEX", raising=False)
    return Settings(data=tmp_path / "data", cache=tmp_path / "cache", _env_file=None)


@pytest.fixture(params=["embedded", "weaviate"])
def settings(request, embedded):
    if request.param == "embedded":
        yield embedded
        return
    server = request.getfixturevalue("weaviate")
    more = {"data": embedded.data, "weaviate_collection": f"Library_{uuid.uuid4().hex}"}
    settings = server.model_copy(update=more)
    yield settings
    for place in (library_for_writing(settings), demo_library(settings)):
        place.remove()


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


def fill(place: Place, file: Path) -> None:
    with closing(place.open(HashEncoder(), create=True)) as index:
        ingest([file], index, HashEncoder())


def test_one_setting_says_where_libraries_are(embedded):
    assert library_for_writing(embedded) == Folder(embedded.data / "library")
    assert resolve(embedded) == demo_library(embedded) == Folder(embedded.data / "demo")
    several = "http://one:8080, https://two"
    server = embedded.model_copy(update={"weaviate_url": several, "weaviate_grpc": "50051,grpc-two:443"})
    own, demo = library_for_writing(server), demo_library(server)
    assert isinstance(own, OnServer)
    assert isinstance(demo, OnServer)
    assert (own.address.collection, demo.address.collection) == ("AdaptiveRag", "AdaptiveRagDemo")
    first, second = own.address.endpoints
    assert (first.host, first.port, first.grpc_host, first.grpc_port, first.secure) == (
        "one",
        8080,
        "one",
        50051,
        False,
    )
    assert (second.host, second.port, second.grpc_host, second.grpc_port, second.secure) == (
        "two", 443, "grpc-two", 443, True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("url", "grpc"),
    [
        ("ftp://host", "50051"),
        ("http://", "50051"),
        ("http://host", "port"),
        ("a,b", "1,2,3"),
        (",", "1"),
        ("host", "99999"),
    ],
)
def test_an_address_that_is_none_is_refused(embedded, url, grpc):
    with pytest.raises(SettingsError, match="RAG_WEAVIATE_GRPC"):
        library_for_writing(embedded.model_copy(update={"weaviate_url": url, "weaviate_grpc": grpc}))


def test_an_address_of_the_sixth_version_keeps_its_brackets_where_they_belong(embedded):
    server = {"weaviate_url": "http://[::1]:8080", "weaviate_grpc": "[::1]:50051"}
    place = library_for_writing(embedded.model_copy(update=server))
    (endpoint,) = place.address.endpoints
    assert (endpoint.host, endpoint.grpc_host, str(endpoint)) == ("::1", "::1", "http://[::1]:8080")


def test_the_plain_variable_names_a_server_too(monkeypatch):
    monkeypatch.setenv("WEAVIATE_URL", "http://plain:8080")
    assert Settings(_env_file=None).weaviate_url == "http://plain:8080"
    monkeypatch.setenv("RAG_WEAVIATE_URL", "http://ours:8080")
    assert Settings(_env_file=None).weaviate_url == "http://ours:8080"


def test_demo_is_asked_until_the_own_library_holds_a_document(settings, corpus):
    assert resolve(settings) == demo_library(settings)
    own = library_for_writing(settings)
    own.open(HashEncoder(), create=True).close()
    assert resolve(settings) == demo_library(settings)  # an empty one does not count
    fill(own, corpus / "a.md")
    assert resolve(settings) == own
    assert names(open_library(settings, HashEncoder())) == names(own.open_as_made())


def test_a_named_index_is_asked_and_written_to(settings, corpus, tmp_path):
    named = settings.model_copy(update={"index": tmp_path / "named"})
    fill(library_for_writing(settings), corpus / "a.md")
    assert resolve(named) == library_for_writing(named) == Folder(tmp_path / "named")
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


def test_a_damaged_own_library_is_reported_not_passed_over(embedded, corpus):
    place = library_for_writing(embedded)
    place.path.mkdir(parents=True)
    (place.path / FILE).write_bytes(b"this is no database, whatever its name says" * 100)
    assert resolve(embedded) == place
    with pytest.raises(LibraryError):
        open_library(embedded, HashEncoder())


def test_a_server_that_is_not_there_is_reported_not_passed_over(embedded, corpus):
    gone = embedded.model_copy(update={"weaviate_url": "http://127.0.0.1:9"})
    assert resolve(gone) == library_for_writing(gone)
    with pytest.raises(LibraryUnavailable, match="RAG_WEAVIATE_URL"):
        open_library(gone, HashEncoder())


def test_missing_articles_and_a_folder_that_cannot_be_made_say_what_to_do(embedded, corpus, tmp_path):
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(LibraryError) as caught:
        open_library(embedded, HashEncoder())
    assert "RAG_DATA" in caught.value.hint
    shutil.rmtree(corpus)
    with pytest.raises(LibraryError) as caught:
        open_library(embedded, HashEncoder())
    assert "articles are missing" in str(caught.value)
