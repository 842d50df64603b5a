"""Measures two stations of the program on their own, on labelled questions: how it routes, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optimize.gold import gold_ranks
from optimize.head import head_odds, standing_alone
from optimize.labels import QuestionLabel, RoutingLabel
from optimize.metrics import all_gold, macro_f1, recall_at_k
from program.lm import session
from program.pipeline import AdaptiveRAG
from program.transforms import refers_back
from program.types import ROUTE_LABELS, Hit, Query

Step = Callable[[], None]
RECALL_AT, ALL_GOLD_AT = 5, 10
WAYS = ("dense", "question", "transform")


@dataclass(frozen=True, slots=True)
class Routing:
    """Gold and given classes of the same questions, by who decided."""

    gold: tuple[str, ...]
    given: Mapping[str, tuple[str, ...]]

    def rows(self) -> list[tuple[str, ...]]:
        """Accuracy and macro F1, then the F1 of each class; a column for each who decided."""
        scores = [
            ("accuracy", *(_figure(_accuracy(self.gold, given)) for given in self.given.values())),
            ("macro F1", *(_figure(macro_f1(self.gold, given)) for given in self.given.values())),
        ]
        for name in ROUTE_LABELS:
            n = self.gold.count(name)
            if n:
                scores.append((f"F1 of {name} ({n})", *(_figure(_f1(self.gold, g, name)) for g in self.given.values())))
        return scores


@dataclass(frozen=True, slots=True)
class Found:
    """Ranks of one question's gold, by the way it was searched for."""

    label: QuestionLabel
    ranks: Mapping[str, Sequence[int]]


def routing(program: AdaptiveRAG, labels: Sequence[RoutingLabel], step: Step = lambda: None) -> Routing:
    """How the head, the language model (told the head's view, as always) and the program (head first, the language
    model under the bar) route the questions that stand alone. Without a language model, the head alone.

    Raises LanguageModelError when the language model is gone.
    """
    labels = standing_alone(labels)
    given: dict[str, list[str]] = {}
    by_head = head_odds(program.head, labels, program.retriever.encoder) if program.head else {}
    if by_head:
        given["head"] = [by_head[label.id][0][0] for label in labels]
    if program.speaks:
        given["language model"] = asked = []
        with session(program.language_model()):
            for label in labels:
                odds = by_head.get(label.id) or program.router.by_head(None, label.question, np.zeros(0, np.float32))
                asked.append(program.router(label.question, odds).label)
                step()
    if {"head", "language model"} <= set(given):
        sure = [by_head[label.id][0][1] >= program.params.router_bar for label in labels]
        pairs = zip(sure, given["head"], given["language model"], strict=True)
        given["program"] = [head if is_sure else model for is_sure, head, model in pairs]
    return Routing(tuple(label.label for label in labels), {who: tuple(classes) for who, classes in given.items()})


def retrieval(program: AdaptiveRAG, labels: Sequence[QuestionLabel], step: Step = lambda: None) -> list[Found]:
    """Where the gold of answerable questions ranks: by nearness alone (`dense`), by the program's search and ranking
    with the question as it stands (`question`), and with the queries that its labelled transform makes (`transform`).

    History is folded in for all three. Multi-hop questions are searched once, so their second hop counts as missed.
    """
    found = []
    for label in (label for label in labels if label.quotes):
        asked, queries = _queries(program, label)
        search = program.params.search_for(label.transform)
        ways = {"question": [Query(asked, asked)], "transform": queries}
        hits: dict[str, Sequence[Hit]] = {
            way: program.retriever.retrieve(made, search, program.params).hits for way, made in ways.items()
        }
        hits |= {"dense": _nearest(program, asked)}
        found.append(Found(label, {way: gold_ranks(hits[way], label) for way in WAYS}))
        step()
    return found


def retrieval_rows(found: Sequence[Found]) -> list[tuple[str, ...]]:
    """For every class and for all: n, then recall@5 and all-gold@10 of each way of searching."""
    rows = []
    for name in (*ROUTE_LABELS, "all"):
        group = [item for item in found if name in ("all", item.label.label)]
        if group:
            cells = [
                f"{np.mean([recall_at_k(item.ranks[way], RECALL_AT) for item in group]):.2f} / "
                f"{np.mean([all_gold(item.ranks[way], ALL_GOLD_AT) for item in group]):.2f}"
                for way in WAYS
            ]
            rows.append((name, str(len(group)), *cells))
    return rows


def _queries(program: AdaptiveRAG, label: QuestionLabel) -> tuple[str, list[Query]]:
    asked = label.question
    if not program.speaks:
        return asked, [Query(asked, asked)]
    with session(program.language_model()):
        if label.history and refers_back(asked):
            asked = program.standalone(asked, label.turns)
        headings = program.headings(asked)
        return asked, program.transforms(label.transform, asked, program.params.max_queries, headings)


def _nearest(program: AdaptiveRAG, asked: str) -> Sequence[Hit]:
    vector = program.retriever.encoder.encode([asked])[0]
    return program.retriever.index.search(asked, vector, k=ALL_GOLD_AT, alpha=1.0, fusion="ranked")


def _accuracy(gold: Sequence[str], given: Sequence[str]) -> float:
    return float(np.mean([a == b for a, b in zip(gold, given, strict=True)])) if gold else 0.0


def _f1(gold: Sequence[str], given: Sequence[str], name: str) -> float:
    hit = sum(g == p == name for g, p in zip(gold, given, strict=True))
    return 2 * hit / max(list(gold).count(name) + list(given).count(name), 1)


def _figure(value: float) -> str:
    return f"{value:.2f}"
