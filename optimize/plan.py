"""What a run will do and cost: sizes by budget, and the estimate that is shown before it starts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import dspy

from optimize.compile import Effort, OptimizerName, most_calls
from optimize.labels import Labels
from optimize.task import TRIED, TRIED_LEAST, Sizes
from program.grader import Grader
from program.lm import call, session

BudgetName = Literal["tiny", "quick", "medium", "full"]
Stage = Literal["head", "tune", "compile", "thresholds"]
STAGES: tuple[Stage, ...] = get_args(Stage)


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of each thing a run may do. minutes: what it is meant to stay under, on the machine it is estimated on.

    queries: questions whose transform the language model writes for tuning. router_calls, claims: calls for the
    router's and the support bar. dev, test: questions asked end to end, of each program. trials: of Optuna.
    """

    name: BudgetName
    minutes: float
    queries: int
    sizes: Sizes
    effort: Effort
    router_calls: int
    claims: int
    dev: int
    test: int
    trials: int


BUDGETS: dict[BudgetName, Budget] = {
    "tiny": Budget("tiny", 5, 4, Sizes(1, 1, 2), Effort(0, 1, 2), 1, 1, 1, 2, 60),
    "quick": Budget("quick", 24, 40, Sizes(3, 6, 12), Effort(0, 2, 4), 8, 6, 8, 12, 200),
    "medium": Budget("medium", 90, 100, Sizes(6, 12, 30), Effort(2, 4, 8), 30, 15, 20, 40, 400),
    "full": Budget("full", 480, 1000, Sizes(12, 40, 100), Effort(6, 8, 20), 200, 60, 100, 1000, 1000),
}


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens a second. The prompt's static part is in the cache after the first call of a predictor."""

    read: float
    write: float

    def seconds(self, prompt: int, reply: int) -> float:
        return prompt / self.read + reply / self.write


#: The embedded 1.5B model on two cores.
TYPICAL = Speed(read=63.0, write=12.0)


#: Seconds on two cores, for one question: to search for its candidates with every title weight, to replay it in one
#: trial of every study, to read its evidence once more, and to make examples of it for every predictor.
SEARCH, REPLAY, REREAD, MAKING = 0.2, 0.0025, 0.26, 1.5


@dataclass(frozen=True, slots=True)
class Line:
    """One stage of the plan: language-model calls, at most, and seconds."""

    stage: str
    calls: int
    seconds: float


def measure(lm: dspy.LM) -> Speed:
    """The language model's speed by one call after a warming one, in the typical proportion of reading to writing.

    Raises LanguageModelError.
    """
    grader = Grader()
    passage = (
        "[1] Sparrows: The house sparrow nests in cavities and under roofs, and lays four or five eggs at a time. " * 8
    )
    with session(lm) as meter:
        call(grader.grade, passages="[1] Finches: Finches eat seeds.", question="What do finches eat?")
        before, started = meter.usage, time.perf_counter()
        call(grader.grade, passages=passage, question="How many eggs does a house sparrow lay at a time?")
        seconds, used = time.perf_counter() - started, meter.usage - before
    typical = TYPICAL.seconds(max(used.prompt_tokens - used.cached_tokens, 1), used.completion_tokens)
    factor = typical / max(seconds, 1e-3)
    return Speed(TYPICAL.read * factor, TYPICAL.write * factor)


