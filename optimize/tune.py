"""Tunes retrieval and ranking over candidates that were taken once. No language model.

1. `fit_ranker`: the ranker's weights, a pairwise logistic regression of gold over the rest on its signals (train).
2. `tune_search`: k, alpha, fusion, whether the question joins a transform's queries, and title weight, shared by all
   transforms; a transform with ENOUGH labels gets its own afterwards.
3. `tune_cuts`: the bars under which hits are dropped, and the places kept for abstracts.

Labels are few, so every objective pulls towards the defaults (PRIOR), and what does not win on dev is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray

from optimize.gold import Case, gold_ranks, retrieval_of
from optimize.metrics import all_gold, recall_at_k, reciprocal_rank
from optimize.ranker import WITHOUT_CROSS_ENCODER, fit_weights
from program.params import SIGNALS, Params, RankWeights, SearchParams
from program.retrieval.retriever import replay
from program.types import Transform

TITLE_WEIGHTS = (0.5, 1.0, 2.0)
ALPHAS = tuple(round(0.2 + 0.05 * step, 2) for step in range(13))
PASSAGES = (15, 20, 25, 30, 40, 50, 75)
ABSTRACTS = (3, 5, 8)
BARS = {"top_bar": (0.0005, 0.1), "deep_bar": (0.0005, 0.2)}  # lowest and highest
ENOUGH = 20  # labelled questions from which a transform gets search parameters of its own
PRIOR = 0.03  # what leaving the defaults costs, for each number at the far end of its range
MRR_SHARE = 0.1  # of the objective: it breaks ties, and one lost question costs more than it can win
MOST_REPLAYS = 120  # distinct searches tried, at most, whatever the number of trials

Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Found:
    """Retrieval scores over n questions: share with all gold among the hits that evidence is made from (for hops, the
    share of gold that one retrieval can find), and MRR."""

    gold: float
    mrr: float
    n: int

    @property
    def objective(self) -> float:
        return self.gold + MRR_SHARE * self.mrr


def found(cases: Sequence[Case], params: Params) -> Found:
    """Replay all cases under `params`."""
    if not cases:
        return Found(0.0, 0.0, 0)
    gold: list[float] = []
    reciprocal: list[float] = []
    for case in cases:
        ranks = gold_ranks(retrieval_of(case, params).hits, case.label, case.gold)
        hops = case.label.strategy == "multi_hop"
        k = params.evidence_chunks
        gold.append(recall_at_k(ranks, k) if hops else float(all_gold(ranks, k)))
        reciprocal.append(reciprocal_rank(ranks))
    return Found(float(np.mean(gold)), float(np.mean(reciprocal)), len(cases))


def fit_ranker(train: Sequence[Case], params: Params) -> dict[str, RankWeights]:
    """Weights by the name of their field in Params, for each set of signals that the candidates have.

    Empty when the cases hold too little gold to fit.
    """
    signals, gold, groups, crossed = _rows(train, params)
    if not len(gold) or gold.sum() < 5 or gold.all():
        return {}
    plain, both = params.rank_without_cross_encoder, params.rank_with_cross_encoder
    weights = {"rank_without_cross_encoder": fit_weights(signals, gold, groups, plain, WITHOUT_CROSS_ENCODER)}
    if crossed.any() and gold[crossed].sum() >= 5:
        weights["rank_with_cross_encoder"] = fit_weights(
            signals[crossed], gold[crossed], groups[crossed], both, SIGNALS
        )
    return weights


def keep_better_ranker(train: Sequence[Case], dev: Sequence[Case], params: Params) -> Params:
    """`params` with fitted weights where they order dev better than those in `params` do, or as well and more likely.

    With new weights come new bars, under which as many hits of the training questions fall as did before.
    """
    fitted = params.model_copy(update=fit_ranker(train, params))
    standing, new = ((found(dev, _without_bars(p)).objective, _likelihood(dev, p)) for p in (params, fitted))
    if new <= standing:
        return params
    before, after = (np.concatenate([_scores(case, numbers) for case in train]) for numbers in (params, fitted))
    shares = {name: float((before < getattr(params, name)).mean()) for name in BARS}
    bars = {name: round(float(np.clip(np.quantile(after, shares[name]), *BARS[name])), 4) for name in BARS}
    return fitted.model_copy(update=bars)


def studies(cases: Sequence[Case]) -> int:
    """How many Optuna studies tuning takes, each of as many trials."""
    return 2 + len(_with_own_search(cases))


def tune_search(cases: Sequence[Case], params: Params, *, trials: int, seed: int, step: Step) -> Params:
    """Search parameters by Optuna: shared, then those of each transform with ENOUGH cases."""
    best = _search_study(cases, params, None, trials, seed, step)
    for transform, own in _with_own_search(cases).items():
        best = _search_study(own, best, transform, trials, seed, step)
    return best


def tune_cuts(cases: Sequence[Case], params: Params, *, trials: int, seed: int, step: Step) -> Params:
    """`top_bar`, `deep_bar` and `abstract_slots` by Optuna."""

    def tried(trial: optuna.Trial) -> Params:
        top = trial.suggest_float("top_bar", *BARS["top_bar"], log=True)
        deep = trial.suggest_float("deep_bar", top, BARS["deep_bar"][1], log=True)
        return params.model_copy(
            update={"top_bar": top, "deep_bar": deep, "abstract_slots": trial.suggest_int("abstract_slots", 0, 2)}
        )

    def score(trial: optuna.Trial) -> float:
        step()
        candidate = tried(trial)
        bars = ((candidate.top_bar, params.top_bar), (candidate.deep_bar, params.deep_bar))
        away = abs(candidate.abstract_slots - params.abstract_slots) + sum(abs(np.log10(a / b)) for a, b in bars)
        return found(cases, candidate).objective - PRIOR * float(away)

    study = _study(seed)
    study.enqueue_trial(
        {"top_bar": params.top_bar, "deep_bar": params.deep_bar, "abstract_slots": params.abstract_slots}
    )
    study.optimize(score, n_trials=trials)
    return tried(study.best_trial)


def _without_bars(params: Params) -> Params:
    return params.model_copy(update={"top_bar": 0.0, "deep_bar": 0.0})


def _likelihood(cases: Sequence[Case], params: Params) -> float:
    """Mean log-probability that the scores give to what is gold and what is not, every chunk alike."""
    pairs = [
        (hit.score, bool(case.gold.get(hit.chunk.id)))
        for case in cases
        for hits in retrieval_of(case, _without_bars(params)).ranked
        for hit in hits
    ]
    return float(np.mean([np.log(max(score if gold else 1 - score, 1e-9)) for score, gold in pairs])) if pairs else 0.0


def _scores(case: Case, params: Params) -> NDArray[np.float64]:
    return np.array([hit.score for hits in retrieval_of(case, _without_bars(params)).ranked for hit in hits])


def _with_own_search(cases: Sequence[Case]) -> dict[Transform, list[Case]]:
    by_transform: dict[Transform, list[Case]] = {}
    for case in cases:
        if case.label.strategy == "single":
            by_transform.setdefault(case.label.transform, []).append(case)
    return {transform: own for transform, own in by_transform.items() if len(own) >= ENOUGH}


def _search_study(
    cases: Sequence[Case], params: Params, only: Transform | None, trials: int, seed: int, step: Step
) -> Params:
    default = params.search_for(only or "clear")

    def tried(trial: optuna.Trial) -> Params:
        search = SearchParams(
            passages=trial.suggest_categorical("passages", _grid(PASSAGES, default.passages)),
            abstracts=trial.suggest_categorical("abstracts", _grid(ABSTRACTS, default.abstracts)),
            alpha=trial.suggest_categorical("alpha", _grid(ALPHAS, default.alpha)),
            fusion=trial.suggest_categorical("fusion", ("relative", "ranked")),
            question=trial.suggest_categorical("question", (True, False)),
        )
        if only is not None:
            return params.model_copy(update={"search": {**params.search, only: search}})
        weight = trial.suggest_categorical("title_weight", _grid(TITLE_WEIGHTS, params.title_weight))
        return params.model_copy(update={"search": dict.fromkeys(params.search, search), "title_weight": weight})

    known: dict[tuple[Any, ...], float] = {}

    def score(trial: optuna.Trial) -> float:
        step()
        candidate = tried(trial)
        search = candidate.search_for(only or "clear")
        key = (search.passages, search.abstracts, search.alpha, search.fusion, search.question, candidate.title_weight)
        if key not in known:
            if len(known) >= MOST_REPLAYS:
                raise optuna.TrialPruned
            known[key] = found(cases, candidate).objective - _moved(search, candidate, default, params)
        return known[key]

    study = _study(seed)
    start: dict[str, Any] = default.model_dump()
    study.enqueue_trial(start if only else start | {"title_weight": params.title_weight}, skip_if_exists=True)
    study.optimize(score, n_trials=trials)
    return tried(study.best_trial)


def _grid(values: Sequence[float], default: float) -> list[float]:
    """The values to try, the default among them."""
    return sorted({*values, default})


def _moved(search: SearchParams, candidate: Params, default: SearchParams, params: Params) -> float:
    away = (
        abs(search.alpha - default.alpha) / 0.3
        + abs(np.log2(search.passages / default.passages))
        + abs(search.abstracts - default.abstracts) / 5
        + abs(candidate.title_weight - params.title_weight) / 2
        + (search.fusion != default.fusion) * 2  # it decides what can come at all: no choice for two questions
        + (search.question != default.question) / 2
    )
    return PRIOR * float(away)


def _study(seed: int) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))


def _rows(
    cases: Sequence[Case], params: Params
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.intp], NDArray[np.bool_]]:
    """Signals of every candidate of every answerable case, whether it is gold, its question, whether a cross-encoder
    scored it."""
    signals: list[NDArray[np.float32]] = []
    gold: list[bool] = []
    groups: list[int] = []
    crossed: list[bool] = []
    for group, case in enumerate(cases):
        if not case.label.quotes:
            continue
        pools = replay(case.candidates[params.title_weight], params.search_for(case.label.transform), params)
        for pool in pools:
            signals.append(pool.signals)
            gold.extend(bool(case.gold.get(hit.chunk.id)) for hit in pool.hits)
            groups.extend([group] * len(pool.hits))
            crossed.extend([pool.with_cross_encoder] * len(pool.hits))
    matrix = np.concatenate(signals) if signals else np.zeros((0, len(SIGNALS)), np.float32)
    return matrix, np.array(gold, np.bool_), np.array(groups, np.intp), np.array(crossed, np.bool_)
