"""Right-to-left text comes back in the order it was written."""

from __future__ import annotations

import pytest

from program.ingest.bidi import has_right_to_left, logical_order, mirrored_back, mostly_right_to_left
from program.ingest.quotes import contains_quote
from program.retrieval.analysis import terms


def read(shown: str, right_to_left: bool) -> str:
    return "".join(shown[place] for place in logical_order(shown, right_to_left))


@pytest.mark.parametrize(
    "written",
    [
        "שלום עולם",
        "יש לי 47 חתולים",
        "קראתי את Jeremy Smith אתמול",
        "מחיר 1,234.50 בלבד",
        "שנים 2024 - 2026",
        "?מי"[::-1],
    ],
)
def test_lines_from_right_to_left(written: str) -> None:
    runs = {"47": "74", "Jeremy Smith": "htimS ymereJ", "1,234.50": "05.432,1", "2024": "4202", "2026": "6202"}
    shown = written
    for forward, backward in runs.items():
        shown = shown.replace(forward, backward)
    assert read(shown[::-1], right_to_left=True) == written


def test_words_from_right_to_left_in_a_line_from_left_to_right() -> None:
    assert read("Jeremy is ימרג in Hebrew", right_to_left=False) == "Jeremy is גרמי in Hebrew"
    assert read("plain text (only)", right_to_left=False) == "plain text (only)"


def test_brackets_that_close_before_they_open_are_turned() -> None:
    assert mirrored_back(")אחת( ועוד") == "(אחת) ועוד"
    assert mirrored_back("(אחת) ועוד") == "(אחת) ועוד"


def test_what_counts_as_right_to_left() -> None:
    assert has_right_to_left("a ﻣ b")
    assert not has_right_to_left("plain é 漢")
    assert mostly_right_to_left("מילים ועוד ab")
    assert not mostly_right_to_left("many words מי")
    assert not mostly_right_to_left("1234")


def test_shapes_of_arabic_letters_are_folded_for_matching() -> None:
    shaped, plain = "ﻣﺮﺣﺒﺎ ﺍﻟﻌـــﺮﺑﻴﺔ", "مرحبا العربية"
    assert contains_quote(shaped, plain)
    assert terms(shaped) == terms(plain)
    assert terms("حَبيبي") == terms("حبيبي")


def test_ligatures_and_accents_are_folded_for_matching() -> None:
    assert contains_quote("the ﬁrst eﬃcient one, naïve", "the first efficient one, naïve")
    assert terms("ﬁrst eﬃcient naïve") == terms("first efficient naïve")
