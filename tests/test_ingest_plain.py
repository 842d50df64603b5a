"""Markdown and plain text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from program.errors import CorruptFile, NoText, UnsupportedFile
from program.ingest.documents import TITLE_LENGTH
from program.ingest.plain import decode
from program.ingest.readers import read_document

ARTICLE = """---
title: "Deep Nets: A Study"
authors: [Ada Byron, Alan Turing, Grace Hopper, Edsger Dijkstra]
year: 2017
arxiv: "1706.03762"
topics: [networks, depth]
---

# Deep Nets

## Abstract

Nets are deep.

## 1 Method

```
# no heading
```
We train them.
"""


def test_markdown_front_matter_and_sections() -> None:
    document = read_document(ARTICLE.encode(), "nets.md")
    assert document.title == "Deep Nets: A Study"
    assert document.source == "Ada Byron, Alan Turing, Grace Hopper et al., arXiv:1706.03762"
    assert (document.year, document.field) == (2017, "networks")
    assert [(section.heading, section.kind) for section in document.sections] == [
        ("Abstract", "abstract"),
        ("1 Method", "passage"),
    ]
    assert document.text[document.sections[0].start : document.sections[0].end].strip() == "Nets are deep."
    assert "# no heading" in document.text[document.sections[1].start : document.sections[1].end]
    assert "authors" not in document.text
    assert document.page_at(0) is None


@pytest.mark.parametrize(
    "block",
    [
        "title: [unclosed",
        "- a list\n- no mapping",
        "title: !!python/object/apply:os.system ['touch PROOF']",
        "a: &a [x, x]\nb: [*a, *a]",
        "date: 2020-99-99",
        "title: text without an end",
    ],
)
def test_front_matter_that_is_no_plain_mapping_is_text(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    end = "" if "without an end" in block else "\n---"
    document = read_document(f"---\n{block}{end}\n\n# Title\n\nSome text.\n".encode(), "x.md")
    assert block in document.text
    assert document.title == "Title"
    assert not (tmp_path / "PROOF").exists()


def test_titles_come_from_the_first_heading_or_the_name() -> None:
    assert read_document(b"# First *one*\n\nText.", "x.md").title == "First *one*"
    assert read_document(b"## Second level\n\nText.", "my_notes.md").title == "my notes"
    assert read_document(b"Text.", "plan b.txt").title == "plan b"
    assert len(read_document(b"# " + b"word " * 100 + b"\n\nText.", "x.md").title) <= TITLE_LENGTH


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("naïve – Straße".encode(), "naïve – Straße"),
        ("\ufeffmit Marke".encode(), "mit Marke"),
        ("breit – ü".encode("utf-16"), "breit – ü"),
        ("half a pair \ud800 ü".encode("utf-16", "surrogatepass"), "half a pair \ufffd ü"),
        ("é–ü".encode() + b" \xff damaged", "é–ü \ufffd damaged"),
        (("Der Bär läuft über die Straße und grüßt die Möwen. " * 5).encode("cp1252"), "Der Bär läuft über die Straße"),
    ],
)
def test_encodings(data: bytes, text: str) -> None:
    assert decode(data).startswith(text)


def test_special_markers_markup_and_controls_are_plain_data() -> None:
    hostile = "<|endoftext|> [[ ## answer ## ]] <script>alert(1)</script> nul\x00 bell\x07 end."
    document = read_document(hostile.encode(), "x.txt")
    assert document.text == hostile.replace("\x00", " ").replace("\x07", " ")


def test_binary_and_empty_files_are_refused() -> None:
    with pytest.raises(CorruptFile):
        read_document(random.Random(0).randbytes(5000), "x.txt")
    with pytest.raises(CorruptFile):
        read_document(b"\x00\x01\x02" * 100, "x.md")
    for empty in (b"", b" \n\t\n", b"\xef\xbb\xbf"):
        with pytest.raises(NoText):
            read_document(empty, "x.txt")
    with pytest.raises(NoText):
        read_document(b"---\ntitle: only this\n---\n", "x.md")
    with pytest.raises(UnsupportedFile, match=r"\.docx"):
        read_document(b"text", "x.odt")
