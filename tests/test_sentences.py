"""Sentence spans: verbatim, in the right places, for any text, in linear time."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from program.sentences import WINDOW, split_sentences
from program.tokens import count_tokens
from tests.sentence_cases import AMBIGUOUS, CASES, parsed

MARKED = [
    pytest.param(marked, marks=[pytest.mark.xfail(strict=True)] if marked in AMBIGUOUS else [], id=f"{kind} {number}")
    for kind, cases in CASES.items()
    for number, marked in enumerate(cases, 1)
]


@pytest.mark.parametrize("marked", MARKED)
def test_boundaries(marked: str) -> None:
    text, expected = parsed(marked)
    sentences = split_sentences(text)
    assert [sentence.text for sentence in sentences] == expected
    assert all(text[sentence.start : sentence.end] == sentence.text for sentence in sentences)


@pytest.mark.parametrize("blank", ["", " ", "\n \n\t"])
def test_blank_text_has_no_sentences(blank: str) -> None:
    assert split_sentences(blank) == []


def test_any_characters_give_ordered_spans_that_lose_nothing() -> None:
    random.seed(1)
    alphabet = [*"abcAB   ...!?\"'()[]«»“”‘’。！0123\n\t-—*#|`éßﬁ中𝒳\x00\u200b\ufeff\ud800", "```", "e.g. ", "[1] "]
    for _ in range(2000):
        text = "".join(random.choices(alphabet, k=random.randint(0, 80)))
        sentences = split_sentences(text)
        spans = [(sentence.start, sentence.end) for sentence in sentences]
        assert spans == sorted(spans)
        assert all(left[1] <= right[0] for left, right in pairwise(spans))
        assert all(text[sentence.start : sentence.end] == sentence.text for sentence in sentences)
        assert "".join("".join(text.split())) == "".join("".join(s.text for s in sentences).split())


def test_a_paragraph_longer_than_the_window_is_split_where_its_sentences_are() -> None:
    sentence = "The model reads Fig. 3 of the paper (v1.2) first. "
    text = sentence * (3 * WINDOW // len(sentence))
    found = split_sentences(text)
    assert {part.text for part in found} == {sentence.strip()}
    assert len(found) == text.count("first.")


@pytest.mark.parametrize("unit", ["(", '"', "‘A b. ", "a", "- a\n", "[1,", "> ", "1. "])
def test_hostile_text(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    assert all(text[sentence.start : sentence.end] == sentence.text for sentence in split_sentences(text))


def test_tokens_are_counted_offline_and_special_ones_as_text() -> None:
    assert count_tokens("hello world") == 2
    assert count_tokens("") == 0
    assert count_tokens("<|endoftext|>") > 1
    assert count_tokens("\ud800\x00") > 0
