"""PDF text is fit to quote: reading order, joined lines, pages, headings, and typed failures."""

from __future__ import annotations

import pymupdf
import pytest
from pdf_files import heading, lines, pdf, written

from program.errors import CorruptFile, EncryptedFile, NoText
from program.ingest import ocr
from program.ingest.documents import DocumentText
from program.ingest.readers import read_document

PROSE = [
    "The encoder maps an input sequence of symbols to a sequence of continuous",
    "representations, and the decoder then generates one symbol of the output at",
    "a time. Each step reads what was generated before as additional input.",
]


@pytest.fixture(autouse=True)
def no_ocr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "available", lambda: False)


def read(data: bytes, password: str | None = None) -> DocumentText:
    return read_document(data, "some_paper.pdf", password)


def headings(document: DocumentText) -> list[str]:
    return [section.heading for section in document.sections]


def section(document: DocumentText, name: str) -> str:
    (found,) = [part for part in document.sections if part.heading == name]
    return document.text[found.start : found.end].strip()


def test_numbers_tell_which_headings_are_below_one_without_text() -> None:
    document = read(
        pdf(
            [
                [
                    heading(100, 100, "2  Methods"),
                    heading(100, 130, "2.1  Data"),
                    *lines(100, 160, PROSE),
                    heading(100, 250, "2.2.  Analysis"),
                    *lines(100, 280, PROSE),
                    heading(100, 350, "Results"),
                    heading(100, 380, "3.1  Scores"),
                    *lines(100, 410, PROSE),
                ]
            ]
        )
    )
    assert headings(document) == ["2 Methods: 2.1 Data", "2 Methods: 2.2. Analysis", "3.1 Scores"]


def test_lines_become_paragraphs_under_headings() -> None:
    document = read(
        pdf(
            [
                [
                    (150, 90, "A Study of Encoders", 18, True),
                    heading(280, 150, "Abstract"),
                    *lines(100, 180, PROSE),
                    heading(100, 250, "1  Introduction"),
                    *lines(100, 280, PROSE),
                    heading(100, 350, "1.1  Details"),
                    *lines(100, 380, PROSE),
                ]
            ]
        )
    )
    assert document.title == "A Study of Encoders"
    assert headings(document) == ["Abstract", "1 Introduction", "1.1 Details"]
    assert [part.kind for part in document.sections] == ["abstract", "passage", "passage"]
    assert section(document, "1 Introduction") == " ".join(PROSE)


def test_hyphens_at_line_ends() -> None:
    text = section(
        read(
            pdf(
                [
                    [
                        heading(100, 150, "Abstract"),
                        *lines(
                            100,
                            180,
                            [
                                "Learning long-range dependencies is hard, and attention makes the long-",
                                "range ones easier. We describe the training of a big model, the pre-train-",
                                "ing of a small one, and results on English-",
                                "to-German text with the represen-",
                                "tations of well-",
                                "known encoders such as BERT-",
                                "Large and soft\u00ad",
                                "ware that reads them one after the other.",
                            ],
                        ),
                    ]
                ]
            )
        ),
        "Abstract",
    )
    for word in ("the long-range ones", "pre-training", "English-to-German", "representations", "well-known"):
        assert word in text
    assert "BERT-Large" in text
    assert "software" in text


def test_two_columns_are_read_one_after_the_other_whatever_the_order_in_the_file() -> None:
    left = [f"left column line {number} says this and that" for number in range(12)]
    right = [f"right column line {number} says this and that" for number in range(12)]
    rows = [
        part
        for number in range(12)
        for part in (*lines(330, 200 + 12 * number, [right[number]]), *lines(60, 200 + 12 * number, [left[number]]))
    ]
    text = read(pdf([[(150, 90, "The title over both columns of it", 18, True), *rows]])).text
    assert text.split() == " ".join(left + right).split()


def test_a_table_is_read_row_by_row() -> None:
    cells = [
        [(80.0 + 120 * column, 300.0 + 14 * row, f"r{row}c{column}", 10.0, False) for column in range(4)]
        for row in range(5)
    ]
    text = read(pdf([[*lines(80, 200, PROSE), *[cell for row in cells for cell in row]]])).text
    assert "r0c0 r0c1 r0c2 r0c3\n\nr1c0 r1c1 r1c2 r1c3" in text


