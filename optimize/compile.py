"""Compiles one predictor's examples (and, with MIPROv2 and GEPA, its instructions) with DSPy's optimizers.

`bootstrap`  BootstrapFewShotWithRandomSearch; labelled few-shot draws for the router, whose gold is known
`miprov2`    MIPROv2: instructions and examples together
`gepa`       GEPA: instructions by reflection

Every candidate is scored on the task's `val` with its own demonstration hidden, so that no example answers itself.
"""

from __future__ import annotations

import io
import json
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from typing import Any, Literal

import dspy
from dspy.teleprompt import GEPA, BootstrapFewShotWithRandomSearch, LabeledFewShot, MIPROv2

from optimize.task import Task, blank_reply
from program.errors import LanguageModelError, OutputError
from program.lm import call
from program.tokens import count_tokens

OptimizerName = Literal["bootstrap", "miprov2", "gepa"]
Step = Callable[[], None]
MOST_ERRORS = 3  # failed calls after which a language model counts as down
REFLECTION_TOKENS = 800
WORTH = 0.02  # score that examples must win: less is noise on a few questions, and they are read at every cold start


@dataclass(frozen=True, slots=True)
class Effort:
    """candidates: shuffled bootstraps beside the unshuffled one. draws: sets of labelled examples for the router.
    trials: of MIPROv2; GEPA may score as many examples as these trials would."""

    candidates: int
    draws: int
    trials: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """What compiling a predictor came to. before, after: mean score on `n` examples, uncompiled and chosen. state:
    DSPy's state of the predictor. demo_tokens: what its examples add to the static prompt."""

    name: str
    before: float
    after: float
    n: int
    demos: int
    demo_tokens: int
    state: dict[str, Any]


class Student(dspy.Module):
    """One predictor as a program of its own, called as the pipeline calls it."""

    def __init__(self, predictor: dspy.Predict, fixed: Sequence[dspy.Example] = (), step: Step = lambda: None) -> None:
        super().__init__()
        self.predict = dspy.Predict(predictor.signature)
        self.fixed = list(fixed)
        self._step = step

    def forward(self, **inputs: Any) -> dspy.Prediction:
        demos = [demo for demo in self.demos if any(demo.get(name) != value for name, value in inputs.items())]
        try:
            return call(self.predict, demos=demos, **inputs)
        except OutputError:  # scored like any other useless reply
            return blank_reply(self.predict.signature)
        finally:
            self._step()

    @property
    def demos(self) -> list[dspy.Example]:
        return [*self.predict.demos, *self.fixed]


def most_calls(train: int, val: int, effort: Effort, *, fixed: bool, labelled: bool, optimizer: OptimizerName) -> int:
    """Language-model calls of compiling one predictor, at most (without those in which MIPROv2 and GEPA propose)."""
    if optimizer != "bootstrap":
        return val + (effort.candidates + 1) * train + effort.trials * val
    if labelled:
        return (1 + effort.draws) * val
    sets = (1 + effort.candidates) if train else 0
    return sets * train + (1 + sets + fixed) * val


def compile_task(
    task: Task, predictor: dspy.Predict, effort: Effort, *, optimizer: OptimizerName, seed: int, step: Step
) -> Compiled:
    """Compile one predictor, inside a session of the language model. The predictor itself is not changed.

    Raises LanguageModelError when the language model is down.
    """
    with _quiet() as real, _explained():
        report = _on(real, step)
        plain = Student(predictor, (), report)
        before = _score(plain, task)
        if optimizer == "miprov2":
            best, after = _miprov2(task, predictor, effort, seed, report)
        elif optimizer == "gepa":
            best, after = _gepa(task, predictor, effort, seed, report)
        elif task.labelled:
            best, after = _labelled(task, predictor, effort, seed, report)
        else:
            best, after = _bootstrap(task, predictor, effort, report)
    if after < before + WORTH:  # a tie goes to the shorter prompt
        best, after = plain, before
    demos = [_clean(demo, best.predict.signature) for demo in best.demos]
    best.predict.demos = demos
    state = json.loads(json.dumps(best.predict.dump_state(), default=str)) | {"lm": None}
    tokens = sum(count_tokens(str(value)) for demo in demos for value in demo.toDict().values())
    return Compiled(task.name, before, after, len(task.val), len(demos), tokens, state)


def to_json(compiled: Compiled) -> dict[str, Any]:
    return asdict(compiled)


