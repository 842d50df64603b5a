"""Word, Excel and PowerPoint files: what people see in them, with its structure."""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any

import pytest
from msoffcrypto.method.ecma376_agile import ECMA376Agile
from office_files import add_chart, add_slide, add_xml, archive, changed, presentation, word, workbook

from program.errors import CorruptFile, EncryptedFile, NoText, TooLarge
from program.ingest import archives, blocks, sheets
from program.ingest.documents import DocumentText
from program.ingest.number_formats import shown
from program.ingest.readers import read_document


def headings(document: DocumentText) -> list[str]:
    return [section.heading for section in document.sections]


def section(document: DocumentText, heading: str) -> str:
    found = next(section for section in document.sections if section.heading == heading)
    return document.text[found.start : found.end].strip()


def test_word_headings_lists_and_tables() -> None:
    def build(document: Any) -> None:
        document.add_heading("Annual Report", 0)
        document.add_paragraph("Contents", style="Normal")
        document.add_heading("Results", 1)
        document.add_paragraph("Sales grew by 4%.")
        document.add_paragraph("First point", style="List Bullet")
        document.add_paragraph("Second point", style="List Bullet")
        document.add_heading("Figures", 2)
        table = document.add_table(rows=3, cols=2)
        for cell, text in zip(
            (cell for row in table.rows for cell in row.cells),
            ("Year", "Sales", "2023", "5|6", "2024", "7"),
            strict=True,
        ):
            cell.text = text

    document = read_document(word(build), "report.docx")
    assert document.title == "Annual Report"
    assert headings(document) == ["", "Results", "Figures"]
    assert section(document, "Results") == "Sales grew by 4%.\n\n- First point\n- Second point"
    assert section(document, "Figures") == "| Year | Sales |\n| --- | --- |\n| 2023 | 5\\|6 |\n| 2024 | 7 |"
    (table,) = document.tables
    assert document.text[table.start : table.header_end] == "| Year | Sales |\n| --- | --- |\n"


def test_word_headings_without_text_head_their_parts() -> None:
    def build(document: Any) -> None:
        document.add_heading("Annual Report", 0)
        for level, heading in ((1, "Annual Report"), (2, "Sales"), (3, "Europe")):
            document.add_heading(heading, level)
        document.add_paragraph("Sales grew by 4%.")
        document.add_heading("Staff", 2)
        document.add_paragraph("Nobody left.")

    assert headings(read_document(word(build), "report.docx")) == ["Sales: Europe", "Staff"]


def test_word_reads_what_stands_in_controls_insertions_and_formulas_but_nothing_hidden() -> None:
    def build(document: Any) -> None:
        add_xml(document, "<w:sdt><w:sdtContent><w:p><w:r><w:t>In a control.</w:t></w:r></w:p></w:sdtContent></w:sdt>")
        add_xml(
            document,
            "<w:p><w:ins w:id='1' w:author='a'><w:r><w:t>Inserted</w:t></w:r></w:ins>"
            "<w:del w:id='2' w:author='a'><w:r><w:delText>deleted</w:delText></w:r></w:del>"
            "<w:moveFrom w:id='3' w:author='a'><w:r><w:t>moved away</w:t></w:r></w:moveFrom>"
            "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>"
            "<w:r><w:tab/><w:t>E=</w:t></w:r><m:oMath><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num>"
            "<m:den><m:sSup><m:e><m:r><m:t>10</m:t></m:r></m:e><m:sup><m:r><m:t>-6</m:t></m:r></m:sup></m:sSup></m:den>"
            "</m:f></m:oMath><w:r><w:t xml:space='preserve'> m</w:t></w:r>"
            "<w:r><w:rPr><w:vertAlign w:val='superscript'/></w:rPr><w:t>2</w:t></w:r></w:p>",
        )
        document.add_paragraph("Introduction ... 3", style=document.styles.add_style("toc 1", 1))

    assert read_document(word(build), "x.docx").text.strip() == "In a control.\n\nInserted E=(a+b)/10⁻⁶ m²"