def test_a_sentence_cut_by_a_page_a_caption_and_a_footnote_is_whole_again() -> None:
    first = [*PROSE, "This inherently sequential nature of the whole computation precludes"]
    document = read(
        pdf(
            [
                [*lines(100, 400, first), *lines(100, 650, ["* A footnote stands here."], size=8)],
                [
                    *lines(100, 100, ["Figure 1: What the model looks like from outside."]),
                    *lines(100, 300, ["parallelization within training examples.", *PROSE]),
                ],
            ]
        )
    )
    cut = "This inherently sequential nature of the whole computation precludes parallelization within"
    assert cut in document.text
    assert "Figure 1: What" in document.text
    assert "A footnote" in document.text
    assert document.page_at(document.text.index("This inherently")) == 1
    assert document.page_at(document.text.index("parallelization")) == 2
    assert document.page_at(document.text.index("A footnote")) == 1
    assert document.page_at(document.text.index("Figure 1")) == 2


def test_running_headers_and_page_numbers_are_left_out() -> None:
    pages = [
        [
            *lines(100, 40, [f"Journal of Tests, Vol. {number}"]),
            *lines(100, 300, [f"Page content {number}.", *PROSE]),
            *lines(300, 770, [str(number)]),
        ]
        for number in range(1, 5)
    ]
    text = read(pdf(pages)).text
    assert "Journal" not in text
    assert all(f"Page content {number}." in text for number in range(1, 5))
    assert not any(line.isdigit() for line in text.split("\n"))


def paper() -> bytes:
    return pdf(
        [
            [heading(100, 100, "1 Introduction"), *lines(100, 130, PROSE * 8)],
            [
                heading(100, 100, "Acknowledgments"),
                *lines(100, 130, ["We thank everybody."]),
                heading(100, 200, "References"),
                *lines(100, 230, ["[1] A. Author. Some paper. 2001."]),
                heading(100, 300, "A Details of training"),
                *lines(100, 330, ["Details are here."]),
            ],
        ]
    )


def test_what_follows_acknowledgments_and_references_is_left_out_and_an_appendix_is_not() -> None:
    document = read(paper())
    assert headings(document) == ["1 Introduction", "A Details of training"]
    assert "thank" not in document.text
    assert "Author" not in document.text


def test_a_setting_keeps_the_back_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_BACK_MATTER", "true")
    assert headings(read(paper())) == ["1 Introduction", "Acknowledgments", "References", "A Details of training"]


def test_only_papers_lose_their_references() -> None:
    pages = [
        [
            heading(100, 100, "1 Safety"),
            *lines(100, 130, PROSE * 8),
            heading(100, 500, "References"),
            *lines(100, 530, PROSE),
        ]
    ]
    assert headings(read(pdf(pages))) == ["1 Safety", "References"]


@pytest.mark.parametrize("size", [8, 10], ids=["small type", "the text's type"])
def test_a_run_in_abstract_is_an_abstract(size: float) -> None:
    abstract = lines(100, 130, ["Abstract. We propose a thing.", *PROSE], size)
    document = read(pdf([[*abstract, heading(100, 300, "1 Introduction"), *lines(100, 330, PROSE * 3)]]))
    assert [(part.heading, part.kind) for part in document.sections] == [
        ("Abstract", "abstract"),
        ("1 Introduction", "passage"),
    ]
    assert section(document, "Abstract").startswith("We propose a thing.")


def test_titles() -> None:
    page = [lines(100, 300, PROSE)]
    assert read(pdf(page, title="A Proper Title")).title == "A Proper Title"
    for improper in ("", "untitled", "Microsoft Word - x.docx", "paper.tex", "12345"):
        assert read(pdf(page, title=improper)).title == "some paper"


def test_rotated_pages_and_stamps_at_the_margin() -> None:
    assert read(pdf([lines(100, 300, PROSE)], rotation=90)).text == " ".join(PROSE)


def test_text_in_four_directions() -> None:
    with pymupdf.open() as document:
        page = document.new_page(width=612, height=792)
        for place, turn in enumerate((0, 90, 180, 270)):
            point = ((100, 100), (100, 700), (500, 700), (500, 100))[place]
            page.insert_text(
                point, [f"Words that are turned by {turn}", f"degrees stand on line two ({turn})."], rotate=turn
            )
        text = read(document.tobytes()).text
    for turn in (0, 90, 180, 270):
        assert f"Words that are turned by {turn} degrees stand on line two ({turn})." in text


def test_doubled_print_and_invisible_text_under_print_are_read_once() -> None:
    words = "Bold type is made by printing all of the words of a line twice or more often"
    lone = "There is an invisible line over a scan that must be read since nothing else can be"
    shown = f"BT /helv 11 Tf 72 {{}} Td ({words}) Tj ET "
    hidden = f"BT 3 Tr /helv 11 Tf 72 700 Td ({words}, they say) Tj ET BT 3 Tr /helv 11 Tf 72 600 Td ({lone}) Tj ET"
    text = read(written(shown.format(700) + shown.format(700.4) + shown.format(699.6) + hidden)).text
    assert text.count(words) == 1
    assert lone in text
    letters = "".join(
        f"BT /helv 11 Tf {72 + 6.2 * i + d} 700 Td ({c}) Tj ET " for i, c in enumerate("hound") for d in (0, 0.4)
    )
    assert "hound" in read(written(letters + shown.format(500) + hidden)).text


