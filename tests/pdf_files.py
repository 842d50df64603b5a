"""Small PDF files, made for tests."""

from __future__ import annotations

from collections.abc import Sequence

import pymupdf

#: (x, y of the base line, text, size, bold)
Print = tuple[float, float, str, float, bool]


def pdf(pages: Sequence[Sequence[Print]], *, title: str = "", password: str = "", rotation: int = 0) -> bytes:
    """A PDF file with this print on its pages (612 by 792 points)."""
    with pymupdf.open() as document:
        for prints in pages:
            page = document.new_page(width=612, height=792)
            for x, y, text, size, bold in prints:
                page.insert_text((x, y), text, fontsize=size, fontname="hebo" if bold else "helv")
            page.set_rotation(rotation)
        document.set_metadata({"title": title})
        if password:
            return document.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw=password, owner_pw=password + "!")
        return document.tobytes()


def lines(x: float, y: float, texts: Sequence[str], size: float = 10) -> list[Print]:
    """Lines of running text, one under the other."""
    return [(x, y + 12 * place, text, size, False) for place, text in enumerate(texts)]


def grid(x: float, y: float, rows: Sequence[Sequence[str]], *, width: float = 90, upright: bool = True) -> bytes:
    """A PDF file with a table on its page, `width` points for each column: with rules around every cell, or only the
    three level rules of a typeset table."""
    with pymupdf.open() as document:
        page = document.new_page(width=612, height=792)
        right, bottom = x + width * len(rows[0]), y + 16 * len(rows)
        for place, row in enumerate(rows):
            for column, text in enumerate(row):
                page.insert_text((x + width * column + 4, y + 16 * place + 12), text, fontsize=10, fontname="helv")
        level = range(len(rows) + 1) if upright else (0, 1, len(rows))
        for place in level:
            page.draw_line((x, y + 16 * place), (right, y + 16 * place))
        for column in range(len(rows[0]) + 1) if upright else ():
            page.draw_line((x + width * column, y), (x + width * column, bottom))
        return document.tobytes()


def written(stream: str) -> bytes:
    """A PDF file whose page draws this content stream; /helv is Helvetica."""
    with pymupdf.open() as document:
        page = document.new_page(width=612, height=792)
        page.insert_text((72, 40), " ", fontname="helv")
        document.update_stream(page.get_contents()[0], stream.encode("latin-1"))
        return document.tobytes()


def heading(x: float, y: float, text: str, size: float = 12) -> Print:
    return (x, y, text, size, True)