def test_word_numbers_of_lists_and_headings_are_text() -> None:
    levels = "".join(
        f"<w:lvl w:ilvl='{level}'><w:start w:val='1'/><w:numFmt w:val='{form}'/><w:lvlText w:val='{text}'/></w:lvl>"
        for level, (form, text) in enumerate([("decimal", "%1."), ("lowerLetter", "(%2)"), ("upperRoman", "%1-%3")])
    )

    def build(document: Any) -> None:
        numbering = document.part.numbering_part.element
        add_to = type("Body", (), {"element": type("Element", (), {"body": numbering})})
        add_xml(add_to, f"<w:abstractNum w:abstractNumId='99'>{levels}</w:abstractNum>")
        numbering.insert(0, numbering[-2])  # abstract lists come first
        add_xml(add_to, "<w:num w:numId='99'><w:abstractNumId w:val='99'/></w:num>")
        for level, text in ((0, "One"), (1, "Letter"), (1, "Letter"), (2, "Deep"), (0, "Two"), (1, "Again")):
            place = f"<w:pPr><w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='99'/></w:numPr></w:pPr>"
            add_xml(document, f"<w:p>{place}<w:r><w:t>{text}</w:t></w:r></w:p>")

    text = read_document(word(build), "x.docx").text.strip()
    assert text.splitlines() == ["1. One", "(a) Letter", "(b) Letter", "1-I Deep", "2. Two", "(a) Again"]


def test_word_merged_cells_and_headers_of_two_rows() -> None:
    def build(document: Any) -> None:
        table = document.add_table(rows=4, cols=3)
        texts = (("Item", "Cost", ""), ("", "2023", "2024"), ("Rent", "1", "2"), ("", "3", "4"))
        for row, values in zip(table.rows, texts, strict=True):
            for cell, value in zip(row.cells, values, strict=True):
                cell.text = value
        table.cell(0, 1).merge(table.cell(0, 2))
        table.cell(2, 0).merge(table.cell(3, 0))
        for row in table.rows[:2]:
            row._tr.get_or_add_trPr().append(row._tr.makeelement(row._tr.tag.replace("}tr", "}tblHeader"), {}))

    lines = read_document(word(build), "x.docx").text.strip().splitlines()
    assert lines == ["| Item | Cost 2023 | Cost 2024 |", "| --- | --- | --- |", "| Rent | 1 | 2 |", "| Rent | 3 | 4 |"]


def test_word_bold_lines_are_headings_only_where_there_are_no_others() -> None:
    def build(document: Any) -> None:
        document.add_paragraph().add_run("Scope").bold = True
        document.add_paragraph("All of it.")

    assert headings(read_document(word(build), "x.docx")) == ["Scope"]

    def with_heading(document: Any) -> None:
        document.add_heading("Plan", 1)
        build(document)

    assert headings(read_document(word(with_heading), "x.docx")) == [""]


