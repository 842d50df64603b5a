"""The fix for each kind of question: what is searched, and what the hits are ranked against.

    clear          the question itself
    vague          Rewrite: a precise wording, and ranked against it; beside it the question
    compound       Decompose: sub-questions, each with its own pool and slots; beside them the question
    broad          MultiQuery: the question and variants, one pool by reciprocal rank fusion
    needs_context  StepBack: the question and a more general one, one pool
    hyde           Hyde: an imagined passage on the dense side, the question's words on the lexical side

Rewrite and MultiQuery read the headings of the library near the question: a model that does not know what the library
is about rewords LoRA as a radio. All raise LanguageModelError when the language model fails; the pipeline then searches
with the question itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import dspy

from program.lm import call
from program.signatures import (
    DecomposeQuestion,
    HypotheticalPassage,
    MakeStandalone,
    RewriteQuestion,
    StepBackQuestion,
    VaryQuestion,
)
from program.types import Hit, Query, Transform, Turn
from program.words import content_words

_LONGEST = 400  # characters of a generated query; more is a model that rambles
READS_HEADINGS = ("vague", "broad")
_HEADINGS = 6  # hits whose headings show what the library is about
_TURNS = 3  # earlier turns a follow-up can refer to
_TURN_LENGTH = 300  # characters of an earlier answer that are read


def refers_back(question: str) -> bool:
    """Whether a question may lean on the conversation: a pronoun, a definite stand-in, or too few words of its own.

    A question that plainly stands alone is not sent to the language model, which could only spoil it; nor is one that
    is too long to be repeated whole.
    """
    if len(question) > _LONGEST:
        return False
    return bool(_LEANS.search(question)) or len(content_words(question)) < 3


def headings_of(hits: Sequence[Hit]) -> str:
    """Where hits stand, as one line of titles and headings; "" when all are of one document.

    They tell which of several subjects a word is of. Within one document there is nothing to tell apart, and its
    headings only pull a question towards what happened to be found.
    """
    near = [hit.chunk for hit in hits[:_HEADINGS]]
    if len({chunk.document for chunk in near}) < 2:
        return ""
    places = (f"{chunk.title}: {chunk.heading}" if chunk.heading else chunk.title for chunk in near)
    return "; ".join(dict.fromkeys(places))[:_LONGEST]


def plain(question: str) -> list[Query]:
    """Search with the question as it is."""
    return [Query(question, against=question)]


def with_question(question: str, queries: Sequence[Query]) -> list[Query]:
    """The queries, and before them the question itself where none of them is ranked against it.

    A rewrite may lose a name, and a sub-question what the others ask; one more search costs milliseconds.
    """
    if any(query.against == question for query in queries):
        return list(queries)
    return [Query(question, against=question, itself=True), *queries]


class Standalone(dspy.Module):
    """Folds the conversation into a follow-up, so that everything after reads one question."""

    def __init__(self) -> None:
        super().__init__()
        self.fold = dspy.Predict(MakeStandalone)

    def forward(self, question: str, history: Sequence[Turn]) -> str:
        turns = [f"Q: {turn.question[:_TURN_LENGTH]}\nA: {turn.answer[:_TURN_LENGTH]}" for turn in history[-_TURNS:]]
        folded = call(self.fold, conversation="\n".join(turns), follow_up=question).question
        return next(iter(_clean([folded], 1)), question)


class Rewrite(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rewrite = dspy.Predict(RewriteQuestion)

    def forward(self, question: str, _limit: int, headings: str) -> list[Query]:
        reworded = call(self.rewrite, headings=headings, question=question).rewritten
        rewritten = _clean([reworded], 1) or [question]
        return [Query(rewritten[0], against=rewritten[0])]


class Decompose(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.decompose = dspy.Predict(DecomposeQuestion)

    def forward(self, question: str, limit: int, _headings: str) -> list[Query]:
        parts = _clean(call(self.decompose, question=question).sub_questions, limit)
        return [Query(part, against=part) for part in parts] or plain(question)


class MultiQuery(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.vary = dspy.Predict(VaryQuestion)

    def forward(self, question: str, limit: int, headings: str) -> list[Query]:
        variants = _clean(call(self.vary, headings=headings, question=question).variants, limit)
        return [Query(text, against=question) for text in dict.fromkeys([question, *variants])]


class StepBack(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step_back = dspy.Predict(StepBackQuestion)

    def forward(self, question: str, _limit: int, _headings: str) -> list[Query]:
        general = _clean([call(self.step_back, question=question).general_question], 1)
        return [Query(text, against=question) for text in dict.fromkeys([question, *general])]


class Hyde(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.imagine = dspy.Predict(HypotheticalPassage)

    def forward(self, question: str, _limit: int, _headings: str) -> list[Query]:
        passage = call(self.imagine, question=question).passage.strip()
        return [Query(question, against=question, dense=passage[: 3 * _LONGEST] or None)]


class Transforms(dspy.Module):
    """All transforms behind one call, by the route's name for them."""

    def __init__(self) -> None:
        super().__init__()
        self.vague = Rewrite()
        self.compound = Decompose()
        self.broad = MultiQuery()
        self.needs_context = StepBack()
        self.hyde = Hyde()

    def forward(self, transform: Transform, question: str, limit: int, headings: str) -> list[Query]:
        """Queries for a question. headings: what the library has near it, as `headings_of` gives them."""
        if transform == "clear":
            return plain(question)
        return with_question(question, getattr(self, transform)(question, limit, headings))


_LEANS = re.compile(
    r"\b(it|its|they|them|their|theirs|he|she|him|his|her|this|that|these|those|there|one|ones|same|another|else"
    r"|instead|former|latter|above|previous|you said|both|such)\b"
    r"|^\s*(and|but|so|or|also|what about|how about|why|when|where)\b[^?]{0,25}\??\s*$"
    r"|^\s*(and|but|so|what about|how about)\b"
    r"|\bthe (paper|model|models|authors?|method|article|work|study|first|second|larger|smaller|other|others)\b",
    re.IGNORECASE,
)


def _clean(texts: Iterable[str], limit: int) -> list[str]:
    """Generated queries as one line each, without blanks, repeats and rambling; at most `limit`."""
    lines = (" ".join(str(text).split())[:_LONGEST] for text in texts)
    return list(dict.fromkeys(line for line in lines if line))[:limit]
