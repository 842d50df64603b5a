"""What is the embedded engine's own: its file, its transactions, its errors."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from program.errors import LibraryError, LibraryMissing
from program.retrieval.embedded import FILE, VECTORS, EmbeddedIndex
from program.retrieval.index import Document, Search
from program.retrieval.late import packed_width
from program.retrieval.postings import BLOCK
from program.retrieval.snapshot import RECENT
from program.retrieval.vector_file import LEAST, products
from program.types import Chunk


def open_index(path: Path, *, create: bool = True) -> EmbeddedIndex:
    return EmbeddedIndex.open(path, "encoder", 2, create=create)


def put(index: EmbeddedIndex, name: str, text: str, vector: tuple[float, ...] = (1, 0)) -> None:
    vectors = np.array([vector], np.float32)
    index.replace(
        Document(name, name, "hash"), [Chunk(name, name, "", text)], vectors, [np.zeros((1, packed_width(2)), np.uint8)]
    )


def found(index: EmbeddedIndex, text: str) -> list[str]:
    hits = index.search(text, np.array([1, 0], np.float32), k=9, alpha=0.0, fusion="ranked")
    return [hit.chunk.text for hit in hits]


@pytest.mark.parametrize("rows", [0, 1, LEAST - 1, LEAST, 3 * LEAST + 5])
def test_a_scan_for_several_vectors_gives_each_what_a_scan_for_it_alone_gives(rows: int):
    chance = np.random.default_rng(rows)
    matrix = chance.standard_normal((rows, 24), dtype=np.float32)
    vectors = list(chance.standard_normal((5, 24), dtype=np.float32))
    assert products(matrix, [])() == []
    for vector, scores in zip(vectors, products(matrix, vectors)(), strict=True):
        assert scores.tolist() == np.vecdot(matrix, vector).tolist() == products(matrix, [vector])()[0].tolist()


def test_scores_forgotten_by_another_thread_in_the_middle_are_computed_again(tmp_path: Path):
    class Forgetful(dict[bytes, np.ndarray]):
        def get(self, key: bytes, default: object = None) -> object:  # type: ignore[override]
            try:
                return super().get(key, default)
            finally:
                self.clear()

    index = open_index(tmp_path)
    put(index, "a", "words")
    vectors = [np.array(vector, np.float32) for vector in ((1, 0), (0, 1), (1, 0))]
    with index._reading() as (_, state):
        state.dense(vectors)()
        forgetful = replace(state, _dense=Forgetful(state._dense))
        assert [scores.tolist() for scores in forgetful.dense(vectors)()] == [[1.0], [0.0], [1.0]]
    index.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_searches_too(tmp_path: Path):
    index = open_index(tmp_path)
    put(index, "a", "words")
    assert found(index, "words") == ["words"]
    index.close()
    child = os.fork()
    if not child:
        try:
            signal.alarm(20)  # without threads of its own it would wait for ever
            os._exit(found(open_index(tmp_path, create=False), "words") != ["words"])
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_more_searches_at_once_than_an_index_remembers(tmp_path: Path):
    index = open_index(tmp_path)
    put(index, "a", "words")
    angles = np.linspace(0, 1, 3 * RECENT)
    vectors = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    for _ in range(2):
        hits = index.search_all([Search("words", vector, 1, 1.0, "ranked") for vector in [*vectors, vectors[0]]])
        assert [hit.dense for (hit,) in hits] == pytest.approx([*np.cos(angles), 1.0])
    index.close()


def test_a_missing_library_says_how_to_make_one(tmp_path: Path):
    with pytest.raises(LibraryMissing, match="ingest"):
        open_index(tmp_path / "nowhere", create=False)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("content", [b"not a database", b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_file_is_a_library_error(tmp_path: Path, content: bytes):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(LibraryError, match="Delete the folder"):
        open_index(tmp_path)


def test_damage_found_while_reading_is_a_library_error(tmp_path: Path):
    index = open_index(tmp_path)
    put(index, "a", "words")
    index.close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("DROP TABLE postings")
    connection.close()
    index = open_index(tmp_path)
    with pytest.raises(LibraryError):
        found(index, "words")
    index.close()


def test_a_folder_that_cannot_be_made_is_a_library_error(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LibraryError, match="file"):
        open_index(tmp_path / "file" / "index")


def test_another_format_is_refused(tmp_path: Path):
    open_index(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE about SET value = '0' WHERE name = 'schema'")
    connection.close()
    with pytest.raises(LibraryError, match="another format"):
        open_index(tmp_path)


def test_a_writer_killed_in_the_middle_leaves_the_old_state(tmp_path: Path):
    """The child dies inside the transaction of its replacement, its deletions done."""
    index = open_index(tmp_path)
    put(index, "a", "the old words")
    child = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from tests.test_retrieval_embedded import open_index, put
index = open_index(Path({str(tmp_path)!r}))
with index._writing() as (connection, _):
    index._delete(connection, "a")
    os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", child], cwd=Path(__file__).parent.parent).returncode == 9
    again = open_index(tmp_path)
    for reader in (index, again):
        assert found(reader, "old words") == ["the old words"]
        assert len(reader) == 1
        reader.close()


def keys(index: EmbeddedIndex) -> list[int]:
    with index._reading() as (connection, _):
        return [key for (key,) in connection.execute("SELECT key FROM chunks ORDER BY key")]


def test_places_of_deleted_chunks_are_used_again(tmp_path: Path):
    index = open_index(tmp_path)
    for turn in range(20):
        put(index, "a", f"words {turn}")
        put(index, "b", f"words {turn}")
    assert max(keys(index)) < 4
    assert found(index, "words 7") == found(index, "words") == ["words 19", "words 19"]
    index.close()


def test_places_that_a_reader_may_look_at_are_left_alone(tmp_path: Path):
    """The reader is another process as far as SQLite can tell. It began before the deletion, and ends later."""
    index, other = open_index(tmp_path), open_index(tmp_path)
    put(index, "a", "words")
    with other._reading() as (connection, state):
        before = state.matrix[0].copy()
        index.delete("a")
        put(index, "b", "other words", vector=(0, 1))
        assert keys(index) == [1]
        assert (state.matrix[0] == before).all()
        assert connection.execute("SELECT document FROM chunks").fetchall() == [("a",)]
    put(index, "c", "new words")
    assert keys(index) == [0, 1]
    assert (found(other, "words"), found(other, "new")) == (["other words", "new words"], ["new words"])
    index.close()
    other.close()


def test_readers_never_see_the_vector_of_another_chunk(tmp_path: Path):
    """A chunk's text says its cosine, while chunks take each other's places. Readers use one index, or their own."""
    index, other = open_index(tmp_path), open_index(tmp_path)
    wrong: list[object] = []
    seen = 0
    stop = threading.Event()

    def read(reader: EmbeddedIndex) -> None:
        nonlocal seen
        try:
            while not stop.is_set():
                for hit in reader.search("at", np.array([1, 0], np.float32), k=9, alpha=0.5, fusion="ranked"):
                    seen += 1
                    if hit.dense != pytest.approx(int(hit.chunk.text.split()[1]) / 100, abs=1e-6):
                        wrong.append(hit)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=read, args=(reader,)) for reader in (index, index, other)]
    for thread in threads:
        thread.start()
    for turn in range(100):
        cosine = turn / 100
        put(index, "abc"[turn % 3], f"at {turn}", vector=(cosine, (1 - cosine**2) ** 0.5))
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert seen
    index.close()
    other.close()


def test_a_reader_that_is_behind_the_others_keeps_its_state(tmp_path: Path):
    index = open_index(tmp_path)
    put(index, "a", "words")
    with index._reading() as (connection, state):
        put(index, "b", "words")
        assert len(found(index, "words")) == 2
        again = index._current(connection)
        assert (again.generation, again.total) == (state.generation, 1)
    assert len(found(index, "words")) == 2
    index.close()


def test_a_write_that_fails_leaves_places_free(tmp_path: Path):
    index = open_index(tmp_path)
    put(index, "a", "words")
    with pytest.raises(ValueError, match="vectors"):
        put(index, "b", "words", vector=(1, 0, 0))
    put(index, "b", "more words", vector=(0, 1))
    assert keys(index) == [0, 1]
    assert index.vectors(["b"])["b"].tolist() == [0, 1]
    index.close()


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_lost_vectors_are_a_library_error(tmp_path: Path, damage: str):
    index = open_index(tmp_path)
    put(index, "a", "words")
    index.close()
    if damage == "gone":
        (tmp_path / VECTORS).unlink()
    else:
        (tmp_path / VECTORS).write_bytes(b"1234")
    index = open_index(tmp_path)
    with pytest.raises(LibraryError, match="Delete the folder"):
        found(index, "words")
    index.close()


def test_a_large_document_spans_blocks(tmp_path: Path):
    """Its chunks are found by their words wherever they stand, and go again without a trace."""
    index = open_index(tmp_path)
    put(index, "a", "words")
    many = 2 * BLOCK + 5
    chunks = [Chunk(f"m{n}", "many", "Title", f"common number{n}") for n in range(many)]
    vectors = np.tile(np.array([[0, 1]], np.float32), (many, 1))
    index.replace(Document("many", "", ""), chunks, vectors, [np.zeros((1, packed_width(2)), np.uint8)] * many)
    assert len(index) == many + 1
    assert [found(index, f"number{n}") for n in (0, BLOCK, many - 1)] == [
        [f"common number{n}"] for n in (0, BLOCK, many - 1)
    ]
    assert index.inverse_document_frequency(["common"])["common"] == pytest.approx(np.log(1 + 1.5 / (many + 0.5)))
    index.delete("many")
    assert found(index, "common title") == []
    with index._reading() as (connection, _):
        assert connection.execute("SELECT DISTINCT term FROM postings").fetchall() == [("word",)]
    index.close()


def test_many_threads_share_few_connections(tmp_path: Path):
    index = open_index(tmp_path)
    put(index, "a", "words")
    for _ in range(5):
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(found, [index] * 40, ["words"] * 40)) == [["words"]] * 40
    assert 1 <= len(index._database._idle) <= 4
    index.close()


def test_an_index_can_be_listed_without_its_encoder(tmp_path: Path):
    index = open_index(tmp_path)
    put(index, "a", "words")
    index.close()
    listed = EmbeddedIndex.open_as_made(tmp_path)
    assert ([item.name for item in listed.documents()], listed.encoder) == (["a"], "encoder")
    listed.close()
