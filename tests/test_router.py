import numpy as np
import pytest

from program.router import RouterHead, head_features, hint
from program.shape import SHAPE_SIZE, shape
from program.types import ROUTE_LABELS, Route


def test_features_are_the_embedding_then_the_shape() -> None:
    vector = np.array([0.6, 0.8], np.float32)
    features = head_features("What is 3 + 4, and why?", vector)
    assert features[:2].tolist() == vector.tolist()
    assert features.dtype == np.float32
    assert len(features) == len(head_features("", vector)) == 2 + SHAPE_SIZE


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is BERT?", "What is BERT, and what is GPT?"),  # a second question
        ("How large is it?", "How large is 3 * 4?"),  # arithmetic
        ("Who wrote the paper?", "Hello, who are you?"),  # spoken to the assistant
        ("The orders of March", "Total of all orders per month"),  # over a table
    ],
)
def test_shape_tells_kinds_apart_and_stays_bounded(one: str, other: str) -> None:
    assert not np.array_equal(shape(one), shape(other))
    assert np.isfinite(shape("?, " * 10_000)).all()
    assert shape("?, " * 10_000).max() < 20


def test_probabilities_sum_to_one_and_come_best_first() -> None:
    size = len(head_features("", np.zeros(2, np.float32)))
    head = RouterHead(("clear", "math"), np.zeros((2, size), np.float32), np.array([0.0, 1.0], np.float32))
    odds = head.probabilities("2 + 2", np.zeros(2, np.float32))
    assert [label for label, _ in odds] == ["math", "clear"]
    assert sum(share for _, share in odds) == pytest.approx(1.0)


@pytest.mark.parametrize("label", ROUTE_LABELS)
def test_every_label_makes_a_route_and_comes_back(label: str) -> None:
    route = Route.from_label(label, "head", 0.5)
    assert route.label == label
    assert (route.strategy == "single") == (label in ROUTE_LABELS[:5])


def test_an_unknown_label_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        Route.from_label("multi-hop!", "language_model", 1.0)


def test_the_hint_names_only_likely_classes() -> None:
    assert hint([("clear", 0.6), ("vague", 0.3), ("math", 0.02)]) == "clear 60%, vague 30%"
    assert hint([(label, 0.1) for label in ROUTE_LABELS]) == "none"