def _bootstrap(task: Task, predictor: dspy.Predict, effort: Effort, step: Step) -> tuple[Student, float]:
    student = Student(predictor, task.fixed, step)
    if not task.train:
        return student, _score(student, task)
    search = BootstrapFewShotWithRandomSearch(
        metric=_metric(task),
        metric_threshold=task.threshold,
        max_bootstrapped_demos=task.demos,
        max_labeled_demos=0,
        num_candidate_programs=effort.candidates,
        num_threads=1,
        max_errors=MOST_ERRORS,
    )
    # Without candidate -2, which would be labelled examples, and without -3, the bare one, where it is scored already.
    candidates = [-1, *range(effort.candidates)]
    best = search.compile(
        student, trainset=task.train, valset=task.val, restrict=[-3, *candidates] if task.fixed else candidates
    )
    return best, best.candidate_programs[0]["score"] / 100


def _labelled(task: Task, predictor: dspy.Predict, effort: Effort, seed: int, step: Step) -> tuple[Student, float]:
    """Draws of one short example of each class, in a drawn order; the best draw wins."""
    dice = random.Random(seed)
    by_class: dict[str, list[dspy.Example]] = {}
    for example in task.train:
        by_class.setdefault(example.label, []).append(example)
    best, top = Student(predictor, (), step), -1.0
    for _ in range(effort.draws):
        drawn = [dice.choice(group) for _, group in sorted(by_class.items())]
        dice.shuffle(drawn)
        student = LabeledFewShot(k=len(drawn)).compile(Student(predictor, (), step), trainset=drawn, sample=False)
        if (score := _score(student, task)) > top:
            best, top = student, score
    return best, top


def _miprov2(task: Task, predictor: dspy.Predict, effort: Effort, seed: int, step: Step) -> tuple[Student, float]:
    optimizer = MIPROv2(
        metric=_metric(task),
        metric_threshold=task.threshold,
        auto=None,
        num_candidates=max(effort.candidates + 1, 2),
        max_bootstrapped_demos=task.demos,
        max_labeled_demos=task.demos if task.labelled else 0,
        num_threads=1,
        max_errors=MOST_ERRORS,
        seed=seed + 1,  # MIPROv2 takes 0 for "not given"
    )
    best = optimizer.compile(
        Student(predictor, task.fixed, step),
        trainset=task.train or task.val,
        valset=task.val,
        num_trials=effort.trials,
        minibatch=False,
        program_aware_proposer=False,  # it would read this module's source
    )
    return best, _score(best, task)


def _gepa(task: Task, predictor: dspy.Predict, effort: Effort, seed: int, step: Step) -> tuple[Student, float]:
    def feedback(gold: dspy.Example, pred: dspy.Prediction, *_: Any) -> dspy.Prediction:
        score = task.metric(gold, pred)
        wanted = f" The right reply was {gold.label}." if task.labelled else ""
        return dspy.Prediction(score=score, feedback=f"This reply scores {score:.2f} of 1.{wanted}")

    lm = dspy.settings.lm
    optimizer = GEPA(
        metric=feedback,
        max_metric_calls=max(effort.trials, 2) * len(task.val),
        reflection_lm=lm.copy(max_tokens=REFLECTION_TOKENS) if isinstance(lm, dspy.LM) else lm,
        reflection_minibatch_size=min(3, len(task.train) or 1),
        num_threads=1,
        seed=seed,
    )
    best = optimizer.compile(Student(predictor, task.fixed, step), trainset=task.train or task.val, valset=task.val)
    return best, _score(best, task)


def _score(student: Student, task: Task) -> float:
    result = dspy.Evaluate(devset=task.val, metric=_metric(task), num_threads=1, max_errors=MOST_ERRORS)(student)
    return float(result.score) / 100


def _metric(task: Task) -> Callable[..., float]:
    def metric(example: dspy.Example, prediction: dspy.Prediction, *_: Any) -> float:
        return task.metric(example, prediction)

    return metric


def _clean(demo: dspy.Example, signature: type[dspy.Signature]) -> dspy.Example:
    """A demonstration with the signature's fields only."""
    return dspy.Example(**{name: demo[name] for name in signature.fields if demo.get(name) is not None})


@contextmanager
def _quiet() -> Iterator[Any]:
    """DSPy's optimizers print and draw bars of their own: both are dropped. Yields the real standard error."""
    import sys

    real = sys.stderr
    loggers = [logging.getLogger(name) for name in ("dspy", "gepa", "optuna")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield real
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _on(stream: Any, step: Step) -> Step:
    def stepped() -> None:
        with redirect_stderr(stream):
            step()

    return stepped


@contextmanager
def _explained() -> Iterator[None]:
    """DSPy's "too many errors" as the LanguageModelError it comes from."""
    try:
        yield
    except LanguageModelError:
        raise
    except Exception as error:
        message = " ".join(str(error).split())[:200]
        raise LanguageModelError(f"Compiling stopped: {message}", "Check the language model and run again.") from error
