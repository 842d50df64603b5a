"""Copying a library to a server and back, and the command line on a server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from program import cli
from program.errors import LibraryError
from program.library import Folder, Place, library_for_writing
from program.migrate import Paged
from program.retrieval.index import Index
from program.settings import Settings
from tests.fakes import HashEncoder

TEXTS = {"a": "Zeppelins fly slowly.", "b": "Submarines dive deep.", "c": "Zebras run far."}


@pytest.fixture
def server(weaviate: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A library on a server, for the command line: the environment says so."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("program.retrieval.encoders.load_encoder", lambda settings: HashEncoder())
    name = f"Migrate_{uuid.uuid4().hex}"
    monkeypatch.delenv("RAG_INDEX", raising=False)
    for key, value in {"DATA": tmp_path / "data", "WEAVIATE_COLLECTION": name}.items():
        monkeypatch.setenv(f"RAG_{key}", str(value))
    monkeypatch.setenv("RAG_WEAVIATE_URL", str(weaviate.weaviate_url))
    monkeypatch.setenv("RAG_WEAVIATE_GRPC", weaviate.weaviate_grpc)
    if weaviate.weaviate_key:
        monkeypatch.setenv("RAG_WEAVIATE_KEY", weaviate.weaviate_key.get_secret_value())
    place = library_for_writing(weaviate.model_copy(update={"weaviate_collection": name}))
    yield place
    place.remove()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Three documents in a folder, the last with many passages."""
    from program.ingest import ingest

    place = Folder(tmp_path / "data" / "library")
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\n{text}\n")
    (tmp_path / "long.md").write_text("# Long\n\n" + "\n\n".join(f"Station {n} of the line. " * 30 for n in range(30)))
    with closing(place.open(HashEncoder(), create=True)) as index:
        ingest([tmp_path / f"{name}.md" for name in (*TEXTS, "long")], index, HashEncoder())
    return place


def test_a_document_that_changes_while_it_is_copied_is_an_error():
    pages = Paged(["a", "b"], lambda ids: {"a": 1})
    with pytest.raises(LibraryError, match="changed"):
        list(pages)


def run(*args: str) -> dict[str, object]:
    result = CliRunner().invoke(cli.app, [*args, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def content(index: Index) -> dict[str, list[tuple[object, bytes, bytes]]]:
    """All that an index holds."""
    found = {}
    for document in index.documents():
        chunks = index.chunks(document.name)
        ids = [chunk.id for chunk in chunks]
        vectors, tokens = index.vectors(ids), index.token_vectors(ids)
        found[document.name] = [(chunk, vectors[chunk.id].tobytes(), tokens[chunk.id].tobytes()) for chunk in chunks]
    return found


def test_a_copy_holds_the_same_and_finds_the_same(folder: Folder, server: Place):
    done = run("migrate")
    assert done["complete"]
    assert done["result"]["copied"] == 4
    assert done["result"]["equal"] == 1.0
    with closing(folder.open_as_made()) as source, closing(server.open_as_made()) as target:
        assert content(target) == content(source)
        assert target.documents() == source.documents()
        assert len(target) == len(source) > 10


def test_a_second_run_copies_only_what_is_missing_or_changed(folder: Folder, server: Place, tmp_path: Path):
    run("migrate")
    (tmp_path / "a.md").write_text("# a\n\nAirships fly slowly.\n")
    with closing(server.open_as_made()) as target:
        target.delete("b.md")
    run("ingest", "a.md", "--index", str(folder))
    done = run("migrate", "--samples", "0")
    assert (done["result"]["copied"], done["result"]["there"], done["result"]["equal"]) == (2, 2, None)
    with closing(folder.open_as_made()) as source, closing(server.open_as_made()) as target:
        assert content(target) == content(source)


def test_and_back(folder: Folder, server: Place, tmp_path: Path):
    run("migrate")
    run("migrate", "--back", "--index", str(tmp_path / "copy"))
    with closing(folder.open_as_made()) as source, closing(Folder(tmp_path / "copy").open_as_made()) as target:
        assert content(target) == content(source)


def test_without_a_server_it_says_which_setting(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.app, ["migrate"])
    assert result.exit_code == 2
    assert "RAG_WEAVIATE_URL" in result.stderr


def test_the_command_line_works_on_a_server(server: Place, tmp_path: Path):
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\n{text}\n")
    assert run("ingest", "a.md", "b.md", "c.md")["counts"] == {"indexed": 3}
    assert run("ingest", "a.md")["counts"] == {"unchanged": 1}
    listed = run("documents")
    assert [document["name"] for document in listed["documents"]] == ["a.md", "b.md", "c.md"]
    assert str(listed["engine"]).startswith("Weaviate 1.")
    assert str(server) == listed["index"]
    assert run("forget", "a.md")["forgotten"] == ["a.md"]
    assert [document["name"] for document in run("documents")["documents"]] == ["b.md", "c.md"]
    with closing(server.open_as_made()) as index:
        hits = index.search("zeppelins", np.zeros(64, np.float32), k=9, alpha=0.0, fusion="ranked")
        assert hits == []
