"""The chat page and its HTTP interface, over any program that a `Backend` loads.

The page: a status line, the conversation, a box to ask in. The HTTP interface: one public endpoint, `/chat`, which
answers one question with the object `Answer.to_dict` gives. Handlers of the page are not public.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import gradio as gr

from program.errors import Cancelled, ProgramError
from program.settings import settings_from
from program.terminal import say
from program.types import Answer
from ui import rendering
from ui.backend import UNEXPECTED, Backend
from ui.conversation import Exchange, history, messages
from ui.loading import load_program

log = logging.getLogger(__name__)

TITLE = "Adaptive RAG"
#: Questions answered at the same time: a local model on few cores serves two without either waiting long.
AT_ONCE = 2
MOST_WAITING = 32
TOO_MANY = "Too many questions are waiting. Please ask again in a minute."
DEMO_EXAMPLES = (
    "What is the dropout rate of the base Transformer?",
    "What did RoBERTa change compared with BERT?",
    "Why do they divide by that square root thing in attention?",
    "How many parameters do BERT-base and ALBERT-base have?",
    "What are the main weaknesses of GPT-3?",
    "What is 8 * 64?",
)
OWN_EXAMPLES = (
    "What are these documents about?",
    "What are the main findings?",
    "Which methods are described?",
    "What can you do?",
)
WELCOME = (
    '<div class="welcome"><h2>{}</h2><p>{}Every sentence of an answer is checked against the passage it cites: '
    "click its number to read it.</p>{}</div>"
)
WELCOME_OWN = WELCOME.format("Ask your documents", "", "")
WELCOME_DEMO = WELCOME.format(
    "Ask the demo library",
    "Short articles on well-known machine-learning papers. ",
    '<p class="own">For your own documents, run <code>python -m program ingest</code> and start the chat again.</p>',
)
_HERE = Path(__file__).parent


class Handlers:
    """What the page's events call. Conversations live in the page's own state, never here."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def begin(self, question: str, exchanges: list[Exchange]) -> tuple[Any, Any, list[Exchange]]:
        """Show the question at once, before it gets its turn. Gives chat, box and state."""
        if not question.strip():
            gr.Info("Type a question first.")
            return gr.skip(), gr.skip(), exchanges
        if exchanges and not exchanges[-1].finished:
            gr.Info("One question at a time: stop the running one first, or wait for its answer.")
            return gr.skip(), gr.skip(), exchanges
        exchanges = [*exchanges, Exchange(question.strip())]
        return messages(exchanges), _box(busy=True, value=""), exchanges

    def pick(self, exchanges: list[Exchange], selected: gr.SelectData) -> tuple[Any, Any, list[Exchange]]:
        """Ask an example."""
        return self.begin(str(selected.value["text"]), exchanges)

    def respond(self, exchanges: list[Exchange]) -> Generator[tuple[Any, Any, list[Exchange]], None, None]:
        """Answer the last question, showing every step. Gives chat, box and state."""
        if not exchanges or exchanges[-1].started or exchanges[-1].finished:
            yield gr.skip(), gr.skip(), exchanges
            return
        exchange = exchanges[-1]
        exchange.started = True
        for _ in self._work(exchange, exchanges[:-1]):
            yield messages(exchanges), gr.skip(), exchanges
        yield messages(exchanges), _box(busy=False), exchanges

    def stop(self, exchanges: list[Exchange]) -> tuple[Any, Any, list[Exchange]]:
        """The running answer was cancelled by the page; say so in the chat."""
        if exchanges and not exchanges[-1].finished:
            exchanges[-1].stopped = True
        return messages(exchanges), _box(busy=False), exchanges

    def give_up(self, exchanges: list[Exchange]) -> tuple[Any, Any, list[Exchange]]:
        """The queue did not take the question."""
        if exchanges and not exchanges[-1].finished:
            exchanges[-1].problem = TOO_MANY
        return messages(exchanges), _box(busy=False), exchanges

    def ask(self, question: str) -> dict[str, Any]:
        """Answer one question. Returns text, refused, route, citations, claims, contexts, usage and trace."""
        self.backend.start()
        try:
            answer = self.backend.program()(question)
        except ProgramError as error:
            raise gr.Error(str(error)) from error
        except Exception as error:
            log.exception("a question failed")
            raise gr.Error(UNEXPECTED) from error
        return answer.to_dict()

    def look(self, known: bool) -> tuple[str, Any, Any, bool]:
        """The status line, the chat with its examples once the library is known, and the clock, which then stops."""
        status, loaded = self.backend.status, self.backend.loaded
        chat = gr.skip()
        if loaded and not known:
            welcome, examples = (WELCOME_DEMO, DEMO_EXAMPLES) if loaded.demo else (WELCOME_OWN, OWN_EXAMPLES)
            chat = gr.Chatbot(placeholder=welcome, examples=[{"text": text} for text in examples])
        ready = status.phase == "ready"
        return (
            rendering.status(status.phase, status.message, status.share),
            chat,
            gr.Timer(active=not ready),
            bool(loaded),
        )

    def _work(self, exchange: Exchange, earlier: list[Exchange]) -> Iterator[None]:
        """Let the exchange grow to its end; yields after every change."""
        try:
            self.backend.start()
            for status in self.backend.watch():
                exchange.waiting_for = status.message
                yield
            program = self.backend.program()
            exchange.waiting_for = "Choosing how to answer"
            yield
            with closing(program.stream(exchange.question, history(earlier))) as stream:  # type: ignore[type-var]
                for item in stream:
                    exchange.take(item)
                    if not isinstance(item, Answer):
                        yield
        except Cancelled:
            exchange.stopped = True
        except ProgramError as error:
            exchange.problem = str(error)
        except Exception:
            log.exception("a question failed")
            exchange.problem = UNEXPECTED


