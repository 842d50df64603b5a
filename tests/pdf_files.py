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


def heading(x: float, y: float, text: str, size: float = 12) -> Print:
    return (x, y, text, size, True)