def test_a_manuscript_with_line_numbers_and_double_spacing() -> None:
    spoken = PROSE * 5
    text_lines = [(100.0, 100.0 + 24 * place, line, 10.0, False) for place, line in enumerate(spoken)]
    numbers = [(60.0, 100.0 + 24 * place, str(place + 1), 10.0, False) for place in range(20)]
    assert read(pdf([[*numbers, *text_lines]])).text.replace("\n\n", " ") == " ".join(spoken)
    assert " ".join(PROSE[:2]) in read(pdf([text_lines])).text
    scores = [(60.0, 100.0 + 24 * place, str(3 * place * place), 10.0, False) for place in range(20)]
    assert "243" in read(pdf([[*scores, *text_lines]])).text


def test_form_values_are_read_with_their_names() -> None:
    with pymupdf.open() as document:
        page = document.new_page()
        page.insert_text(
            (72, 72),
            "Application for leave, to be filled in and handed to the head of your department by the end of May.",
        )
        for place, (kind, name, value) in enumerate(
            [
                (pymupdf.PDF_WIDGET_TYPE_TEXT, "applicant", "Ada Example"),
                (pymupdf.PDF_WIDGET_TYPE_TEXT, "remarks", ""),
                (pymupdf.PDF_WIDGET_TYPE_CHECKBOX, "half days", True),
                (pymupdf.PDF_WIDGET_TYPE_CHECKBOX, "unpaid", False),
                (pymupdf.PDF_WIDGET_TYPE_COMBOBOX, "reason", "travel"),
            ]
        ):
            widget = pymupdf.Widget()
            widget.field_type, widget.field_name, widget.rect = (
                kind,
                name,
                pymupdf.Rect(72, 100 + 30 * place, 272, 120 + 30 * place),
            )
            if kind == pymupdf.PDF_WIDGET_TYPE_COMBOBOX:
                widget.choice_values = ["illness", "travel"]
            widget.field_value = value
            page.add_widget(widget)
        found = read(document.tobytes())
    assert section(found, "Form fields") == "applicant: Ada Example\n\nhalf days: yes\n\nreason: travel"
    assert found.page_at(found.text.index("half days")) == 1


def test_attached_files_are_named() -> None:
    with pymupdf.open(stream=pdf([lines(100, 300, PROSE)])) as document:
        document.embfile_add("budget.xlsx", b"x")
        assert section(read(document.tobytes()), "Attached files") == "budget.xlsx"
    with pymupdf.open(stream=pdf([[]])) as document:
        document.embfile_add("budget.xlsx", b"x")
        with pytest.raises(NoText, match=r"budget\.xlsx"):
            read(document.tobytes())


def test_a_scan_says_how_to_get_it_read() -> None:
    with pytest.raises(NoText, match="tesseract-ocr-eng"):
        read(pdf([[]]))


def test_encrypted() -> None:
    data = pdf([lines(100, 300, PROSE)], password="secret")
    with pytest.raises(EncryptedFile, match="needed"):
        read(data)
    with pytest.raises(EncryptedFile, match="wrong"):
        read(data, "guess")
    assert read(data, "secret").text == " ".join(PROSE)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", NoText),
        (b"just text, wrongly named", CorruptFile),
        (b"%PDF-1.7\n" + bytes(range(256)) * 20, CorruptFile),
        (b"%PDF-1.4\n%%EOF\n", CorruptFile),
        (pdf([[]]), NoText),
        (pdf([lines(100, 300, ["Too little."])]), NoText),
    ],
    ids=["empty", "text", "random", "header only", "blank page", "few words"],
)
def test_bad_files(data: bytes, error: type[Exception], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(error):
        read(data)
    assert capfd.readouterr() == ("", "")


def test_a_truncated_file_gives_its_text_or_a_typed_error(capfd: pytest.CaptureFixture[str]) -> None:
    data = pdf([lines(100, 300, PROSE * 5)] * 3)
    for share in (0.3, 0.6, 0.9):
        try:
            document = read(data[: int(share * len(data))])
        except (CorruptFile, NoText):
            continue
        assert document.text.strip()
    assert capfd.readouterr() == ("", "")