def test_a_workbook_has_a_section_for_each_visible_sheet() -> None:
    def build(book: Any) -> None:
        first = book.active
        first.title = "Costs"
        first.append(["Costs of 2024"])
        first.append(["Item", "Due", "Sum", "Share"])
        first.append(["Rent", datetime(2024, 3, 1), 1234.5, 0.125])
        for cell, code in (("B3", "d mmm yyyy"), ("C3", '"£"#,##0.00'), ("D3", "0.0%")):
            first[cell].number_format = code
        first["A6"], first["B6"] = "Total", 1234.5
        second = book.create_sheet("Notes")
        second["C7"] = "Paid late."
        book.create_sheet("Secret")["A1"] = "hidden"
        book["Secret"].sheet_state = "hidden"

    document = read_document(workbook(build), "costs.xlsx")
    assert document.title == "Costs of 2024"
    assert headings(document) == ["Costs", "Notes"]
    assert section(document, "Costs").splitlines() == [
        "Costs of 2024",
        "",
        "| Item | Due | Sum | Share |",
        "| --- | --- | --- | --- |",
        "| Rent | 1 Mar 2024 | £1,234.50 | 12.5% |",
        "",
        "Total: 1234.5",
    ]
    assert section(document, "Notes") == "Paid late."


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (None, "General", ""),
        (True, "General", "TRUE"),
        (0.1 + 0.2, "General", "0.3"),
        (1e20, "General", "1E+20"),
        (12, "General", "12"),
        (-4, "General", "-4"),
        (1234567.891, "#,##0.00", "1,234,567.89"),
        (0.5, "0", "1"),
        (2.5, "0.0#", "2.5"),
        (7, "000", "007"),
        (0.25, "0%", "25%"),
        (-5, "[$£-809]#,##0.00", "-£5.00"),
        (-5, "#,##0;[Red](#,##0)", "(5)"),
        (0, '0;-0;"none"', "none"),
        (1_500_000, '0.0,,"M"', "1.5M"),
        (12345, "0.00E+00", "1.23E+04"),
        (0.00012, "0.0E+0", "1.2E-4"),
        (5, '_-* #,##0_-;-* #,##0_-;_-* "-"_-;_-@_-', "5"),
        (0.5, "# ?/?", "0.5"),
        (5, "[>3]0.0;0", "5"),
        (5, ";;;", ""),
        (float("inf"), "0.0", "inf"),
        (10**400, "0.0", "1" + "0" * 39),
        ("=1+1", "0.0", "=1+1"),
        (datetime(2025, 8, 29), "mm-dd-yy", "2025-08-29"),
        (datetime(2025, 8, 29, 14, 5, 9), "dddd, d mmmm yyyy h:mm AM/PM", "Friday, 29 August 2025 2:05 PM"),
        (datetime(2025, 8, 29, 14, 5, 9), "mm/yy hh:mm:ss", "08/25 14:05:09"),
        (datetime(2025, 8, 29), "General", "2025-08-29 00:00:00"),
    ],
)
def test_cells_read_as_people_see_them(value: object, code: str, text: str) -> None:
    assert shown(value, code) == text


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        ("a;b\n1,5;x|y\n", ["| a | b |", "| --- | --- |", "| 1,5 | x\\|y |"]),
        ("name\tsum\nRent\t5\n", ["| name | sum |", "| --- | --- |", "| Rent | 5 |"]),
        ('a,b\n"two\nlines, one cell",2\n', ["| a | b |", "| --- | --- |", "| two lines, one cell | 2 |"]),
        ("Region,2023,2024\nNorth,5,6\n", ["| Region | 2023 | 2024 |", "| --- | --- | --- |", "| North | 5 | 6 |"]),
        ("Rent,5\nFood,7\n", ["Rent: 5", "", "Food: 7"]),
        ("Rent,5,6\nFood,7,8\n", ["| A | B | C |", "| --- | --- | --- |", "| Rent | 5 | 6 |", "| Food | 7 | 8 |"]),
    ],
)
def test_csv_delimiters_quotes_and_headers(data: str, lines: list[str]) -> None:
    assert read_document(data.encode(), "x.csv").text.strip().splitlines() == lines


def test_slides_have_pages_titles_tables_charts_and_notes() -> None:
    def build(slides: Any) -> None:
        add_slide(slides, "Road Map", ["Where we go"])
        slide = add_slide(slides, "Sales", ["Up in spring", "Down in autumn"], notes="Say thanks.\nSmile.")
        add_chart(slide, ["Spring", "Autumn"], {"North": [1.5, 2], "South": [3, 4]})
        table = slide.shapes.add_table(2, 2, 0, 9_000_000, 1_000_000, 1_000_000).table
        for place, text in enumerate(("Team", "Size", "Red", "5")):
            table.cell(place // 2, place % 2).text = text
        empty = slides.slides.add_slide(slides.slide_layouts[6])
        group = empty.shapes.add_group_shape()
        group.shapes.add_textbox(0, 0, 100, 100).text_frame.text = "In a group"

    document = read_document(presentation(build), "deck.pptx")
    assert document.title == "Road Map"
    assert headings(document) == ["", "Sales", "Slide 3"]
    assert [page for _, page in document.pages] == [1, 2, 3]
    assert document.page_at(document.text.index("In a group")) == 3
    sales = section(document, "Sales")
    assert "- Up in spring\n- Down in autumn\n" in sales
    assert "| Spring | 1.5 | 3 |\n" in sales
    assert "| Team | Size |\n| --- | --- |\n| Red | 5 |" in sales
    assert sales.endswith("Notes: Say thanks.\n\nSmile.")


def test_text_never_becomes_structure() -> None:
    def build(document: Any) -> None:
        document.add_heading("Real", 1)
        document.add_paragraph("# Not a heading")
        document.add_paragraph("```")
        document.add_heading("Next", 2)
        document.add_paragraph("Text.")

    assert headings(read_document(word(build), "x.docx")) == ["", "Next"]


def encrypted(data: bytes, password: str) -> bytes:
    locked: bytes = ECMA376Agile.encrypt(password, io.BytesIO(data), spin_count=1000)
    return locked


def test_encrypted_office_files_take_a_password() -> None:
    locked = encrypted(word(lambda document: document.add_paragraph("The vault code.")), "s3cret")
    with pytest.raises(EncryptedFile, match="--password"):
        read_document(locked, "x.docx")
    with pytest.raises(EncryptedFile, match="wrong"):
        read_document(locked, "x.docx", "guess")
    assert read_document(locked, "x.docx", "s3cret").text.strip() == "The vault code."


def test_empty_files_have_no_text() -> None:
    for data, name in (
        (word(lambda document: None), "x.docx"),
        (workbook(lambda book: None), "x.xlsx"),
        (presentation(lambda slides: None), "x.pptx"),
        (b"", "x.csv"),
        (b",,\n,,\n", "x.csv"),
    ):
        with pytest.raises(NoText):
            read_document(data, name)


@pytest.mark.parametrize("name", ["x.docx", "x.xlsx", "x.pptx"])
def test_files_with_the_wrong_extension_are_corrupt(name: str) -> None:
    for data in (b"plain text", archive({"a.txt": "text"}), b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)):
        with pytest.raises(CorruptFile):
            read_document(data, name)


