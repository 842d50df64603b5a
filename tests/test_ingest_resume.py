"""Killing an ingesting process: what is in the index is whole, and the next run goes on from there."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import weakref
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from fakes import HashEncoder

import program
from program.ingest import batch, ingest
from program.retrieval.embedded import FILE, VECTORS, EmbeddedIndex
from program.retrieval.postings import BLOCK
from program.retrieval.snapshot import KIND

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")


#: What an index holds of each document.
Contents = dict[str, list[tuple[object, ...]]]


def sentences(about: str, number: int) -> str:
    return " ".join(
        f"Sentence {place} tells what {about} has to do with number {place * 7 % 101} and why that matters."
        for place in range(number)
    )


def write(folder: Path, names: dict[str, str]) -> None:
    for name, text in names.items():
        (folder / name).write_text(text)


OLD = {
    "a.md": sentences("apples", 40),
    "b.md": sentences("old bees", 30),
    "d.md": "# Dogs\n\n" + sentences("dogs", 30),
}
#: a is as it was, b has changed and is large, c is new, d is now called e.
NEW = {
    "a.md": OLD["a.md"],
    "b.md": sentences("new bees", 300),
    "c.md": sentences("cats", 20),
    "e.md": OLD["d.md"],
}


def opened(place: Path) -> EmbeddedIndex:
    encoder = HashEncoder()
    return EmbeddedIndex.open(place, encoder.fingerprint, encoder.dimensions, create=True)


def contents(place: Path) -> Contents:
    """All that the index holds, by document; fails where its parts do not fit together."""
    with closing(sqlite3.connect(place / FILE)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        keys = [key for (key,) in file.execute("SELECT key FROM chunks ORDER BY 1")]
        assert [key for (key,) in file.execute("SELECT key FROM token_vectors ORDER BY 1")] == keys
        columns = {
            block * BLOCK + row
            for block, numbers in file.execute("SELECT block, numbers FROM columns")
            for row in np.flatnonzero(np.frombuffer(numbers, np.int32).reshape(-1, 5)[:, KIND])
        }
        assert columns == set(keys)
        words: dict[int, list[tuple[str, int, int]]] = {key: [] for key in keys}
        for term, entries in file.execute("SELECT term, entries FROM postings ORDER BY term"):
            for key, *occurrences in np.frombuffer(entries, np.int32).reshape(-1, 3).tolist():
                words[key].append((term, *occurrences))
        documents = dict(file.execute("SELECT name, chunks FROM documents").fetchall())
        rows = file.execute(
            "SELECT document, key, id, text, tokens FROM chunks JOIN token_vectors USING (key) "
            "ORDER BY document, position"
        ).fetchall()
    vectors = np.fromfile(place / VECTORS, np.float32)
    vectors = vectors[: len(vectors) // 64 * 64].reshape(-1, 64)
    found: Contents = {name: [] for name in documents}
    for name, key, *rest in rows:
        found[name].append((*rest, vectors[key].tobytes(), *words[key]))
    assert {name: len(chunks) for name, chunks in found.items()} == documents
    return found


MOMENTS = {
    "encoding b 1": {"b.md": "old", "d.md": "old"},
    "encoding b 2": {"b.md": "old", "d.md": "old"},  # in the middle of b
    "writing 1": {"b.md": "old", "d.md": "old"},  # the old b is deleted, nothing of the new one written
    "writing 9": {"b.md": "old", "d.md": "old"},  # in the middle of the new b
    "encoding c 1": {"b.md": "new", "d.md": "old"},
    "written 2": {"b.md": "new", "c.md": "new", "d.md": "old"},
    "renaming 2": {"b.md": "new", "c.md": "new", "d.md": "old"},  # in the middle of d's new name
    "progress 9999": {"b.md": "new", "c.md": "new", "e.md": "new"},  # not killed
}


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Indexes of the old and of the new files, nothing interrupted. The files are gone."""
    places = {}
    for version, files in (("old", OLD), ("new", NEW)):
        folder, places[version] = tmp_path_factory.mktemp(version), tmp_path_factory.mktemp(f"{version}-index")
        write(folder, files)
        with closing(opened(places[version])) as index:
            ingest([folder], index, HashEncoder())
        shutil.rmtree(folder)
    return places


@pytest.fixture(scope="module")
def versions(indexes: dict[str, Path]) -> dict[str, Contents]:
    held = {version: contents(place) for version, place in indexes.items()}
    assert len(held["new"]["b.md"]) > 9  # what MOMENTS counts on
    return held


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_leaves_whole_documents_and_the_next_one_goes_on(
    moment: str, indexes: dict[str, Path], versions: dict[str, Contents], tmp_path: Path
) -> None:
    folder, place = tmp_path / "files", tmp_path / "index"
    folder.mkdir()
    write(folder, NEW)
    shutil.copytree(indexes["old"], place)

    kill_at(moment, folder, place)

    expected = {"a.md": "old", **MOMENTS[moment]}
    assert contents(place) == {name: versions[version][name] for name, version in expected.items()}
    assert {file.name.removeprefix(FILE) for file in place.iterdir()} <= {"", "-vectors", "-wal", "-shm"}

    encoder = HashEncoder()
    with closing(opened(place)) as index:
        reports = ingest([folder], index, encoder)
        assert len(index) == sum(map(len, versions["new"].values()))
    known = {name for name in ("a.md", "e.md", *expected) if expected.get(name) != "old" or name == "a.md"}
    assert {report.name: report.status for report in reports} == {
        name: "unchanged" if name in known else "indexed" for name in NEW
    }
    assert sum(map(len, encoder.calls)) == sum(len(versions["new"][name]) for name in NEW if name not in known)
    assert contents(place) == versions["new"]


def kill_at(moment: str, folder: Path, place: Path) -> None:
    work = Path(__file__).parent / "ingest_work.py"
    path = os.pathsep.join([str(work.parent), str(Path(program.__file__).parent.parent)])
    child = subprocess.Popen(
        [sys.executable, str(work), moment, str(folder), str(place)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    with child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() in (f"at {moment}", "done")
        child.kill()


def test_a_document_is_never_held_in_memory_as_token_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a batch is encoded, nothing is left of the token vectors of those before it."""
    monkeypatch.setattr(batch, "BATCH", 4)
    alive: set[int] = set()
    most: list[int] = []

    class Counting(HashEncoder):
        def encode_with_tokens(self, texts):  # type: ignore[no-untyped-def]
            most.append(len(alive))
            vectors, tokens = super().encode_with_tokens(texts)
            for array in tokens:
                alive.add(id(array))
                weakref.finalize(array, alive.discard, id(array))
            return vectors, tokens

        def __reduce__(self):  # type: ignore[no-untyped-def]
            return HashEncoder, ()

    (tmp_path / "b.md").write_text(NEW["b.md"])
    with closing(opened(tmp_path / "index")) as index:
        (report,) = ingest([tmp_path / "b.md"], index, Counting())
        assert report.chunks > 9
        assert most == [0] * -(-report.chunks // 4)
        with index._reading() as (connection, _):
            ids = [row[0] for row in connection.execute("SELECT id FROM chunks")]
        assert np.isfinite(np.array(list(index.vectors(ids).values()))).all()