def estimate(
    labels: Labels, budget: Budget, speed: Speed | None, stages: Sequence[str], optimizer: OptimizerName
) -> list[Line]:
    """The plan, from label counts alone; real runs stay under the calls. speed: None without a language model."""
    if speed is None:
        tuning, bars = 15 + _tuning(labels, budget), REREAD * _counts(labels)["tuned"]
        made = [("router head", "head", 30.0), ("retrieval and ranking", "tune", tuning), ("bars", "thresholds", bars)]
        asked_of_both = [("before and after", "", 60.0)]
        return [Line(name, 0, seconds) for name, stage, seconds in made + asked_of_both if stage in (*stages, "")]
    small, query, grade, answer = (speed.seconds(*shape) for shape in ((45, 8), (70, 30), (300, 22), (480, 60)))
    asked = small / 2 + query / 2 + grade / 3 + answer  # of a question end to end
    lines = []
    if "head" in stages:
        lines.append(Line("router head", 0, 15))
    if {"tune", "compile", "thresholds"} & set(stages):
        written = min(budget.queries, _counts(labels)["queries"])
        lines.append(Line("queries for tuning", written, written * query))
    if "tune" in stages:
        lines.append(Line("retrieval and ranking", 0, 15 + _tuning(labels, budget)))
    if "compile" in stages:
        looked_at = max(TRIED * budget.sizes.train, TRIED_LEAST) + max(TRIED * budget.sizes.val, TRIED_LEAST)
        lines.append(Line("making examples", 0, MAKING * min(looked_at, _counts(labels)["tuned"])))
        shapes = {"router.decide": small, "synthesizer.answer": answer, "grader.grade": grade, "grader.next_hop": grade}
        for name, calls in _compile_calls(labels, budget, optimizer).items():
            lines.append(Line(f"examples of {name}", calls, calls * shapes.get(name, query)))
    if "thresholds" in stages:
        asking = budget.router_calls * small + budget.claims * answer
        lines.append(Line("bars", budget.router_calls + budget.claims, asking + REREAD * _counts(labels)["tuned"]))
    parts = {part: sum(q.part == part for q in labels.questions) for part in ("dev", "test")}
    for part, most in (("dev", budget.dev), ("test", budget.test)):
        n = 2 * min(most, parts[part])
        lines.append(Line(f"before and after, {part} part", 3 * n, n * asked + 12 * query))
    return lines


def fitted(budget: Budget, lines: Sequence[Line]) -> Budget:
    """The budget with its samples made smaller where the estimate is over its minutes. Tuning is never cut."""
    share = 60 * budget.minutes / max(sum(line.seconds for line in lines), 1e-9)
    if share >= 1:
        return budget

    def less(n: int, least: int) -> int:
        return min(n, max(least, int(n * share)))

    sizes = Sizes(less(budget.sizes.train, 1), less(budget.sizes.val, 2), less(budget.sizes.router_val, 4))
    return replace(
        budget,
        queries=less(budget.queries, 4),
        sizes=sizes,
        router_calls=less(budget.router_calls, 2),
        claims=less(budget.claims, 2),
        dev=less(budget.dev, 3),
        test=less(budget.test, 4),
    )


def _compile_calls(labels: Labels, budget: Budget, optimizer: OptimizerName) -> dict[str, int]:
    counts = _counts(labels)
    sizes, effort = budget.sizes, budget.effort

    def calls(train: int, val: int, *, fixed: bool = False, labelled: bool = False) -> int:
        return most_calls(train, val, effort, fixed=fixed, labelled=labelled, optimizer=optimizer)

    small = (min(sizes.train, 2), min(sizes.val, 4))
    found = {"router.decide": calls(0, min(sizes.router_val, counts["routing dev"]), labelled=True)}
    for name in ("vague", "compound", "broad", "needs_context", "follow-up"):
        train, both = counts[f"{name} train"], counts[f"{name} train"] + counts[f"{name} dev"]
        if both:
            found[f"transform {name}"] = calls(min(sizes.train, train), min(sizes.val, both))
    found["grader.grade"] = calls(sizes.train, sizes.val)
    if counts["multi_hop train"]:
        found["grader.next_hop"] = calls(sizes.train, min(sizes.val, 2 * counts["multi_hop dev"] or sizes.val))
    found["synthesizer.answer"] = calls(sizes.train, 2 * sizes.val, fixed=True)
    found["synthesizer.reply"] = calls(*small)
    return found


def _tuning(labels: Labels, budget: Budget) -> float:
    """Seconds: every question is searched for once, and replayed in every trial."""
    return _counts(labels)["tuned"] * (SEARCH + REPLAY * budget.trials)


def _counts(labels: Labels) -> dict[str, int]:
    counts = {"routing dev": sum(x.part == "dev" and not x.history for x in labels.routing), "queries": 0}
    for name in ("clear", "vague", "compound", "broad", "needs_context", "multi_hop", "follow-up"):
        for part in ("train", "dev", "test"):
            chosen = [x for x in labels.questions if x.part == part and x.answerable]
            counts[f"{name} {part}"] = sum(bool(x.history) if name == "follow-up" else x.label == name for x in chosen)
    tuned = [x for x in labels.questions if x.part != "test"]
    counts["tuned"] = len(tuned)
    counts["queries"] = sum((x.strategy == "single" and x.transform != "clear") + bool(x.history) for x in tuned)
    return counts
