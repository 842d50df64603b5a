"""Writes the answer from numbered evidence, in plain text, sentence by sentence as the language model speaks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing

import dspy

from program.errors import LanguageModelError
from program.evidence import render
from program.lm import stream_text
from program.sentences import split_sentences
from program.signatures import CANNOT_ANSWER, AnswerFromEvidence, ReplyWithoutEvidence
from program.types import Evidence

_LONGEST = 8  # sentences; a small model that goes on after that repeats itself
_MARKS_SO_FAR = re.compile(r"\s*(?:\[[\d,;\s–-]*\]\s*)*(?:\[[\d,;\s–-]*)?")


class Synthesizer(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.Predict(AnswerFromEvidence)
        self.reply = dspy.Predict(ReplyWithoutEvidence)

    def write(self, question: str, evidence: Sequence[Evidence]) -> Iterator[str]:
        """Sentences of the answer with the model's own `[n]` marks, each as soon as it is whole.

        Ends at once, with nothing more, when the model says that it cannot answer. Closing the iterator stops the
        model. Raises LanguageModelError.
        """
        with closing(stream_text(self.answer, passages=render(evidence), question=question)) as deltas:
            yield from _until_refusal(_sentences(deltas))

    def greet(self, message: str) -> Iterator[str]:
        """Sentences of a reply that needs no document. Raises LanguageModelError."""
        with closing(stream_text(self.reply, message=message)) as deltas:
            yield from _sentences(deltas)


def is_refusal(sentence: str) -> bool:
    """Whether the model wrote the one sentinel for "cannot answer", however it spelt it."""
    return re.sub(r"[^a-z]+", " ", sentence.casefold()).strip() in (CANNOT_ANSWER.casefold(), "can not answer")


def _until_refusal(sentences: Iterator[str]) -> Iterator[str]:
    for sentence in sentences:
        if is_refusal(sentence):
            return
        yield sentence


def _sentences(deltas: Iterator[str]) -> Iterator[str]:
    """Whole sentences from text deltas. A sentence is whole when the next has begun: its marks may follow its stop."""
    buffer, said = "", 0
    seen: set[str] = set()
    ended = False
    while not ended:
        delta = next(deltas, None)
        ended = delta is None
        buffer += delta or ""
        if not ended and not (delta or "").strip():
            continue
        parts = split_sentences(buffer)
        whole = parts if ended else parts[:-1]
        if whole and not ended and _MARKS_SO_FAR.fullmatch(buffer[whole[-1].end :]):
            continue
        for part in whole:
            if part.text in seen or said == _LONGEST:
                return
            seen.add(part.text)
            said += 1
            yield part.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if whole:
            buffer = buffer[whole[-1].end :]
    if not said:
        raise LanguageModelError("The language model wrote nothing.")
