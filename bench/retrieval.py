"""What does each way of ranking find? Six public sets, the compiled ranker against the searches it is made from.

    python bench/retrieval.py [--sets hotpotqa,2wiki] [--questions 250] [--depth 50] [--fit | --transforms 50]

Reads ../shared/datasets; indexes are made once and kept under --cache. Without options: recall, all-gold (the share of
questions with all their passages found), MRR and nDCG for each way; what each signal buys; and how much the pool's
depth allows. `compiled, other sets` is ranked with weights fitted on all sets but the one it is tested on; `compiled,
shipped` with the program's defaults, which have seen these questions. --fit prints the weights fitted on all sets,
which are the defaults in program/params.py. --transforms N prints instead what each transform of the question finds,
on the first N questions of each set, with queries of the program's language model; they are kept, so that the run can
be broken off and the table printed again. --calls bounds how often the model is asked in this run.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from public_sets import DATASETS, SETS, Question, index_of, questions_of
from retrieval_transforms import Transformed, rankings
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

from optimize.metrics import all_gold, recall_at_k, reciprocal_rank
from optimize.ranker import WITHOUT_CROSS_ENCODER, fit_weights
from program.params import Params, RankWeights, SearchParams
from program.retrieval.encoders import load_encoder
from program.retrieval.fusion import fuse
from program.retrieval.rank import probabilities
from program.retrieval.retriever import Candidates, Pool, Retriever, replay
from program.settings import Settings
from program.transforms import plain
from program.types import Hit

DEPTHS = (25, 50, 100)
STRENGTH = 1.0  # of the fit: between 0.03 and 10 the order of the sets' questions hardly changes
NO_WEIGHTS = RankWeights(bias=0.0, weights={})
STEPS = {
    "search scores": ("dense", "lexical", "dense_reciprocal", "lexical_reciprocal", "fused_reciprocal"),
    "late interaction": ("late_interaction", "neighbour"),
    "coverage": ("coverage", "title"),
    "named": ("named",),
    "linked": ("linked",),
    "joint": ("joint",),
}

Ranking = Sequence[str]  # chunk ids, best first


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with all that searching for it gave. gold: bool [hits of the pool]."""

    question: Question
    candidates: Candidates
    pool: Pool
    gold: NDArray[np.bool_]

    def ranks(self, ranking: Ranking) -> list[int]:
        return gold_ranks(self.question, ranking)


Asking = Mapping[str, Sequence[Asked]]  # by set


def gold_ranks(question: Question, ranking: Ranking) -> list[int]:
    """The 1-based place of each gold passage, 0 where it is not there."""
    places = {id: place for place, id in enumerate(ranking, 1)}
    return [places.get(id, 0) for id in question.gold]


def ask(name: str, retriever: Retriever, questions: Sequence[Question], params: Params, depth: int) -> list[Asked]:
    search = SearchParams(passages=depth, abstracts=0)
    asked = []
    for question in track(questions, f"Searching {name}"):
        candidates = retriever.candidates(plain(question.text), params)
        (pool,) = replay(candidates, search, params)
        gold = np.array([hit.chunk.id in question.gold for hit in pool.hits], np.bool_)
        asked.append(Asked(question, candidates, pool, gold))
    return asked


def fitted(asked: Sequence[Asked], names: Sequence[str] = WITHOUT_CROSS_ENCODER) -> RankWeights:
    """Weights fitted from nothing on the pools of these questions."""
    signals = np.concatenate([item.pool.signals for item in asked])
    gold = np.concatenate([item.gold for item in asked])
    groups = np.repeat(np.arange(len(asked)), [len(item.gold) for item in asked])
    return fit_weights(signals, gold, groups, NO_WEIGHTS, names, strength=STRENGTH)


