"""Scoring a handful of texts by words."""

from __future__ import annotations

from program.retrieval.lexical import word_scores

TEXTS = ["The encoder has six layers.", "It uses eight attention heads.", "Layers have heads; heads attend.", "…"]


def test_the_text_with_the_rarest_shared_words_scores_best():
    scores = word_scores("How many attention heads?", TEXTS)
    assert scores.argmax() == 1
    assert scores[1] > scores[2] > 0
    assert scores[0] == scores[3] == 0


def test_a_word_that_every_text_has_still_counts():
    assert (word_scores("layers", ["One layer.", "Two layers."]) > 0).all()
    assert (word_scores("layers", ["One layer."]) > 0).all()


def test_nothing_to_score():
    assert word_scores("layers", []).tolist() == []
    assert word_scores("layers", ["", "?!"]).tolist() == [0, 0]
    assert word_scores("?!", ["One layer."]).tolist() == [0]
