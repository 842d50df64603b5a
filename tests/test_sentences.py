"""Sentence spans: verbatim, in the right places, for any text, in linear time."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from program.sentences import WINDOW, split_sentences
from program.tokens import count_tokens

CASES = {
    "et al.": "Vaswani et al. (2017) proposed it.| See Fig. 3 for details.",
    "citation after et al.": "As Kim et al. [3] and Eq. (2) show, it works.| Next.",
    "i.e. and e.g.": "We use it, i.e., the model.| It works, e.g. BERT does.",
    "initials": "J. K. Rowling and G. E. Hinton wrote it.| D. Knuth did not.",
    "numbers, versions, addresses": "The rate is 0.1 and v1.2.3 is at https://a.b/c.html?x=1.| Then it ends.",
    "citation after the stop": "We use eight heads. [1]| Next we train. [2, 3] [4]| Done.",
    "citation touching the stop": "We use eight heads.[1]| Next we train [2].| Then [3] it ends.",
    "Chinese": "这是第一句。|这是第二句！|真的吗？|是的。",
    "Japanese": "これは文です。|「次の文です。」|終わり。",
    "titles and companies": "He works at Google Inc. and the U.S. Army.| It was Dr. Smith.",
    "references": "Figs. 1 and 2 show it.| Tab. 3, Sec. 4, cf. Ref. 5, vs. others, approx. 3 cm.| End.",
    "abbreviation as a word": "The answer is no.| It is so.",
    "quotation": 'He said "It works."| Then he left.| "Why?"| Nobody knew (or said).',
    "apart in brackets": "Done.| (This is apart.)| Next.",
    "unbalanced quotation mark": 'The 5" disk is old.| It is small.| The end.',
    "symbols": "We set P = 0.1.| h = 8 is used.| It uses torch.nn.Linear and file.py.| Fine.",
    "single letters": "This is vitamin B.| We proceed.| See Appendix A.| It holds.",
    "emphasis": "**Bold.**| Next one.| _It is._| Fine.",
    "wrapped lines": "Line one goes\non here.| And\nthen in\n8 parts.",
    "paragraphs": "No stop here\n|\nAnother paragraph",
    "list": "Text:\n|- item one.| More of it.\n|- item two\n  goes on\n|1. First.| Second.\n|2. Other",
    "heading and table": "# Head\n|Text one.\n|| a | b |\n||---|---|\n|| c. D | e |",
}  # fmt: skip


@pytest.mark.parametrize("marked", CASES.values(), ids=CASES.keys())
def test_boundaries(marked: str) -> None:
    separator = "\n|" if "| a |" in marked else "|"
    expected = [part.strip() for part in marked.split(separator)]
    text = marked.replace(separator, separator[:-1])

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