def on_other_sets(asking: Asking, names: Sequence[str] = WITHOUT_CROSS_ENCODER) -> dict[str, RankWeights]:
    """For each set the weights fitted on all others."""
    return {
        tested: fitted([item for name, items in asking.items() if name != tested for item in items], names)
        for tested in asking
    }


def by(weights: RankWeights, item: Asked) -> Ranking:
    scores = probabilities(item.pool.signals, weights)
    hits = zip(item.pool.hits, scores, strict=True)
    return [hit.chunk.id for hit, _ in sorted(hits, key=lambda pair: (-pair[1], pair[0].chunk.id))]


def ways(item: Asked, other_sets: RankWeights, shipped: RankWeights) -> dict[str, Ranking]:
    """Every way of ranking, by name."""
    (legs,) = (legs for legs in item.candidates.legs[0] if legs.filters.kind == "passage")
    alpha = SearchParams().alpha

    def found(alpha: float, fusion: str) -> Ranking:
        return ids(fuse(legs.dense, legs.lexical, alpha=alpha, fusion=fusion, k=100))  # type: ignore[arg-type]

    return {
        "BM25": ids(legs.lexical),
        "dense": ids(legs.dense),
        "RRF": found(0.5, "ranked"),
        f"hybrid, ranked, alpha {alpha}": found(alpha, "ranked"),
        f"hybrid, relative, alpha {alpha}": found(alpha, "relative"),
        "compiled, other sets": by(other_sets, item),
        "compiled, shipped": by(shipped, item),
    }


def ids(hits: Sequence[Hit]) -> Ranking:
    return [hit.chunk.id for hit in hits]


def ndcg(ranks: Sequence[int], k: int) -> float:
    """Normalised discounted cumulative gain of the first k (Jarvelin and Kekalainen 2002), every gold worth 1."""
    best = sum(1 / math.log2(place + 1) for place in range(1, min(len(ranks), k) + 1))
    return sum(1 / math.log2(rank + 1) for rank in ranks if 0 < rank <= k) / best


def scores(ranks: Sequence[Sequence[int]]) -> list[str]:
    """recall@5/10/25/50 and all-gold@5/10 in percent, MRR and nDCG@10."""
    shares = [np.mean([recall_at_k(item, k) for item in ranks]) for k in (5, 10, 25, 50)]
    shares += [np.mean([all_gold(item, k) for item in ranks]) for k in (5, 10)]
    rest = [np.mean([reciprocal_rank(item) for item in ranks]), np.mean([ndcg(item, 10) for item in ranks])]
    return [f"{100 * share:.1f}" for share in shares] + [f"{value:.3f}" for value in rest]


def main_table(asking: Asking, shipped: RankWeights) -> Table:
    table = _table("What each way finds", "set", "way", "r@5", "r@10", "r@25", "r@50", "all@5", "all@10", "MRR", "nDCG")
    other_sets = on_other_sets(asking)
    for name, items in asking.items():
        rankings = [ways(item, other_sets[name], shipped) for item in items]
        for way in rankings[0]:
            ranks = [item.ranks(ranking[way]) for item, ranking in zip(items, rankings, strict=True)]
            table.add_row(f"{name} ({len(items)})", way, *scores(ranks), end_section=way == "compiled, shipped")
    return table


def signal_table(asking: Asking) -> Table:
    """all-gold@5/10 of rankers with some of the signals, their weights fitted on the other sets."""
    table = _table("What each signal buys: all@5/all@10, weights of the other sets", "signals", *asking)
    names: list[str] = []
    for step, added in STEPS.items():
        names += added
        table.add_row(f"+ {step}" if len(names) > len(added) else step, *_all_gold(asking, tuple(names)))
    table.add_section()
    for left_out in names:
        kept = tuple(name for name in WITHOUT_CROSS_ENCODER if name != left_out)
        table.add_row(f"all but {left_out}", *_all_gold(asking, kept))
    return table


