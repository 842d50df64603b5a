"""What compiling one predictor takes: examples made of labels, and a metric in [0, 1].

Inputs and outputs go through the program's own modules (`probed`), so that an example is what the program will really
send, and a reply is scored by what the program would make of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, get_origin

import dspy

from optimize.evaluate import sample
from optimize.labels import Labels, QuestionLabel
from program.pipeline import AdaptiveRAG

Metric = Callable[[dspy.Example, dspy.Prediction], float]

# Labels looked at for each example wanted, and at least: not all make one, but reading evidence takes time.
TRIED, TRIED_LEAST = 5, 16
LONG_QUESTION = 40  # tokens of a question that is too long for an example


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many examples a task may try for demonstrations, and how many it may choose by."""

    train: int
    val: int
    router_val: int


@dataclass(frozen=True, slots=True)
class Source:
    """What tasks are made from. odds: the head's view of routing questions, by id. asked: QA questions with their
    history folded in, by id."""

    program: AdaptiveRAG
    labels: Labels
    odds: Mapping[str, list[tuple[str, float]]]
    asked: Mapping[str, str]
    sizes: Sizes

    @property
    def with_gold(self) -> list[QuestionLabel]:
        """Train and dev questions that quotes answer."""
        return [x for x in self.labels.questions if x.answerable and x.quotes and x.part != "test"]

    def some(self, labels: Sequence[QuestionLabel]) -> list[QuestionLabel]:
        """As many train and dev questions as examples may need, of every kind in turn."""
        sizes = {"train": self.sizes.train, "dev": self.sizes.val}
        wanted = {part: max(TRIED * n, TRIED_LEAST) for part, n in sizes.items()}
        return [x for part, n in wanted.items() for x in sample([x for x in labels if x.part == part], n, seed=0)]


@dataclass(frozen=True, slots=True)
class Task:
    """Compiling the predictor `name`.

    train: examples that may become demonstrations. val: examples to choose by. fixed: demonstrations that every
    candidate has. demos: how many, at most, besides. threshold: the score from which a reply may become a
    demonstration. labelled: examples carry their outputs.
    """

    name: str
    metric: Metric
    train: list[dspy.Example]
    val: list[dspy.Example]
    demos: int = 2
    threshold: float = 0.9
    fixed: list[dspy.Example] = field(default_factory=list)
    labelled: bool = False


class Probe(dspy.Predict):
    """Stands in for a predictor: keeps the inputs it was called with, and gives the reply it was made with."""

    def __init__(self, signature: type[dspy.Signature], reply: dspy.Prediction | None = None) -> None:
        super().__init__(signature)
        self.reply = reply or blank_reply(signature)
        self.given: dict[str, Any] = {}

    def forward(self, **inputs: Any) -> dspy.Prediction:
        self.given = {name: value for name, value in inputs.items() if name in self.signature.input_fields}
        return self.reply


def probed(program: AdaptiveRAG, name: str, reply: dspy.Prediction | None = None) -> tuple[Any, Probe]:
    """A copy of the module that holds predictor `name`, with a Probe in the predictor's place."""
    *path, attribute = name.split(".")
    owner: Any = program
    for part in path:
        owner = getattr(owner, part)
    copy = deepcopy(owner)
    probe = Probe(getattr(copy, attribute).signature, reply)
    setattr(copy, attribute, probe)
    return copy, probe


def blank_reply(signature: type[dspy.Signature]) -> dspy.Prediction:
    """A reply that says nothing, in the signature's types."""
    return dspy.Prediction(**{name: _blank(f.annotation) for name, f in signature.output_fields.items()})


def _blank(annotation: Any) -> Any:
    if annotation is bool:
        return False
    return [] if get_origin(annotation) is list else ""