def build(backend: Backend) -> gr.Blocks:
    """The page. Starts nothing: call `backend.start()` and `launch`."""
    on = Handlers(backend)
    # trigger_mode: the handlers guard themselves; Gradio's own guard would drop a question asked right after Stop.
    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "trigger_mode": "multiple"}
    answering: dict[str, Any] = {"concurrency_limit": AT_ONCE, "concurrency_id": "answer"}
    with gr.Blocks(title=TITLE, fill_height=True, analytics_enabled=False) as page:
        exchanges = gr.State([])
        known = gr.State(False)
        with gr.Row(elem_id="top"):
            status = gr.HTML(rendering.status("loading", "Starting", None), elem_id="status", min_width=200)
            new = gr.Button("New chat", elem_id="new", size="sm", scale=0, min_width=96)
        chat = gr.Chatbot(
            elem_id="chat", show_label=False, container=False, scale=1, height=None, buttons=[], layout="panel",
            placeholder=WELCOME_OWN, latex_delimiters=[], allow_tags=False, group_consecutive_messages=True,
        )  # fmt: skip
        box = gr.Textbox(
            elem_id="box", label="Question", show_label=False, container=False, lines=1, max_lines=6, autofocus=True,
            placeholder="Ask a question, then follow up", submit_btn=True, stop_btn=False, scale=0,
        )  # fmt: skip
        gr.HTML('<p id="foot">Checks are automatic: open the numbers to be sure.</p>')

        shown = [chat, box, exchanges]
        # Queued, because Gradio shows a word of `gr.Info` only then; but never made to wait.
        at_once: dict[str, Any] = {**private, "concurrency_limit": None}
        running = []
        for begun in (
            box.submit(on.begin, [box, exchanges], shown, **at_once),
            chat.example_select(on.pick, [exchanges], shown, **at_once),
        ):
            answered = begun.success(on.respond, [exchanges], shown, **private, **answering)
            answered.failure(on.give_up, [exchanges], shown, queue=False, **private)
            running.append(answered)
        box.stop(on.stop, [exchanges], shown, cancels=running, queue=False, **private)
        new.click(_empty, None, shown, cancels=running, queue=False, **private)
        clock = gr.Timer(1.0)
        seen: dict[str, Any] = {**private, "trigger_mode": "once", "queue": False}
        gr.on([page.load, clock.tick], on.look, [known], [status, chat, clock, known], **seen)
        gr.api(on.ask, api_name="chat", **answering)
    return page.queue(max_size=MOST_WAITING)


def launch(page: gr.Blocks, *, host: str | None = None, port: int | None = None) -> str:
    """Serve the page from threads of its own, and return its address. None: what GRADIO_SERVER_NAME and _PORT say.

    Raises ProgramError when the port is taken.
    """
    theme = gr.themes.Base(
        primary_hue=gr.themes.colors.teal, neutral_hue=gr.themes.colors.slate, radius_size="lg",
        font=["ui-sans-serif", "system-ui", "Segoe UI", "Noto Sans", "sans-serif"],
        font_mono=["ui-monospace", "monospace"],
    )  # fmt: skip
    try:
        _, address, _ = page.launch(
            server_name=host, server_port=port, prevent_thread_lock=True, quiet=True, share=False, ssr_mode=False,
            footer_links=[], theme=theme, css=(_HERE / "chat.css").read_text("utf-8"),
            head=f"<script>{(_HERE / 'chat.js').read_text('utf-8')}</script>",
        )  # fmt: skip
    except OSError as error:
        raise ProgramError(
            f"The chat cannot be served on port {port}.", "Is it in use? Choose another --port."
        ) from error
    return str(address).rstrip("/")


def run(
    *, index: Path | None = None, artifact: Path | None = None, host: str | None = None, port: int | None = None
) -> None:
    """Serve the chat over the real program until interrupted. Raises ProgramError when it cannot start."""
    settings = settings_from(index, artifact)
    backend = Backend(lambda report: load_program(settings, report))
    page = build(backend)
    say(f"The chat is on {launch(page, host=host, port=port)} (Ctrl-C stops it)")
    backend.start()
    page.block_thread()


def _box(*, busy: bool, **changes: Any) -> Any:
    return gr.Textbox(submit_btn=not busy, stop_btn=busy, **changes)


def _empty() -> tuple[list[Any], Any, list[Exchange]]:
    return [], _box(busy=False, value=""), []
