"""The state of one question: its trace, its route, and whether the language model still speaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from program.errors import LanguageModelError, OutputError
from program.tracing import Recorder
from program.types import Answer, Citation, Claim, Evidence, Route, contexts_of

T = TypeVar("T")


class Run:
    """One question on its way: its trace, its route, and whether the language model still speaks."""

    def __init__(self, question: str, recorder: Recorder, speaks: bool) -> None:
        self.question = question
        self.recorder = recorder
        self.speaks = speaks
        self.route = Route("single", "clear", "fallback", 0.0)

    def attempt(self, call: Callable[[], T], otherwise: T) -> T:
        """The call's result, or `otherwise` when the language model fails. One that is down is not asked again."""
        if not self.speaks:
            return otherwise
        try:
            return call()
        except LanguageModelError as error:
            self._failed(error)
            return otherwise

    def sentences(self, sentences: Iterator[str]) -> Iterator[str]:
        """The sentences up to where the language model fails, if it does."""
        try:
            yield from sentences
        except LanguageModelError as error:
            self._failed(error)

    def answer(
        self,
        claims: Sequence[Claim],
        citations: Sequence[Citation] = (),
        evidence: Sequence[Evidence] = (),
        refusal: str = "",
    ) -> Answer:
        return Answer(
            question=self.question,
            text=refusal or " ".join(claim.text for claim in claims),
            refused=bool(refusal),
            route=self.route,
            claims=tuple(claims),
            citations=tuple(citations),
            contexts=contexts_of(evidence),
            trace=self.recorder.trace,
            usage=self.recorder.usage,
            seconds=self.recorder.seconds,
            first_token_seconds=self.recorder.first_claim_seconds,
        )

    def _failed(self, error: LanguageModelError) -> None:
        self.speaks = isinstance(error, OutputError)
        self.recorder.note(str(error), error=type(error).__name__)
