"""For labelled questions, where the gold is lost: by naive retrieval, in the pool, in the evidence, in the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimize.evaluate import CHUNKS, TOKENS, all_found, is_right, observe
from optimize.labels import QuestionLabel
from program.pipeline import AdaptiveRAG
from program.retrieval.retriever import Retriever
from program.tokens import count_tokens
from program.types import Answer

NAIVE = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether all gold quotes of a question were found at each station, and whether its answer is right.

    For a question that cannot be answered there is no gold to find, and the right answer is a refusal.
    """

    question: str
    naive: bool
    pool: bool
    evidence: bool
    answer: bool


def compare(program: AdaptiveRAG, label: QuestionLabel) -> Comparison:
    """Ask one question and look for its gold."""
    _, answer, seen = observe(program, label)
    pool = [hit.chunk.text for retrieval in seen for one in retrieval.pools for hit in one.hits]
    return Comparison(
        question=label.question,
        naive=all_found(label, naive(program.retriever, label.question)),
        pool=all_found(label, pool),
        evidence=all_found(label, final_evidence(answer)),
        answer=is_right(label, answer) if label.answerable else answer.refused,
    )


def naive(retriever: Retriever, question: str) -> list[str]:
    """What plain retrieval gives: the NAIVE chunks nearest to the question as typed, by their vectors alone."""
    vector = retriever.encoder.encode([question])[0]
    hits = retriever.index.search(question, vector, k=NAIVE, alpha=1.0, fusion="ranked")
    return [hit.chunk.text for hit in hits]


def final_evidence(answer: Answer) -> list[str]:
    """The passages handed over for the answer, as whole sentences: the first CHUNKS, and of those what fits TOKENS."""
    kept, left = [], TOKENS
    for text in answer.contexts[:CHUNKS]:
        left -= count_tokens(text)
        if left < 0:
            break
        kept.append(text)
    return kept


def totals(comparisons: Sequence[Comparison]) -> str:
    """One line that sums up."""
    n = len(comparisons)
    counts = {
        "naive": sum(c.naive for c in comparisons),
        "pool": sum(c.pool for c in comparisons),
        "evidence": sum(c.evidence for c in comparisons),
        "answer": sum(c.answer for c in comparisons),
    }
    return ", ".join(f"{name} {count} of {n}" for name, count in counts.items())
