"""Chunks: whole sentences, inside the window, verbatim, nothing lost."""

from __future__ import annotations

from itertools import pairwise

import pytest

from program.ingest.chunking import OVERLAP_SENTENCES, TARGET, TINY, chunk_document
from program.ingest.documents import DocumentText, Section
from program.ingest.readers import read_document
from program.types import Chunk

WINDOW = 254


def count(text: str) -> int:
    return len(text.split())


def chunks_of(text: str, *sections: Section, title: str = "T", window: int = WINDOW) -> list[Chunk]:
    document = DocumentText(title, text, sections or (Section(0, len(text)),))
    return chunk_document(document, "doc", count, window)


def sentence(number: int, words: int = 20) -> str:
    return f"Sentence {number} " + "goes on " * ((words - 4) // 2) + "and ends."


def test_chunks_are_whole_sentences_that_fit_and_overlap_a_little() -> None:
    text = " ".join(sentence(number) for number in range(60))
    chunks = chunks_of(text)
    assert len(chunks) > 5
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.startswith("Sentence ")
        assert chunk.text.endswith("and ends.")
        assert count(chunk.title) + count(chunk.text) <= TARGET
    for before, after in pairwise(chunks):
        repeated = text[after.start : before.end].count("ends.")
        assert 1 <= repeated <= OVERLAP_SENTENCES
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    assert all(f"Sentence {number} " in " ".join(chunk.text for chunk in chunks) for number in range(60))


def test_a_long_title_takes_its_share_of_the_window() -> None:
    title = "word " * 30
    chunks = chunks_of(" ".join(sentence(number) for number in range(30)), title=title)
    assert all(count(title) + count(chunk.text) <= TARGET for chunk in chunks)


def test_sections_are_not_mixed_and_the_abstract_stands_alone() -> None:
    body = " ".join(sentence(number) for number in range(3))
    document = read_document(f"# T\n\n## Abstract\n\n{body}\n\n## One\n\n{body}\n\n## Two\n\n{body}\n".encode(), "x.md")
    chunks = chunk_document(document, "x.md", count, WINDOW)
    assert [(chunk.heading, chunk.kind) for chunk in chunks] == [
        ("Abstract", "abstract"),
        ("One", "passage"),
        ("Two", "passage"),
    ]
    assert {chunk.text for chunk in chunks} == {body}


def test_a_tiny_section_joins_its_neighbour_under_the_larger_ones_heading() -> None:
    body = " ".join(sentence(number) for number in range(3))
    document = read_document(f"# T\n\n## Tiny\n\nShort.\n\n## Large\n\n{body}\n\n## Last\n\nEnd.\n".encode(), "x.md")
    (chunk,) = chunk_document(document, "x.md", count, WINDOW)
    assert chunk.heading == "Large"
    assert chunk.text.startswith("Short.")
    assert chunk.text.endswith("End.")


def test_a_tiny_abstract_is_kept_apart() -> None:
    document = read_document(f"## Abstract\n\nShort.\n\n## One\n\n{sentence(1)}\n".encode(), "x.md")
    assert [chunk.kind for chunk in chunk_document(document, "x.md", count, WINDOW)] == ["abstract", "passage"]


def test_a_tiny_rest_goes_into_the_last_chunk() -> None:
    text = " ".join([*(sentence(number) for number in range(8)), "And a last one."])
    (chunk,) = [chunk for chunk in chunks_of(text) if "last one" in chunk.text]
    assert count(chunk.text) >= TINY


@pytest.mark.parametrize(
    "text",
    ["word " * 3000, "x" * 50_000, "中" * 3000, "one-line " + '{"a": [1, 2, 3]}, ' * 3000],
    ids=["no stop", "no space", "Chinese without stops", "data"],
)
def test_what_is_no_sentence_is_cut_and_kept(text: str) -> None:
    def count_characters_of_cjk(part: str) -> int:
        return len(part) if part[:1] == "中" else len(part.split())

    document = DocumentText("T", text, (Section(0, len(text)),))
    chunks = chunk_document(document, "doc", count_characters_of_cjk, WINDOW)
    assert all(count_characters_of_cjk(chunk.text) <= TARGET for chunk in chunks)
    assert all(len(chunk.text) <= 10 * TARGET for chunk in chunks)
    assert sum(len("".join(chunk.text.split())) for chunk in chunks) >= len("".join(text.split()))


def test_ids_depend_on_name_place_and_text_alone() -> None:
    text = " ".join(sentence(number) for number in range(20))
    ids = [chunk.id for chunk in chunks_of(text)]
    assert ids == [chunk.id for chunk in chunks_of(text, title="U")]
    assert len(set(ids)) == len(ids)
    document = DocumentText("T", text, (Section(0, len(text)),))
    assert not set(ids) & {chunk.id for chunk in chunk_document(document, "other", count, WINDOW)}


def test_pages_are_where_chunks_start() -> None:
    text = " ".join(sentence(number) for number in range(20))
    document = DocumentText("T", text, (Section(0, len(text)),), pages=((0, 3), (text.index("Sentence 5 "), 4)))
    pages = [chunk.page for chunk in chunk_document(document, "doc", count, WINDOW)]
    assert pages[0] == 3
    assert set(pages[1:]) == {4}


def test_counting_is_linear() -> None:
    counted = 0

    def counting(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return count(text)

    text = " ".join(sentence(number) for number in range(500))
    chunk_document(DocumentText("T", text, (Section(0, len(text)),)), "doc", counting, WINDOW)
    assert counted < 1.1 * len(text)
