"""The tables of a run, and the report that the artifact keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optimize.plan import Line

#: Scores in the order they are shown, with what to call them.
SCORES = {
    "right": "right (answers and refusals)",
    "right_answerable": "right answers",
    "citation_precision": "citation precision",
    "faithfulness": "faithfulness",
    "refusal_precision": "refusal precision",
    "refusal_recall": "refusal recall",
    "routing": "routing accuracy",
    "pool_recall": "gold in the pool",
    "recall_at_k": "recall at k",
    "all_gold_evidence": "all gold in the evidence",
    "mrr": "MRR",
    "calls": "language-model calls",
    "tokens": "tokens",
    "uncached_prompt_tokens": "prompt tokens not cached",
    "seconds": "seconds",
    "first_sentence_seconds": "seconds to first sentence",
    "fallbacks": "language model failed",
}

Rows = list[tuple[str, ...]]


def plan_rows(lines: Sequence[Line]) -> Rows:
    """Stage, calls and minutes, with a total."""
    rows = [(line.stage, str(line.calls), f"{line.seconds / 60:.1f}") for line in lines]
    total = sum(line.seconds for line in lines) / 60
    return [*rows, ("in all, at most", str(sum(line.calls for line in lines)), f"{total:.1f}")]


def score_rows(summaries: Mapping[str, Mapping[str, Any]]) -> Rows:
    """One row a score, one column a program: the mean with its 95% interval and how many questions it is of."""
    return [(title, *(_cell(summary.get(name)) for summary in summaries.values())) for name, title in SCORES.items()]


def predictor_rows(predictors: Sequence[Mapping[str, Any]]) -> Rows:
    """Name, score before and after on how many examples, examples kept and their tokens."""
    return [
        (
            str(item["name"]),
            f"{item['before']:.2f}",
            f"{item['after']:.2f}",
            str(item["n"]),
            str(item["demos"]),
            str(item["demo_tokens"]),
        )
        for item in predictors
    ]


def number_rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> Rows:
    """Every number of Params that compiling changed."""
    flat_before, flat_after = _flat(before), _flat(after)
    return [
        (name, _number(flat_before.get(name)), _number(value))
        for name, value in flat_after.items()
        if value != flat_before.get(name)
    ]


def _cell(score: Any) -> str:
    if score is None:
        return "no data"
    if not isinstance(score, Mapping):
        return _number(score)
    if not score.get("n"):
        return "no data"
    return f"{score['mean']:.2f} [{score['low']:.2f}, {score['high']:.2f}] n={score['n']}"


def _flat(values: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        place = f"{path}.{name}" if path else name
        flat.update(_flat(value, place) if isinstance(value, Mapping) else {place: value})
    return flat


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
