"""What is the embedded engine's own: its file, its transactions, its errors."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from program.errors import LibraryError, LibraryMissing
from program.retrieval.embedded import FILE, EmbeddedIndex
from program.retrieval.index import Document
from program.types import Chunk


def open_index(path: Path, *, create: bool = True) -> EmbeddedIndex:
    return EmbeddedIndex.open(path, "encoder", 2, create=create)


def put(index: EmbeddedIndex, name: str, text: str) -> None:
    vectors = np.array([[1, 0]], np.float32)
    index.replace(Document(name, name, "hash"), [Chunk(name, name, "", text)], vectors, [np.zeros((1, 2), np.int8)])


def found(index: EmbeddedIndex, text: str) -> list[str]:
    hits = index.search(text, np.array([1, 0], np.float32), k=9, alpha=0.0, fusion="ranked")
    return [hit.chunk.text for hit in hits]


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


def test_a_closed_index_is_a_library_error(tmp_path: Path):
    index = open_index(tmp_path)
    index.close()
    with pytest.raises(LibraryError):
        len(index)


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


def test_an_index_can_be_listed_without_its_encoder(tmp_path: Path):
    index = open_index(tmp_path)
    put(index, "a", "words")
    index.close()
    listed = EmbeddedIndex.open_as_made(tmp_path)
    assert ([item.name for item in listed.documents()], listed.encoder) == (["a"], "encoder")
    listed.close()
