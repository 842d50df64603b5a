"""Quotes are found however they were typeset, and only where they stand."""

from __future__ import annotations

import pytest

from program.ingest.quotes import contains_quote, find_quote


@pytest.mark.parametrize(
    ("text", "quote", "found"),
    [
        ("We use a rate of Pdrop = 0.1.", "a rate of P_drop = 0.1".replace("_", ""), "a rate of Pdrop = 0.1"),
        ("it is signiﬁcantly\nless", "significantly less", "signiﬁcantly\nless"),
        ("long-range depen-\ndencies here", "long range dependencies", "long-range depen-\ndencies"),
        ("a soft\u00adhyphen", "softhyphen", "soft\u00adhyphen"),
        ("It’s “fine” – really", 'it\'s "fine" - REALLY', "It’s “fine” – really"),
        ("ＡＢＣ １２", "abc 12", "ＡＢＣ １２"),
        ("Straße", "STRASSE", "Straße"),
        ("cafe\u0301 au lait", "café", "cafe\u0301"),
        ("ϵ = 10−9 and 10⁻⁹", "ϵ=10-9", "ϵ = 10−9"),
    ],
)
def test_found(text: str, quote: str, found: str) -> None:
    span = find_quote(text, quote)
    assert contains_quote(text, quote)
    assert span is not None
    assert text[slice(*span)] == found


@pytest.mark.parametrize(("text", "quote"), [("We use Adam.", "We used Adam"), ("", "a"), ("a b", ""), ("a", " - ")])
def test_not_found(text: str, quote: str) -> None:
    assert not contains_quote(text, quote)
    assert find_quote(text, quote) is None