def test_zip_bombs_are_refused_before_they_are_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    small = word(lambda document: document.add_paragraph("Text."))
    monkeypatch.setattr(archives, "MAX_UNPACKED", 4 << 20)
    monkeypatch.setattr(archives, "MAX_MARKUP", 2 << 20)
    monkeypatch.setattr(archives, "MAX_MARKS", 90_000)
    assert read_document(small, "x.docx").text.strip() == "Text."
    for name, content in (
        ("word/media/image1.png", b"\x89" * (5 << 20)),  # bytes that no parser sees
        ("word/other.bin", b" " * 5000 + b"<a>" + b"x" * (3 << 20)),  # XML under another name
        ("word/document.xml", b"<a b=''>" * 50_000),  # few bytes, many elements
    ):
        with pytest.raises(TooLarge):
            read_document(changed(small, {name: content}), "x.docx")


def test_entities_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    laughs = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">{laughs}]><x>&a9;</x>'
    for data, entry, name in (
        (word(lambda document: None), "word/document.xml", "x.docx"),
        (workbook(lambda book: None), "xl/sharedStrings.xml", "x.xlsx"),
        (presentation(lambda slides: None), "ppt/presentation.xml", "x.pptx"),
    ):
        for content in (bomb.encode(), bomb.encode("utf-16")):
            with pytest.raises(CorruptFile, match="entities"):
                read_document(changed(data, {entry: content}), name)


def test_enormous_sheets_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{}</sheetData></worksheet>'
    far_row = '<row r="999999999"><c r="A999999999" t="inlineStr"><is><t>x</t></is></c></row>'
    wide = "".join(f'<row r="{n}"><c r="ZZZ{n}"><v>1</v></c></row>' for n in range(1, 300))
    book = workbook(lambda book: None)
    monkeypatch.setattr(sheets, "MAX_AREA", 1_000_000)
    monkeypatch.setattr(sheets, "MAX_ROWS", 10_000)
    for rows in (far_row, wide):
        with pytest.raises(TooLarge):
            read_document(changed(book, {"xl/worksheets/sheet1.xml": sheet.format(rows)}), "x.xlsx")
    monkeypatch.setattr(sheets, "MAX_CELLS", 100)
    with pytest.raises(TooLarge):
        read_document(b"a,b\n" * 60, "x.csv")
    monkeypatch.setattr(blocks, "MAX_CHARACTERS", 100)
    with pytest.raises(TooLarge):
        read_document(b"a,b\n" + b"x" * 200 + b",y\n", "x.csv")


def test_documents_nested_without_end_are_corrupt() -> None:
    deep = '<w:p xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">' + "<w:r>" * 100_000
    with pytest.raises(CorruptFile):
        read_document(changed(word(lambda document: None), {"word/document.xml": deep}), "x.docx")
