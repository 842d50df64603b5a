"""Tables on PDF pages come out as Markdown rows, each part under its header."""

from __future__ import annotations

import pymupdf
import pytest
from pdf_files import grid, lines, pdf

from program.ingest import ocr
from program.ingest.chunking import chunk_document
from program.ingest.documents import DocumentText
from program.ingest.readers import read_document
from program.tokens import count_tokens

ROWS = [["Server class", "2007", "2008", "2009"]] + [[f"kind {n}", f"{n}50", f"{n}51", f"{n}52"] for n in range(1, 40)]
TALK = ["Three sentences of running text stand above and between the rules of this page.", "They are no table."] * 4


@pytest.fixture(autouse=True)
def no_ocr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "available", lambda: False)


def read(data: bytes) -> DocumentText:
    return read_document(data, "some_report.pdf")


@pytest.mark.parametrize("upright", [True, False], ids=["grid", "three rules"])
def test_rows_with_their_header_in_the_same_chunk(upright: bool) -> None:
    document = read(grid(60, 60, ROWS, upright=upright))
    chunks = chunk_document(document, "report", count_tokens, 510)
    assert document.tables
    assert all(
        document.text[table.start :].startswith("| Server class | 2007 | 2008 | 2009 |\n| ---")
        for table in document.tables
    )
    for row in ROWS[1:]:
        (holding, *_) = [chunk for chunk in chunks if f"| {' | '.join(row)} |" in chunk.text]
        assert "| Server class | 2007 | 2008 | 2009 |" in holding.text
        assert holding.page == 1


def test_a_turned_page() -> None:
    with pymupdf.open(stream=grid(60, 60, ROWS[:8])) as document:
        document[0].set_rotation(90)
        assert "| kind 3 | 350 | 351 | 352 |" in read(document.tobytes()).text


def test_a_cell_that_wraps_and_a_heading_over_two_columns() -> None:
    with pymupdf.open() as document:
        page = document.new_page()
        for x in (60, 200, 300, 400):
            page.draw_line((x, 60 if x != 300 else 80), (x, 180))
        for y in (60, 100, 140, 180):
            page.draw_line((60, y), (400, y))
        page.draw_line((200, 80), (400, 80))
        for x, y, text in (
            (64, 85, "Action to be taken"), (280, 75, "Cost"), (204, 95, "labour"), (304, 95, "parts"),
            (64, 115, "Installation and a long"), (64, 130, "verification of it"), (204, 115, "$85"), (304, 115, "$12"),
            (64, 155, "Revision of the flight manual"), (204, 155, "$90"), (304, 155, "$13"),
        ):  # fmt: skip
            page.insert_text((x, y), text, fontsize=10)
        text = read(document.tobytes()).text
    assert "| Action to be taken | Cost labour | Cost parts |" in text
    assert "| Installation and a long verification of it | $85 | $12 |" in text
    assert "| Revision of the flight manual | $90 | $13 |" in text


def test_text_between_rules_and_in_a_frame_is_no_table() -> None:
    with pymupdf.open(stream=pdf([lines(60, 100, TALK)])) as document:
        page = document[0]
        for y in (80, 140, 220):
            page.draw_line((55, y), (560, y))
        page.draw_rect((50, 70, 565, 230))
        found = read(document.tobytes())
    assert not found.tables
    assert " ".join(TALK) in " ".join(found.text.split())


def test_a_page_full_of_lines_is_not_searched_for_tables() -> None:
    with pymupdf.open(stream=pdf([lines(60, 700, TALK)])) as document:
        shape = document[0].new_shape()
        for place in range(6000):
            shape.draw_line((10 + place % 500, 20 + place // 20), (22 + place % 500, 20 + place // 20))
        shape.finish()
        shape.commit()
        assert not read(document.tobytes()).tables
