"""Real PDF files with the usual troubles, where they are at hand. OCR is left out: it takes seconds for a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pdf_sentences import expected, missing

from program.errors import CorruptFile, EncryptedFile, NoText
from program.ingest import ocr
from program.ingest.chunking import chunk_document
from program.ingest.quotes import contains_quote
from program.ingest.readers import read_document
from program.tokens import count_tokens

DATASETS = Path(__file__).resolve().parent.parent.parent / "shared" / "datasets"
FILES = sorted(DATASETS.glob("pdfs/*.pdf"))
PAPER = DATASETS / "pdfs" / "attention_is_all_you_need.pdf"
FIVE = DATASETS / "attention_five.jsonl"
#: Sentences that the files' own text does not hold: letters with wrong codes, misread scans, text in a picture.
NOT_THERE = {
    "docling__right_to_left_02.pdf": 4,
    "pypdf__Seige_of_Vicksburg_Sample_OCR.pdf": 2,
    "pypdf__test_Orient.pdf": 1,
}

pytestmark = pytest.mark.skipif(not FILES, reason="the folder of real PDF files is not at hand")


@pytest.fixture(autouse=True)
def no_ocr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "available", lambda: False)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_whole_sentences_in_one_chunk_or_a_typed_error(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wanted = expected().get(path.name, {})
    try:
        document = read_document(path.read_bytes(), path.name, wanted.get("password"))
    except (CorruptFile, NoText):
        assert not wanted.get("sentences")
        assert not wanted.get("rows")
    else:
        chunks = chunk_document(document, path.name, count_tokens, 510)
        assert chunks
        assert all(chunk.text == document.text[chunk.start : chunk.end] for chunk in chunks)
        assert all(chunk.page for chunk in chunks)
        assert document.title
        lost = list(missing([chunk.text for chunk in chunks], wanted, ocr=False))
        assert len(lost) <= NOT_THERE.get(path.name, 0), lost
    assert capfd.readouterr() == ("", "")


def test_passwords() -> None:
    for path in FILES:
        if "password" in expected().get(path.name, {}):
            for wrong in (None, "", "a guess"):
                with pytest.raises(EncryptedFile):
                    read_document(path.read_bytes(), path.name, wrong)


@pytest.mark.skipif(not (PAPER.exists() and FIVE.exists()), reason="the paper or its questions are not at hand")
def test_the_papers_gold_quotes_come_out_whole_in_one_chunk() -> None:
    document = read_document(PAPER.read_bytes(), PAPER.name)
    chunks = chunk_document(document, PAPER.name, count_tokens, 510)
    assert document.title == "Attention Is All You Need"
    assert "english-to-german" in document.text.casefold()
    assert "Englishto" not in document.text
    assert "sequence-aligned" in document.text
    assert not contains_quote(document.text, "Layer normalization. arXiv preprint")
    for line in FIVE.read_text(encoding="utf-8").splitlines():
        for quote in json.loads(line)["quotes"]:
            assert any(contains_quote(chunk.text, quote["quote"]) for chunk in chunks), quote["quote"]
