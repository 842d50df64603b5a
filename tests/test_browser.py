"""A real browser asks in the chat, sees a cited answer, and opens the quote behind a number."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, Playwright, expect, sync_playwright

from tests.fake_rag import HOSTILE, served

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 1000.0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium browser is installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        yield _launched(playwright)


def _launched(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(0.15) as address:
        yield address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(30 * SECONDS)
    page.goto(address)
    yield page
    context.close()


def ask(page: Page, question: str) -> None:
    box = page.locator("#box textarea")
    expect(box).to_be_visible(timeout=60 * SECONDS)
    box.fill(question)
    box.press("Enter")


def last_answer(page: Page, count: int = 1) -> None:
    """Wait until that many questions have been answered."""
    expect(page.get_by_text("How this was answered")).to_have_count(count, timeout=60 * SECONDS)


def test_a_question_is_answered_and_its_citation_opens_the_quote(page: Page) -> None:
    ask(page, "What dropout does the base Transformer use?")
    last_answer(page)
    source = page.locator("details.source").first
    expect(source.locator("mark")).not_to_be_visible()
    page.locator("a.cite", has_text="1").click()
    expect(source.locator("mark")).to_be_visible()
    expect(source.locator("mark")).to_contain_text("residual dropout, at a rate of 0.1")
    expect(source.locator("summary")).to_contain_text("Attention Is All You Need")
    expect(source.locator("summary")).to_contain_text("Training")


def test_the_keyboard_opens_and_closes_a_citation(page: Page) -> None:
    ask(page, "dropout")
    last_answer(page)
    page.locator("a.cite", has_text="2").focus()
    page.keyboard.press("Enter")
    source = page.locator("details.source").nth(1)
    expect(source.locator("mark")).to_be_visible()
    expect(source.locator("summary")).to_be_focused()
    page.keyboard.press("Enter")
    expect(source.locator("mark")).not_to_be_visible()


def test_the_steps_unfold(page: Page) -> None:
    ask(page, "dropout")
    last_answer(page)
    expect(page.get_by_text("Kept 6, top score 0.88")).not_to_be_visible()
    page.get_by_text("How this was answered").click()
    expect(page.get_by_text("Kept 6, top score 0.88")).to_be_visible()
    expect(page.get_by_text("1 call · 642 tokens · 4.2 s")).to_be_visible()


def test_each_answer_of_a_conversation_keeps_its_own_sources(page: Page) -> None:
    ask(page, "dropout")
    last_answer(page, 1)
    ask(page, "dropout again")
    last_answer(page, 2)
    page.locator("a.cite", has_text="1").nth(1).click()
    marks = page.locator("details.source mark")
    expect(marks).to_have_count(4)
    expect(marks.nth(2)).to_be_visible()
    expect(marks.nth(0)).not_to_be_visible()


def test_markup_in_documents_stays_text(page: Page) -> None:
    dialogs: list[str] = []
    elsewhere: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.on("request", lambda request: elsewhere.append(request.url) if "example.invalid" in request.url else None)
    ask(page, f"hostile {HOSTILE}")
    last_answer(page)
    page.locator("a.cite").click()
    expect(page.locator("details.source mark")).to_contain_text(HOSTILE)
    expect(page.locator("#chat .question")).to_contain_text(HOSTILE)
    page.get_by_text("How this was answered").click()
    expect(page.locator(".steps")).to_be_visible()
    assert page.locator("#chat img, #chat script, #chat a:not(.cite)").count() == 0
    assert (dialogs, elsewhere) == ([], [])


def test_nothing_is_fetched_from_another_host(browser: Browser, address: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.goto(address)
    ask(page, "dropout")
    last_answer(page)
    assert [url for url in urls if not url.startswith((address, "data:", "blob:"))] == []
    context.close()


def test_a_refusal_and_a_problem_are_told_apart(page: Page) -> None:
    ask(page, "what is missing")
    last_answer(page)
    expect(page.locator(".refusal")).to_contain_text("could not find the answer")
    ask(page, "broken")
    expect(page.locator(".problem")).to_contain_text("Check RAG_LM_URL and ask again.")
    expect(page.locator(".problem")).to_have_count(1)


def test_an_empty_question_gets_a_gentle_word(page: Page) -> None:
    ask(page, "   ")
    expect(page.get_by_text("Type a question first.")).to_be_visible()
    ask(page, "dropout")
    last_answer(page)


def test_an_example_is_asked_with_one_click(page: Page) -> None:
    page.get_by_role("button", name="dropout rate of the base Transformer").click(timeout=60 * SECONDS)
    last_answer(page)
    expect(page.locator("#chat .question")).to_have_count(1)


def test_stopping_ends_the_answer_and_the_chat_goes_on(page: Page) -> None:
    ask(page, "a long dropout answer")
    expect(page.locator(".claim").first).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped.")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).not_to_be_visible(timeout=60 * SECONDS)
    page.wait_for_timeout(2 * SECONDS)  # as a person would: what is sent while the stop is still on its way is lost
    ask(page, "dropout")
    last_answer(page)


def test_a_new_chat_forgets_and_conversations_are_kept_apart(page: Page, browser: Browser, address: str) -> None:
    ask(page, "dropout")
    last_answer(page)
    other = browser.new_page()
    other.goto(address)
    expect(other.locator("#box textarea")).to_be_visible(timeout=60 * SECONDS)
    assert other.locator(".question").count() == 0
    other.close()
    page.get_by_role("button", name="New chat").click()
    expect(page.locator(".question")).to_have_count(0)
    ask(page, "dropout once more")
    last_answer(page)


@pytest.mark.e2e
@pytest.mark.timeout(700)  # the demo library is indexed first: a minute on a fast processor, three on a slow one
def test_the_real_program_answers_and_its_citation_opens_the_quote(browser: Browser, tmp_path: Path) -> None:
    with real_chat(tmp_path) as address:
        page = browser.new_page()
        page.goto(address)
        ask(page, "How many attention heads does BERT-large have?")
        expect(page.get_by_text("How this was answered")).to_be_visible(timeout=500 * SECONDS)
        page.locator("a.cite").first.click()
        quote = page.locator("details.source[open] mark").first
        expect(quote).to_be_visible()
        assert len(quote.inner_text()) > 20
        page.close()


@contextmanager
def real_chat(folder: Path) -> Iterator[str]:
    """The address of `python -m ui` over the demo library, with the small language model."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"RAG_LM": "embedded/0.5b", "RAG_DATA": str(folder)}
    with subprocess.Popen([sys.executable, "-m", "ui", "--port", str(port)], env=environment) as process:
        try:
            while process.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
