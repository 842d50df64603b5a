"""Programs against each other on labelled questions, every answer asked once and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optimize import evaluate
from optimize.journal import Journal, fingerprint
from optimize.labels import QuestionLabel
from optimize.progress import Stages
from program.artifact import state_of
from program.pipeline import AdaptiveRAG

EVIDENCE_SHARE = 0.1  # of the dev score; the rest is right answers and due refusals
CALL_COST = 0.002  # what a language-model call takes off the dev score


@dataclass(frozen=True, slots=True)
class Rivals:
    """Asks programs the same questions. speaks: whether there is a language model, which is then warmed up first, so
    that seconds are those of a served program."""

    journal: Journal
    stages: Stages
    speaks: bool

    def ask(self, program: AdaptiveRAG, labels: Sequence[QuestionLabel], what: str) -> list[evaluate.Record]:
        """Records of a program's answers. All it is made of is in their key, so that a rerun asks only what is new."""
        made, warm, records = identity(program), not self.speaks, []
        with self.stages.stage(f"Asking: {what}", len(labels)) as step:
            for label in labels:

                def work(label: QuestionLabel = label) -> dict[str, Any]:
                    nonlocal warm
                    if not warm:
                        program.warm_up()
                        warm = True
                    return evaluate.to_json([evaluate.observe(program, label)[0]])[0]

                records += evaluate.from_json([self.journal.once("record", [made, label.model_dump()], work)])
                step()
        return records


def identity(program: AdaptiveRAG) -> str:
    """Stands for everything an answer depends on, but the models, which the journal knows."""
    head = program.head
    return fingerprint(
        [
            state_of(program),
            program.params.model_dump(),
            [list(head.labels), head.weights.tolist(), head.bias.tolist()] if head else None,
            library_of(program),
        ]
    )


def library_of(program: AdaptiveRAG) -> str:
    """Stands for the documents that are asked."""
    return fingerprint([[document.name, document.sha256] for document in program.retriever.index.documents()])


def dev_score(records: Sequence[evaluate.Record]) -> float:
    """What is chosen by: right answers and due refusals, a little for gold in the evidence, less for each call."""
    if not records:
        return 0.0
    right = sum(record.right for record in records) / len(records)
    gold = [record.all_gold for record in records if record.all_gold is not None]
    evidence = sum(gold) / len(gold) if gold else 0.0
    calls = sum(record.calls for record in records) / len(records)
    return round((1 - EVIDENCE_SHARE) * right + EVIDENCE_SHARE * evidence - CALL_COST * calls, 4)
