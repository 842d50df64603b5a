"""Chunks: whole sentences, inside the window, verbatim, nothing lost."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest

from program.ingest.chunking import SLACK, TARGET, chunk_document
from program.ingest.documents import DocumentText, Section
from program.ingest.pieces import LEAST
from program.ingest.plain import read_markdown
from program.ingest.tables import PART_TOKENS, find_tables, markdown_table, repeat_headers
from program.tokens import count_tokens
from program.types import Chunk

WINDOW = 254
MOST = TARGET * (1 + SLACK)


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
    assert all(TARGET <= count_tokens(chunk.text) <= MOST for chunk in chunks[:-1])
    for before, after in pairwise(chunks):
        assert text[after.start : before.end].count("ends.") in {1, 2}
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    assert all(f"Sentence {number} " in " ".join(chunk.text for chunk in chunks) for number in range(60))


def test_about_a_sixth_is_repeated_whatever_the_sentences_lengths() -> None:
    for words in (8, 14, 20, 26, 40):
        chunks = chunks_of(" ".join(sentence(number, words) for number in range(200)))
        repeated = sum(max(before.end - after.start, 0) for before, after in pairwise(chunks))
        assert 0.08 < repeated / sum(len(chunk.text) for chunk in chunks) < 0.3


def test_chunks_fit_the_window_with_their_title() -> None:
    title = "word " * 30
    chunks = chunks_of(" ".join(sentence(number) for number in range(30)), title=title, window=100)
    assert all(count(title) + count(chunk.text) <= 100 for chunk in chunks)


def test_a_sentence_that_the_window_holds_is_never_cut() -> None:
    long = sentence(1, 240)
    assert count_tokens(long) > MOST
    chunks = chunks_of(f"{sentence(0)} {long} {sentence(2)}")
    assert any(long in chunk.text for chunk in chunks)


def test_a_target_may_be_given() -> None:
    text = " ".join(sentence(number) for number in range(60))
    document = DocumentText("T", text, (Section(0, len(text)),))
    chunks = chunk_document(document, "doc", count, 510, target=300)
    assert all(300 <= count_tokens(chunk.text) <= 360 for chunk in chunks[:-1])


def markdown_chunks(text: str) -> list[Chunk]:
    return chunk_document(read_markdown(text.encode(), "x"), "x.md", count, WINDOW)


def test_sections_are_not_mixed_and_the_abstract_stands_alone() -> None:
    body = " ".join(sentence(number) for number in range(3))
    chunks = markdown_chunks(f"# T\n\n## Abstract\n\n{body}\n\n## One\n\n{body}\n\n## Two\n\n{body}\n")
    assert [(chunk.heading, chunk.kind) for chunk in chunks] == [
        ("Abstract", "abstract"),
        ("One", "passage"),
        ("Two", "passage"),
    ]
    assert {chunk.text for chunk in chunks} == {body}


def test_a_tiny_section_joins_its_neighbour_under_the_larger_ones_heading() -> None:
    body = " ".join(sentence(number) for number in range(3))
    (chunk,) = markdown_chunks(f"# T\n\n## Tiny\n\nShort.\n\n## Large\n\n{body}\n\n## Last\n\nEnd.\n")
    assert chunk.heading == "Large"
    assert chunk.text.startswith("## Tiny\n\nShort.\n\n## Large\n\nSentence 0")
    assert chunk.text.endswith("## Last\n\nEnd.")


def test_a_heading_without_text_heads_its_parts_too() -> None:
    body = " ".join(sentence(number) for number in range(3))
    text = (
        f"# T\n\n## Methods\n\n### Data\n\n{body}\n\n#### Sources\n\n{body}\n\n### Analysis\n\n{body}\n\n"
        f"## Annex\n\n### Abstract\n\n{body}\n\n## {'Long ' * 29}\n\n### Short\n\n{body}\n"
    )
    assert [(chunk.heading, chunk.kind) for chunk in markdown_chunks(text)] == [
        ("Methods: Data", "passage"),
        ("Sources", "passage"),
        ("Methods: Analysis", "passage"),
        ("Annex: Abstract", "abstract"),
        ("Short", "passage"),
    ]


def test_a_tiny_section_under_two_headings_takes_its_own_along() -> None:
    body = " ".join(sentence(number) for number in range(3))
    (chunk,) = markdown_chunks(f"# T\n\n## Methods\n\n### Tiny\n\nShort.\n\n### Large\n\n{body}\n")
    assert chunk.heading == "Methods: Large"
    assert chunk.text.startswith("### Tiny\n\nShort.\n\n### Large\n\nSentence 0")


def test_tiny_sections_join_into_one_that_is_large_enough() -> None:
    text = "".join(f"## Part {number}\n\nIt has some words.\n\n" for number in range(20))
    chunks = markdown_chunks(text)
    assert len(chunks) > 3
    assert all(count_tokens(chunk.text) >= LEAST for chunk in chunks)
    assert all(any(f"Part {number}\n" in f"{c.heading}\n{c.text}" for c in chunks) for number in range(20))


def test_nothing_is_lost_and_nothing_is_tiny_whatever_the_sections_are() -> None:
    random.seed(1)
    for _ in range(60):
        numbers = iter(range(1, 10_000))
        text = "".join(
            f"{'#' * random.randint(1, 3)} Head{next(numbers)}\n\n"
            + " ".join(f"Word{next(numbers)} goes." for _ in range(random.choice([1, 1, 2, 5, 40])))
            + random.choice(["", "\n\n| a | b |\n|---|---|\n| c | d |"])
            + "\n\n"
            for _ in range(random.randint(2, 30))
        )
        chunks = markdown_chunks(text)
        assert all(count_tokens(chunk.text) >= LEAST for chunk in chunks)
        kept = set(re.findall(r"\w+\d+", " ".join(f"{chunk.heading} {chunk.text}" for chunk in chunks)))
        title = chunks[0].title
        assert set(re.findall(r"\w+\d+", text)) - {title} == kept - {title}


def test_what_stands_before_an_abstract_is_kept_with_it() -> None:
    body = " ".join(sentence(number) for number in range(3))
    (chunk,) = markdown_chunks(f"# T\n\nA. Author, B. Author\n\n## Abstract\n\n{body}\n")
    assert chunk.kind == "abstract"
    assert chunk.text.startswith("A. Author")


def test_a_tiny_section_does_not_join_across_what_the_reader_left_out() -> None:
    body = " ".join(sentence(number) for number in range(3))
    text = f"{body}{'left out ' * 50}Short."
    chunks = chunks_of(text, Section(0, len(body)), Section(len(text) - 6, len(text)))
    assert [chunk.text for chunk in chunks] == [body]


@pytest.mark.parametrize("text", ["Short.", "# Title\n\nWords.", "## Abstract\n\nShort."])
def test_a_document_that_is_only_short_is_kept(text: str) -> None:
    (chunk,) = markdown_chunks(text)
    assert chunk.text.endswith((".", "Short."))


@pytest.mark.parametrize("words", [20, 60, 120])
def test_no_rest_is_under_the_least_tokens(words: int) -> None:
    for number in range(1, 30):
        text = " ".join([*(sentence(place, words) for place in range(number)), "And a last one."])
        chunks = chunks_of(text)
        assert all(count_tokens(chunk.text) >= LEAST for chunk in chunks)
        assert "And a last one." in chunks[-1].text


def table(rows: int, words: int = 3) -> str:
    return markdown_table([["Name", "Value", "Note"], *([f"row {n}", str(n), "note " * words] for n in range(rows))])


def test_tables_keep_rows_whole_and_their_header_in_every_chunk() -> None:
    text = f"{sentence(0)}\n\n{table(60)}\n{sentence(1)}"
    document = DocumentText("T", text, (Section(0, len(text)),), tables=find_tables(text))
    chunks = chunk_document(document, "doc", count, WINDOW)
    rows = [line for chunk in chunks for line in chunk.text.splitlines() if line.startswith("| row")]
    assert rows == [line for line in text.splitlines() if line.startswith("| row")]
    assert all("| Name | Value | Note |\n| --- |" in c.text.split("| row")[0] for c in chunks if "| row" in c.text)
    assert all(count_tokens(chunk.text) <= MOST for chunk in chunks)


def test_a_table_that_no_reader_divided_is_cut_between_rows() -> None:
    lines = table(3).splitlines()
    text = "\n".join([*lines, *(f"| row {n} | {n} | more |" for n in range(3, 60))])
    chunks = chunk_document(
        DocumentText("T", text, (Section(0, len(text)),), tables=find_tables(text)), "doc", count, WINDOW
    )
    assert len(chunks) > 2
    assert all(line.startswith("| ") and line.endswith(" |") for chunk in chunks for line in chunk.text.splitlines())


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
    assert all(count_characters_of_cjk(chunk.text) < WINDOW for chunk in chunks)
    assert all(len(chunk.text) <= 10 * WINDOW for chunk in chunks)
    assert all(count_tokens(chunk.text) >= LEAST for chunk in chunks)
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


def test_markdown_tables_are_found_and_written_back_alike() -> None:
    written = markdown_table([["Name", "a | b"], ["x\ny", "1"], ["z"], [], ["", ""]])
    assert written == "| Name | a \\| b |\n| --- | --- |\n| x y | 1 |\n| z |  |\n"
    text = f"Before:\n\n{written}\nAfter | it |"
    (found,) = find_tables(text)
    assert text[found.start : found.end] == written
    assert text[found.start : found.header_end].splitlines() == written.splitlines()[:2]
    assert repeat_headers(text) == text
    assert markdown_table([]) == markdown_table([["", ""]]) == ""


@pytest.mark.parametrize("text", ["| a |\n| b |", "| a | b |\n| --- |\n", "```\n| a |\n| - |\n```", "a | b\n- | -"])
def test_what_is_no_markdown_table(text: str) -> None:
    assert find_tables(text) == ()


def test_long_tables_are_written_in_parts_with_the_header() -> None:
    whole = "| Name | Note |\n| :-- | --: |\n" + "".join(f"| row {n} | a \\| b |\n" for n in range(50))
    text = repeat_headers(f"Before.\n\n{whole}\nAfter.")
    found = find_tables(text)
    assert len(found) > 2
    for part in found:
        assert text[part.start : part.end].startswith("| Name | Note |\n| --- | --- |\n| row ")
        assert count_tokens(text[part.start : part.end]) <= PART_TOKENS
    assert [text.count(f"| row {n} | a \\| b |\n") for n in range(50)] == [1] * 50
    assert text.startswith("Before.\n\n")
    assert text.endswith("\nAfter.")
    assert repeat_headers(text) == text


def test_many_columns_are_divided_each_part_with_the_first_column() -> None:
    rows = [[f"{kind} {number}" for number in range(60)] for kind in ("column", "first", "second")]
    text = markdown_table(rows)
    parts = find_tables(text)
    assert len(parts) > 3
    for part in parts:
        header, _, first, second = text[part.start : part.end].splitlines()
        assert (header[:12], first[:11], second[:12]) == ("| column 0 |", "| first 0 |", "| second 0 |")
        assert count_tokens(text[part.start : part.end]) <= PART_TOKENS
    assert all(text.count(f"| second {number} |") == 1 for number in range(1, 60))
