"""One conversation of one browser tab: its exchanges, and how each is shown while it happens and once it is done."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import gradio as gr

from program.types import Answer, Claim, Event, Turn
from ui import rendering


@dataclass
class Exchange:
    """A question and what came of it so far. It ends with an answer, with a problem, or by being stopped."""

    question: str
    uid: str = field(default_factory=lambda: secrets.token_hex(4))  # keeps this exchange's anchors apart on the page
    started: bool = False
    waiting_for: str = "Waiting for its turn"
    events: list[Event] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    answer: Answer | None = None
    problem: str = ""
    stopped: bool = False

    @property
    def finished(self) -> bool:
        return self.answer is not None or bool(self.problem) or self.stopped

    def take(self, item: Event | Claim | Answer) -> None:
        """One item of `AdaptiveRAG.stream`."""
        if isinstance(item, Event):
            self.events.append(item)
            self.waiting_for = rendering.NEXT_ACTIVITY.get(item.step, self.waiting_for)
        elif isinstance(item, Claim):
            self.claims.append(item)
        else:
            self.answer = item

    def messages(self) -> list[gr.ChatMessage]:
        """The question, how it is or was answered, and the answer as far as there is one."""
        shown = [gr.ChatMessage(rendering.question(self.question), role="user")]
        if self.events or not self.finished:
            shown.append(self._steps())
        if self.problem:
            shown.append(gr.ChatMessage(rendering.problem(self.problem)))
        elif self.answer:
            shown.append(gr.ChatMessage(rendering.answer(self.answer, self.uid)))
        elif self.stopped:
            shown.append(gr.ChatMessage(rendering.stopped(self.claims)))
        elif self.claims:
            shown.append(gr.ChatMessage(rendering.claims_so_far(self.claims)))
        return shown

    def turn(self) -> Turn | None:
        """What later questions may refer to."""
        return Turn(self.question, rendering.plain(self.answer)) if self.answer else None

    def _steps(self) -> gr.ChatMessage:
        if not self.finished:
            metadata = {"title": self.waiting_for, "status": "pending"}
        elif self.answer:
            spent = rendering.cost(self.answer.usage, self.answer.seconds)
            metadata = {"title": "How this was answered", "status": "done", "log": spent}
        else:
            metadata = {"title": "What was done", "status": "done"}
        return gr.ChatMessage(rendering.steps(self.events), metadata=metadata)


def messages(exchanges: Sequence[Exchange]) -> list[gr.ChatMessage]:
    return [message for exchange in exchanges for message in exchange.messages()]


def history(exchanges: Sequence[Exchange]) -> list[Turn]:
    """The earlier turns of a conversation, oldest first."""
    return [turn for exchange in exchanges if (turn := exchange.turn()) is not None]
