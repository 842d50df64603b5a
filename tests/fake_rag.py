"""A scripted program for the chat's tests: real events, claims and answers, no model, a pause where one would think.

`python -m tests.fake_rag SECONDS` serves the chat over it, to look at.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from program.errors import LanguageModelError, QuestionError
from program.types import Answer, Citation, Claim, Event, Route, Trace, Turn, Usage
from ui import chat
from ui.backend import Backend, Loaded, Report

PASSAGE = (
    "Regularization came from residual dropout, at a rate of 0.1 in the base model, and from label smoothing of 0.1. "
    "The base Transformer took 100,000 steps of about 0.4 seconds each, or twelve hours."
)
HOSTILE = '<script>alert(1)</script> <img src=x onerror="alert(2)"> [x](javascript:alert(3)) ![](http://example.invalid/x.png)'
CLEAR = Route("single", "clear", "head", 0.93)


class FakeRag:
    """Answers by what the question holds: "dropout" is cited, "hostile" is quoted markup, "unsupported", "fallback" and
    "missing" (a refusal) are what they say, "broken" raises a ProgramError, "crash" anything else. Other text is
    greeted. `pause` is the time of one step in seconds."""

    def __init__(self, pause: float = 0.0) -> None:
        self.pause = pause
        self.histories: list[list[Turn]] = []
        self.closed = 0

    def __call__(self, question: str, history: Sequence[Turn] = ()) -> Answer:
        *_, last = self.stream(question, history)
        assert isinstance(last, Answer)
        return last

    def warm_up(self, report: Report) -> None:
        for done in range(1, 5):
            time.sleep(self.pause)
            report(done, 4, "Warming up the language model")

    def stream(self, question: str, history: Sequence[Turn] = ()) -> Iterator[Event | Claim | Answer]:
        if not question.strip():
            raise QuestionError("The question is empty.", "Type a question about the documents.")
        self.histories.append(list(history))
        events: list[Event] = []
        answer = self._answer(question)
        try:
            for event in self._events(question, answer):
                time.sleep(self.pause)
                events.append(event)
                yield event
            if "broken" in question:
                raise LanguageModelError("The language model did not answer.", "Check RAG_LM_URL and ask again.")
            if "crash" in question:
                raise ZeroDivisionError("a secret detail")
            for claim in answer.claims:
                time.sleep(self.pause)
                yield claim
            time.sleep(self.pause)
            yield replace(answer, trace=Trace(tuple(events)))
        finally:
            self.closed += 1

    def _events(self, question: str, answer: Answer) -> Iterator[Event]:
        odds = {"clear": 0.93, "broad": 0.04, "vague": 0.01}
        yield Event(
            "route",
            "A clear question; decided by the router (93% sure)",
            {"confidence": 0.93, "odds": odds},
            seconds=0.02,
        )
        hits = [
            {"document": f"paper-{n}", "title": "Attention Is All You Need", "score": 0.9 / n} for n in range(1, 16)
        ]
        yield Event("retrieve", "30 passages found for 1 query", {"queries": [question], "pool": hits}, seconds=0.06)
        yield Event("rank", "Kept 6, top score 0.88 (Attention Is All You Need)", {"hits": hits[:6]}, seconds=0.03)
        yield Event("grade", "Enough (clear from the scores, best score 0.88)", {"sufficient": True, "missing": ""})
        if "fallback" in question:
            yield Event("note", "The language model did not answer, so these are quoted passages.")
        summary = f"{len(answer.claims)} sentences supported"
        yield Event("synthesize", summary, usage=answer.usage, seconds=4.2)

    def _answer(self, question: str) -> Answer:
        usage = Usage(calls=1, prompt_tokens=598, cached_tokens=210, completion_tokens=44)
        base = Answer(question, "", False, CLEAR, usage=usage, seconds=4.4, first_token_seconds=3.1)
        if "missing" in question:
            text = "I could not find the answer to this in the library. What is missing: the price of the cluster."
            return replace(base, text=text, refused=True)
        if "hostile" in question:
            claims: tuple[Claim, ...] = (Claim(f"The document says {HOSTILE} [1]", (1,), 0.9, "quoted"),)
            source = Citation(1, HOSTILE, HOSTILE, HOSTILE, None, 0, len(HOSTILE), 0.9, passage=f"{HOSTILE} **bold**")
            return replace(base, text=claims[0].text, claims=claims, citations=(source,))
        if not any(word in question for word in ("dropout", "unsupported", "fallback", "long")):
            hello = "Hello! Ask me anything about the documents in the library."
            claims = (Claim(hello, (), 1.0, "plain"),)
            return replace(base, text=hello, claims=claims, route=Route("no_retrieval", "clear", "head", 0.99))
        claims = (
            Claim("The base Transformer uses residual dropout at a rate of 0.1. [1]", (1,), 0.94, "supported"),
            Claim("It trained for 100,000 steps, or twelve hours. [2]", (2,), 0.88, "supported"),
        )
        if "unsupported" in question:
            claims += (Claim("It was later replaced everywhere.", (), 0.2, "unsupported"),)
        if "long" in question:
            claims *= 4
        return replace(base, text=" ".join(c.text for c in claims), claims=claims, citations=_citations())


def _citations() -> tuple[Citation, ...]:
    first, second = PASSAGE.split(". ", 1)
    quotes = (f"{first}.", second)
    return tuple(
        Citation(
            n, quote, "attention-is-all-you-need.md", "Attention Is All You Need", page, start := PASSAGE.index(quote),
            start + len(quote), 0.94 - 0.06 * (n - 1), passage=PASSAGE, heading=heading,
        )
        for n, quote, page, heading in ((1, quotes[0], None, "Training"), (2, quotes[1], 7, ""))
    )  # fmt: skip


def load(report: Report, pause: float = 0.0, rag: FakeRag | None = None) -> Loaded:
    """What the chat would load, with the progress it would report."""
    for done in range(1, 17):
        time.sleep(pause / 4)
        report(done, 16, "Reading the demo library")
    rag = rag or FakeRag(pause)
    return Loaded(rag, "scripted program, 16 documents", demo=True, warm_up=rag.warm_up)


@contextmanager
def served(pause: float) -> Iterator[str]:
    """The address of a chat over the scripted program, in a process of its own."""
    command = [sys.executable, "-m", "tests.fake_rag", str(pause)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def main(pause: float) -> None:
    """Serve the chat over the scripted program, and print its address."""
    backend = Backend(lambda report: load(report, pause))
    page = chat.build(backend)
    print(chat.launch(page, host="127.0.0.1"), flush=True)
    backend.start()
    page.block_thread()


if __name__ == "__main__":
    main(float(sys.argv[1]))
