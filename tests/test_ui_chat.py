"""The chat's handlers, and the served page seen through its HTTP interface."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import gradio as gr
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from program.errors import ProgramError
from program.types import Event, Turn
from tests.fake_rag import FakeRag, load, served
from ui import chat
from ui.backend import Backend
from ui.conversation import Exchange


@pytest.fixture
def rag() -> FakeRag:
    return FakeRag()


@pytest.fixture
def handlers(rag: FakeRag) -> chat.Handlers:
    backend = Backend(lambda report: load(report, rag=rag))
    backend.start()
    backend.program()
    return chat.Handlers(backend)


def converse(handlers: chat.Handlers, question: str, exchanges: list[Exchange]) -> list[Any]:
    """Ask in the chat; everything it showed, in order."""
    shown, _, after = handlers.begin(question, exchanges)
    exchanges[:] = after
    return [shown, *(update[0] for update in handlers.respond(exchanges))]


def contents(messages: list[gr.ChatMessage]) -> str:
    return " ".join(str(message.content) for message in messages)


def test_steps_come_before_sentences_and_sentences_before_sources(handlers: chat.Handlers) -> None:
    shown = [contents(messages) for messages in converse(handlers, "dropout?", [])]
    firsts = [
        next(i for i, text in enumerate(shown) if part in text)
        for part in ("question", ">Route<", ">Evidence<", "rate of 0&#46;1", "twelve hours", 'class="sources"')
    ]
    assert firsts == sorted(firsts)
    assert len(set(firsts)) == len(firsts)


def test_steps_are_open_while_working_and_folded_when_done(handlers: chat.Handlers) -> None:
    shown = converse(handlers, "dropout?", [])
    states = [messages[1].metadata["status"] for messages in shown]
    assert set(states[:-1]) == {"pending"}
    assert states[-1] == "done"
    assert shown[-1][1].metadata["log"] == "1 call · 642 tokens · 4.4 s"


def test_a_follow_up_gets_the_plain_history_of_this_conversation_only(handlers: chat.Handlers, rag: FakeRag) -> None:
    mine: list[Exchange] = []
    converse(handlers, "dropout?", mine)
    converse(handlers, "hello", [])
    converse(handlers, "and why?", mine)
    assert rag.histories[0] == []
    assert rag.histories[1] == []
    (turn,) = rag.histories[2]
    assert isinstance(turn, Turn)
    assert turn.question == "dropout?"
    assert "[" not in turn.answer
    assert "<" not in turn.answer


def test_an_empty_question_gets_a_gentle_word(handlers: chat.Handlers, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(gr, "Info", said.append)
    _, _, exchanges = handlers.begin("  \n ", [])
    assert exchanges == []
    assert said == ["Type a question first."]


def test_a_second_question_waits_for_the_first(handlers: chat.Handlers, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(gr, "Info", said.append)
    _, _, exchanges = handlers.begin("first", [])
    _, _, after = handlers.begin("second", exchanges)
    assert len(after) == 1
    assert said


def test_a_program_error_is_shown_with_its_hint(handlers: chat.Handlers) -> None:
    last = converse(handlers, "broken", [])[-1]
    assert "Check RAG&#95;LM&#95;URL and ask again&#46;" in contents(last)


def test_an_unexpected_error_is_logged_and_not_shown(handlers: chat.Handlers, caplog: pytest.LogCaptureFixture) -> None:
    exchanges: list[Exchange] = []
    with caplog.at_level(logging.ERROR):
        last = converse(handlers, "crash", exchanges)[-1]
    assert "secret" not in contents(last)
    assert "server&#39;s log" in contents(last)
    assert "a secret detail" in caplog.text
    assert exchanges[-1].finished


def test_after_a_problem_the_next_question_is_answered(handlers: chat.Handlers, rag: FakeRag) -> None:
    exchanges: list[Exchange] = []
    converse(handlers, "crash", exchanges)
    last = converse(handlers, "dropout?", exchanges)[-1]
    assert "twelve hours" in contents(last)
    assert rag.histories[-1] == []  # what failed is no part of the history


def test_closing_the_handler_closes_the_programs_stream(handlers: chat.Handlers, rag: FakeRag) -> None:
    _, _, exchanges = handlers.begin("dropout?", [])
    running = handlers.respond(exchanges)
    while not exchanges[0].events:
        next(running)
    running.close()
    assert rag.closed == 1
    shown, _, _ = handlers.stop(exchanges)
    assert "Stopped" in contents(shown)


def test_a_question_waits_for_loading_and_shows_what_for(rag: FakeRag) -> None:
    backend = Backend(lambda report: load(report, pause=0.02, rag=rag))
    on = chat.Handlers(backend)
    _, _, exchanges = on.begin("dropout?", [])
    titles = [update[0][1].metadata["title"] for update in on.respond(exchanges)]
    assert any("Reading the demo library" in title for title in titles)
    assert exchanges[-1].answer is not None


def test_a_loading_failure_is_the_answer_and_asking_again_tries_again(rag: FakeRag) -> None:
    failures = [ProgramError("There is no compiled program.", "Make one.")]

    def flaky(report: Any) -> Any:
        if failures:
            raise failures.pop()
        return load(report, rag=rag)

    on = chat.Handlers(Backend(flaky))
    exchanges: list[Exchange] = []
    assert "no compiled program" in contents(converse(on, "dropout?", exchanges)[-1])
    assert "twelve hours" in contents(converse(on, "dropout?", exchanges)[-1])


def test_a_full_queue_is_said_in_words(handlers: chat.Handlers) -> None:
    _, _, exchanges = handlers.begin("dropout?", [])
    shown, _, _ = handlers.give_up(exchanges)
    assert "Too many questions" in contents(shown)
    assert exchanges[-1].finished


def test_examples_come_with_the_library_they_are_about(rag: FakeRag) -> None:
    backend = Backend(lambda report: load(report, rag=rag))
    on = chat.Handlers(backend)
    assert on.look(False)[1] == gr.skip()
    backend.start()
    backend.program()
    status, page, clock, known = on.look(False)
    assert "Ready" in status
    assert [example["text"] for example in page.examples] == list(chat.DEMO_EXAMPLES)
    assert clock.active is False
    assert on.look(known)[1] == gr.skip()


def test_a_later_events_activity_is_the_title() -> None:
    exchange = Exchange("q")
    exchange.take(Event("rank", "Kept 6"))
    assert exchange.messages()[1].metadata["title"] == "Checking whether the passages are enough"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(0.0) as address:
        connected = Client(address, verbose=False)
        yield connected
        connected.close()


def test_the_http_interface_gives_the_whole_answer(client: Client) -> None:
    answer = client.predict("What dropout?", api_name="/chat")
    assert answer["refused"] is False
    assert answer["citations"][0]["quote"].startswith("Regularization came")
    assert {"text", "route", "contexts", "calls", "tokens", "seconds", "trace"} <= set(answer)


def test_the_http_interface_tells_what_went_wrong(client: Client) -> None:
    with pytest.raises(AppError, match="The question is empty"):
        client.predict("", api_name="/chat")
    with pytest.raises(AppError) as caught:
        client.predict("crash", api_name="/chat")
    assert "secret" not in str(caught.value)


def test_only_the_one_endpoint_is_public(client: Client) -> None:
    described = client.view_api(return_format="dict")
    assert list(described["named_endpoints"]) == ["/chat"]
    assert described["unnamed_endpoints"] == {}


def test_a_taken_port_is_said_in_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [sys.executable, "-m", "ui", "--port", str(taken.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Choose another --port" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_every_option() -> None:
    shown = subprocess.run([sys.executable, "-m", "ui", "--help"], capture_output=True, text=True, check=True).stdout
    assert all(option in shown for option in ("--port", "--host", "--index", "--artifact"))
