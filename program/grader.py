"""Is the evidence enough to answer, and if not, what is missing?

Bars on the compiled ranker's score decide the clear cases for nothing; the language model is asked only in between, and
at every hop, where the question is what to look up next. It reads the best sentences only, so that a grade is cheap.
"""

from __future__ import annotations

from collections.abc import Sequence

import dspy

from program.evidence import render
from program.lm import call
from program.params import Params
from program.signatures import GradeEvidence, NextHop
from program.types import Evidence, Grade

_READ_TOKENS = 150


class Grader(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.grade = dspy.Predict(GradeEvidence)
        self.next_hop = dspy.Predict(NextHop)

    def by_bars(self, scores: Sequence[float], params: Params) -> Grade | None:
        """Grade by the best rank score of each pool; the weakest pool decides. None between the bars."""
        score = min(scores, default=0.0)
        if score >= params.accept_bar:
            return Grade(True, "", "bars", score)
        if score < params.reject_bar:
            return Grade(False, "", "bars", score)
        return None

    def forward(self, question: str, evidence: Sequence[Evidence], score: float) -> Grade:
        """Ask the language model. Raises LanguageModelError."""
        graded = call(self.grade, passages=render(evidence, question, _READ_TOKENS), question=question)
        return Grade(bool(graded.sufficient), _query(graded.missing), "language_model", score)

    def hop(self, question: str, evidence: Sequence[Evidence], score: float) -> Grade:
        """Grade one hop: `missing` is the next question to look up. Raises LanguageModelError."""
        graded = call(self.next_hop, passages=render(evidence, question, _READ_TOKENS), question=question)
        following = _query(graded.next_question)
        return Grade(bool(graded.complete) or not following, following, "language_model", score)


def _query(text: str) -> str:
    return " ".join(text.split())[:300]
