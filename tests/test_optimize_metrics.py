"""Metrics and bars, on values small enough to work out by hand."""

import math

import pytest

from optimize.metrics import (
    all_gold,
    answer_is_right,
    bootstrap_interval,
    macro_f1,
    quotes_overlap,
    recall_at_k,
    reciprocal_rank,
    refusal_scores,
)
from optimize.thresholds import Scored, grade_bars, router_bar, spoilt, support_bar


def test_ranks_of_gold() -> None:
    ranks = [1, 0, 7]
    assert recall_at_k(ranks, 6) == pytest.approx(1 / 3)
    assert recall_at_k(ranks, 7) == pytest.approx(2 / 3)
    assert not all_gold(ranks, 100)
    assert all_gold([2, 3], 3)
    assert reciprocal_rank([0, 4, 2]) == 0.5
    assert reciprocal_rank([0]) == 0


@pytest.mark.parametrize(
    ("text", "answers", "right"),
    [
        ("It has 18 heads.", ["8"], False),
        ("It has eight parallel attention heads [1].", ["8 heads"], True),
        ("They used Adam [1]. There are 8 attention heads [2].", ["Adam; 8 heads"], True),
        ("They used Adam [1].", ["Adam; 8 heads"], False),
        ("The vocabulary has 50257 entries.", ["50,257"], True),
        ("A rate of Pdrop = 0.1 was used.", ["0.1"], True),
        ("A rate of 0.15 was used.", ["0.1"], False),
        ("Self-attention does that.", ["no such words", "self attention"], True),
        ("Recurrence precludes parallelization within the training examples.",
         ["Their sequential computation precludes parallelization within training examples"], True),
        ("I could not find it.", ["Adam"], False),
        ("Anything", [], False),
        ("Averaging made no progress on arithmetic.", ["no progress"], True),
        ("It made real progress on arithmetic.", ["no progress"], False),
        ("Progress there was not seen.", ["no progress"], True),
    ],
)  # fmt: skip
def test_an_answer_is_right_when_it_states_the_fact(text: str, answers: list[str], right: bool) -> None:
    assert answer_is_right(text, answers) is right


def test_quotes_overlap_when_one_holds_most_of_the_other() -> None:
    gold = "BERT-large has 16 attention heads and 24 layers."
    assert quotes_overlap("In all, BERT-large has 16 attention heads and 24 layers. It is large.", gold)
    assert not quotes_overlap("BERT-base has 12 attention heads and 12 layers.", "GPT-2 has 48 layers.")


def test_refusals() -> None:
    scores = refusal_scores(refused=[True, True, False, False], answerable=[False, True, False, True])
    assert (scores.precision, scores.recall) == (0.5, 0.5)
    assert refusal_scores([False], [True]) == refusal_scores([], [])


def test_intervals_hold_the_mean_and_shrink_with_n() -> None:
    few, many = bootstrap_interval([0, 1] * 5), bootstrap_interval([0, 1] * 200)
    assert few.low < 0.5 < few.high
    assert many.high - many.low < few.high - few.low
    assert (few.n, bootstrap_interval([]).n) == (10, 0)
    assert bootstrap_interval([0, 1, 1]) == bootstrap_interval([0, 1, 1])
    assert math.isnan(bootstrap_interval([]).mean)


def test_macro_f1_counts_every_class_alike() -> None:
    assert macro_f1(["a", "a", "a", "b"], ["a", "a", "a", "a"]) == pytest.approx(6 / 7 / 2)


def test_clear_questions_pass_the_accept_bar() -> None:
    clear = [Scored(0.3 + 0.05 * i, True, True) for i in range(10)]
    accept, reject = grade_bars([*clear, Scored(0.1, False, True), Scored(0.2, True, False)], 0.45, 0.05)
    assert sum(item.score >= accept for item in clear) >= 9
    assert accept > 0.1
    assert reject < 0.2
    assert grade_bars([Scored(0.9, False, True)], 0.45, 0.05) == (0.45, 0.05)


def test_the_router_asks_the_model_only_where_that_pays() -> None:
    odds = {f"q{i}": [("clear", 0.1 * i), ("vague", 0.0)] for i in range(1, 9)}
    gold = dict.fromkeys(odds, "clear") | {"q1": "vague", "q2": "vague"}
    good = {"q1": "vague", "q2": "vague", "q3": "clear"}
    assert 0.2 < router_bar(odds, gold, good) <= 0.3
    assert router_bar(odds, gold, {"q1": "math", "q2": "math", "q3": "clear"}) == 0.0
    assert router_bar(odds, gold, {}) == 0.0


def test_the_support_bar_parts_right_from_wrong() -> None:
    assert 0.42 < support_bar([0.6, 0.7, 0.8], [0.1, 0.42]) <= 0.6
    assert support_bar([0.6, 0.7], [0.1]) == 0.5  # nearest to the default among equals
    assert support_bar([], [0.2]) == 0.5


def test_spoilt_claims_differ_in_one_figure_or_one_name() -> None:
    wrong = spoilt("BERT-large has 16 attention heads.", ["They used Adafactor."])
    assert "BERT-large has 19 attention heads." in wrong
    assert any("Adafactor" in claim and "16" in claim for claim in wrong)
    assert spoilt("it is large.", ["They used Adafactor."]) == []
