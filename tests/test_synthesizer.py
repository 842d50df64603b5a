"""From streamed pieces to whole sentences."""

import pytest

from program.errors import LanguageModelError
from program.synthesizer import _sentences, is_refusal


@pytest.mark.parametrize(
    "pieces",
    [
        ["A cat sat.", " [", "1", "][", "2", "]", " Then a dog came.", " [", "3", "]"],
        ["A cat sat.", " [1]", "[2]", " Then", " a dog came. [3]"],
        ["A cat sat. [1][2] Then a dog came. [3]"],
        list("A cat sat. [1][2] Then a dog came. [3]"),
    ],
)
def test_marks_stay_with_their_sentence_however_the_text_is_cut(pieces: list[str]) -> None:
    assert list(_sentences(iter(pieces))) == ["A cat sat. [1][2]", "Then a dog came. [3]"]


def test_halves_of_a_character_are_joined_and_a_lone_half_is_mended() -> None:
    assert list(_sentences(iter(["Squid \ud83e", "\udd91 swim."]))) == ["Squid \U0001f991 swim."]
    assert list(_sentences(iter(["Squid \ud83e swim."]))) == ["Squid \ufffd swim."]


def test_a_repeated_sentence_ends_the_answer() -> None:
    assert list(_sentences(iter(["One is one. ", "One is one. ", "Two is two."]))) == ["One is one."]


def test_no_text_is_an_error() -> None:
    with pytest.raises(LanguageModelError):
        list(_sentences(iter([" ", "\n"])))


def test_the_sentinel_is_known_however_it_is_spelt() -> None:
    assert is_refusal("**Cannot answer.**")
    assert not is_refusal("The answer is 12.")
