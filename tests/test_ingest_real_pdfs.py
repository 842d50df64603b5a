"""Real PDF files with the usual troubles, where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from program.errors import CorruptFile, EncryptedFile, NoText
from program.ingest.chunking import chunk_document
from program.ingest.quotes import contains_quote
from program.ingest.readers import read_document

DATASETS = Path(__file__).resolve().parent.parent.parent / "shared" / "datasets"
FILES = sorted(DATASETS.glob("pdfs/*.pdf"))
PAPER = DATASETS / "pdfs" / "attention_is_all_you_need.pdf"
FIVE = DATASETS / "attention_five.jsonl"
PASSWORD = "asdfzxcv"

pytestmark = pytest.mark.skipif(not FILES, reason="the folder of real PDF files is not at hand")


def count(text: str) -> int:
    return len(text.split()) * 4 // 3


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_text_or_a_typed_error(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        document = read_document(path.read_bytes(), path.name)
    except (CorruptFile, EncryptedFile, NoText):
        pass
    else:
        chunks = chunk_document(document, path.name, count, 254)
        assert chunks
        assert all(chunk.text == document.text[chunk.start : chunk.end] for chunk in chunks)
        assert all(chunk.page for chunk in chunks)
        assert document.title
    assert capfd.readouterr() == ("", "")


def test_passwords() -> None:
    path = DATASETS / "pdfs" / "pypdf__r3-user-password.pdf"
    if not path.exists():
        pytest.skip("the encrypted file is not at hand")
    with pytest.raises(EncryptedFile):
        read_document(path.read_bytes(), path.name)
    with pytest.raises(NoText):  # it opens, and holds a few words
        read_document(path.read_bytes(), path.name, PASSWORD)


@pytest.mark.skipif(not (PAPER.exists() and FIVE.exists()), reason="the paper or its questions are not at hand")
def test_the_papers_gold_quotes_come_out_whole_in_one_chunk() -> None:
    document = read_document(PAPER.read_bytes(), PAPER.name)
    chunks = chunk_document(document, PAPER.name, count, 254)
    assert document.title == "Attention Is All You Need"
    assert "english-to-german" in document.text.casefold()
    assert "Englishto" not in document.text
    assert "sequence-aligned" in document.text
    assert not contains_quote(document.text, "Layer normalization. arXiv preprint")
    for line in FIVE.read_text(encoding="utf-8").splitlines():
        for quote in json.loads(line)["quotes"]:
            assert any(contains_quote(chunk.text, quote["quote"]) for chunk in chunks), quote["quote"]