def _all_gold(asking: Asking, names: Sequence[str]) -> list[str]:
    weights = on_other_sets(asking, names)
    cells = []
    for name, items in asking.items():
        ranks = [item.ranks(by(weights[name], item)) for item in items]
        cells.append("/".join(f"{100 * np.mean([all_gold(item, k) for item in ranks]):.1f}" for k in (5, 10)))
    return cells


def ceiling_table(asking: Asking) -> Table:
    """The share of questions whose pool holds all gold: what a ranker of that pool can reach at most."""
    columns = [f"pool of {depth}" for depth in DEPTHS]
    table = _table("All gold in the pool with the links that are followed (without)", "set", *columns)
    for name, items in asking.items():
        cells = []
        for depth in DEPTHS:
            search = SearchParams(passages=depth, abstracts=0)
            pools = [ids(replay(item.candidates, search, Params())[0].hits) for item in items]
            ranks = [item.ranks(pool) for item, pool in zip(items, pools, strict=True)]
            # What is followed comes last, after `depth` hits that the search itself found.
            with_links, without = (np.mean([all_gold(item, k) for item in ranks]) for k in (2 * depth, depth))
            cells.append(f"{100 * with_links:.1f} ({100 * without:.1f})")
        table.add_row(name, *cells)
    return table


def transform_table(found: Mapping[tuple[str, str], Sequence[tuple[Question, Ranking]]]) -> Table:
    """What each transform's queries find, ranked with the weights of the other sets. `clear`: the question alone."""
    title = "What each transform finds"
    table = _table(title, "set", "transform", "r@5", "r@10", "r@25", "r@50", "all@5", "all@10", "MRR", "nDCG")
    for (name, transform), items in found.items():
        ranks = [gold_ranks(question, ranking) for question, ranking in items]
        table.add_row(f"{name} ({len(items)})", transform, *scores(ranks), end_section=transform == "hyde")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="left" if column in ("set", "way", "signals", "transform") else "right")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS), help="which sets, commas between")
    parser.add_argument("--questions", type=int, default=250, help="of each set, at most")
    parser.add_argument("--depth", type=int, default=SearchParams().passages, help="of the pool that is ranked")
    parser.add_argument("--seed", type=int, default=0, help="of the sample of questions")
    parser.add_argument("--cache", type=Path, default=Settings().cache / "bench", help="where indexes are kept")
    parser.add_argument("--transforms", type=int, default=0, metavar="N", help="what transforms find, on N questions")
    parser.add_argument("--calls", type=int, default=10_000, help="of the language model in this run, at most")
    parser.add_argument("--fit", action="store_true", help="print the weights fitted on all these sets, and end")
    wanted = parser.parse_args()
    if not DATASETS.is_dir():
        sys.exit(f"The data sets are not in {DATASETS}.")
    encoder, params, console = load_encoder(Settings()), Params(), Console(width=160)
    names = wanted.sets.split(",")
    if len(names) < 2 and not wanted.fit:
        parser.error("name two sets or more: weights are fitted on all but the one that is tested")
    retrievers = {name: Retriever(index_of(name, encoder, wanted.cache), encoder) for name in names}
    asking = {
        name: ask(name, retriever, questions_of(name, wanted.questions, wanted.seed), params, wanted.depth)
        for name, retriever in retrievers.items()
    }
    with threadpool_limits(1):
        if wanted.fit:
            print(json.dumps(fitted([item for items in asking.values() for item in items]).model_dump(), indent=1))
            return
        if wanted.transforms:
            transformed = Transformed(wanted.cache / "transforms.json", Settings(), wanted.calls)
            chosen = {name: [item.question for item in items[: wanted.transforms]] for name, items in asking.items()}
            console.print(transform_table(rankings(retrievers, chosen, on_other_sets(asking), transformed)))
            return
        console.print(main_table(asking, params.rank_without_cross_encoder))
        console.print(signal_table(asking))
        console.print(ceiling_table(asking))


if __name__ == "__main__":
    main()
