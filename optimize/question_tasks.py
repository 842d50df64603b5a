"""Tasks of the predictors that read a question only: the router, the transforms, the calculator, the greeting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy

from optimize.gold import evidence_of, gold_ranks, quotes_in_evidence
from optimize.labels import QuestionLabel, RoutingLabel
from optimize.metrics import answer_is_right, reciprocal_rank
from optimize.task import LONG_QUESTION, Source, Task, probed
from program import tools
from program.errors import QuestionError
from program.router import hint
from program.sentences import split_sentences
from program.tokens import count_tokens
from program.types import Query

RETRIEVAL_SHARE = 0.9  # of a transform's score; the rest is the rank of the gold
SHORT_QUESTION = 20  # tokens of a routing example at most: the router's static prompt holds ten
GREETINGS_TRAIN, GREETINGS_VAL, GREETING_WORDS = 2, 4, 40
PREDICTORS = {
    "vague": "rewrite",
    "compound": "decompose",
    "broad": "vary",
    "needs_context": "step_back",
    "hyde": "imagine",
}


def question_tasks(source: Source) -> list[Task]:
    """The tasks that the labels allow. Inside a session of the language model."""
    return [_router(source), *_transforms(source), *_standalone(source), *_calculation(source), _reply(source)]


def _router(source: Source) -> Task:
    def example(label: RoutingLabel) -> dspy.Example:
        given = {"question": label.question, "hint": hint(source.odds[label.id])}
        return dspy.Example(**given, label=label.label).with_inputs(*given)

    def metric(example: dspy.Example, prediction: dspy.Prediction) -> float:
        return float(example.label == prediction.label)

    known = [label for label in source.labels.routing if label.id in source.odds]
    train = [example(x) for x in known if x.part == "train" and count_tokens(x.question) <= SHORT_QUESTION]
    # What the head is least sure of is what the language model will be asked.
    unsure = sorted((x for x in known if x.part == "dev"), key=lambda x: source.odds[x.id][0][1])
    val = [example(x) for x in unsure[: source.sizes.router_val]]
    return Task("router.decide", metric, train, val, labelled=True)


def _transforms(source: Source) -> list[Task]:
    made = []
    for transform, predictor in PREDICTORS.items():
        if transform == "hyde" and not source.program.params.hyde:
            continue
        chosen = [x for x in source.with_gold if x.label == (transform if transform != "hyde" else "clear")]
        if chosen:
            made.append(_retrieval_task(source, f"transforms.{transform}.{predictor}", chosen))
    return made


def _standalone(source: Source) -> list[Task]:
    chosen = [label for label in source.with_gold if label.history]
    return [_retrieval_task(source, "standalone.fold", chosen)] if chosen else []


def _retrieval_task(source: Source, name: str, chosen: Sequence[QuestionLabel]) -> Task:
    """A predictor that writes queries is scored by the gold that they find."""
    program, by_id = source.program, {label.id: label for label in chosen}
    folding = name == "standalone.fold"

    def module_input(label: QuestionLabel) -> tuple[Any, ...]:
        if folding:
            return label.question, label.turns
        asked = source.asked[label.id]
        return asked, program.params.max_queries, program.headings(asked)

    def example(label: QuestionLabel) -> dspy.Example:
        module, probe = probed(program, name)
        module(*module_input(label))
        return dspy.Example(id=label.id, **probe.given).with_inputs(*probe.given)

    def metric(example: dspy.Example, prediction: dspy.Prediction) -> float:
        label = by_id[example.id]
        made = probed(program, name, prediction)[0](*module_input(label))
        queries = [Query(made, against=made)] if folding else made
        question = made if folding else source.asked[label.id]
        found = program.retriever.retrieve(queries, program.params.search_for(label.transform), program.params)
        held = quotes_in_evidence(evidence_of(program, label, question, found), label)
        rank = reciprocal_rank(gold_ranks(found.hits, label))
        return RETRIEVAL_SHARE * len(held) / len(label.quotes) + (1 - RETRIEVAL_SHARE) * rank

    train, val = split(chosen, source)
    return Task(name, metric, [example(x) for x in train], [example(x) for x in val])


def _calculation(source: Source) -> list[Task]:
    chosen = [x for x in source.labels.questions if x.strategy == "math" and x.answerable and x.part != "test"]
    by_id = {label.id: label for label in chosen}

    def metric(example: dspy.Example, prediction: dspy.Prediction) -> float:
        try:
            return float(answer_is_right(tools.calculate(str(prediction.expression)).text, by_id[example.id].answers))
        except QuestionError:
            return 0.0

    def example(label: QuestionLabel) -> dspy.Example:
        return dspy.Example(id=label.id, question=source.asked[label.id]).with_inputs("question")

    train, val = split(chosen, source)
    return [Task("calculation", metric, [example(x) for x in train], [example(x) for x in val])] if val else []


def _reply(source: Source) -> Task:
    """Greetings have no gold: a good reply is one or two short sentences without figures and without marks."""

    def metric(_: dspy.Example, prediction: dspy.Prediction) -> float:
        text = str(prediction.reply or "")
        brief = 0 < len(split_sentences(text)) <= 2 and len(text.split()) <= GREETING_WORDS
        return 0.5 * brief + 0.5 * (not any(character.isdigit() or character in "[]{}" for character in text))

    chosen = [x for x in source.labels.routing if x.strategy == "no_retrieval" and not x.history]
    examples = {
        part: [dspy.Example(message=x.question).with_inputs("message") for x in chosen if x.part == part]
        for part in ("train", "dev")
    }
    train = examples["train"][: min(source.sizes.train, GREETINGS_TRAIN)]
    val = examples["dev"][: min(source.sizes.val, GREETINGS_VAL)]
    return Task("synthesizer.reply", metric, train, val, threshold=1.0)


def split(chosen: Sequence[QuestionLabel], source: Source) -> tuple[list[QuestionLabel], list[QuestionLabel]]:
    """Train questions for demonstrations; to choose by, dev and then train: an example's own demonstration is hidden
    from it (see `compile.Student`), and one or two dev questions alone would choose by chance."""
    train = [x for x in chosen if x.part == "train"]
    val = [x for x in chosen if x.part == "dev"] + train
    short = [x for x in train if count_tokens(x.question) <= LONG_QUESTION]
    return short[: source.sizes.train], val[: source.sizes.val]
