"""Which words count as the same."""

from __future__ import annotations

import pytest

from program.retrieval.analysis import query_terms, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GPT-3", ["gpt", "3", "gpt3"]),
        ("BERT-large", ["bert", "large", "bertlarge"]),
        ("d_model", ["d", "model", "dmodel"]),
        ("1706.03762 and 1,000", ["1706.03762", "and", "1000"]),
        ("GPT-3.5", ["gpt", "3.5", "gpt3.5"]),
        ("0,5 Prozent", ["0.5", "prozent"]),
        ("the U.S. end.Next", ["the", "u", "s", "us", "end", "next"]),
        ("Einstein's", ["einstein"]),
        ("networks, studies, losses, boxes", ["network", "study", "losse", "boxe"]),
        ("bus class gas does 1980s", ["bus", "class", "gas", "doe", "1980"]),
        ("Straße, café", ["strasse", "cafe"]),
        ("ｆｕｌｌ ﬁne", ["full", "fine"]),
        ("神经网络 NLP", ["神", "经", "网", "络", "神经", "经网", "网络", "nlp"]),
        ("猫", ["猫"]),
        ("タワーが", ["タ", "ワ", "ー", "が", "タワ", "ワー", "ーが"]),
        ('" OR * ^ _ -', ["or"]),
        ("", []),
    ],
)
def test_terms(text: str, expected: list[str]):
    assert terms(text) == expected


def test_terms_need_no_escaping():
    text = "".join(chr(code) for code in range(0x20, 0x3000))
    assert all(term.replace(".", "").isalnum() or not term.isascii() for term in terms(text))
    assert not any(set(term) & set(" \t\"'*()^:-") for term in terms(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is the model of the model?", ["model"]),
        ("What is it?", ["what", "is", "it"]),
        ("How does this work?", ["work"]),
        ("What is vitamin A?", ["vitamin", "a"]),
        ("is C older than R", ["c", "older", "r"]),
        ("什么是注意", ["什", "么", "是", "注", "意", "什么", "么是", "是注", "注意"]),
    ],
)
def test_questions_lose_their_stop_words_unless_they_are_all_there_is(text: str, expected: list[str]):
    assert query_terms(text) == expected
