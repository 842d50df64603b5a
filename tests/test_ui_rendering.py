"""What the chat shows, as HTML: nothing a document, a question or a model says becomes markup."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from program.types import Citation, Claim, Event, Trace, Turn, Usage
from tests.fake_rag import HOSTILE, PASSAGE, FakeRag
from ui import rendering
from ui.conversation import Exchange, history

MARKUP = [
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "[x](javascript:alert(1))",
    "![](http://example.invalid/x.png)",
    "<https://example.invalid>",
    "https://example.invalid www.example.invalid a@example.invalid",
    "**bold** _it_ `code` ~~gone~~ # head",
    "```html\n<b>x</b>\n```",
    "one\n\n<b>two</b>\r\n\n- three\u2028\n> four",
    "&lt;script&gt; &#60;b&#62;",
    "$$\\href{javascript:alert(1)}{x}$$ {{value}} ${value}",
    "</div></details><h1>out</h1>",
    "| a | b |\n|---|---|\n| 1 | 2 |",
]


class Page(HTMLParser):
    """The tags, attributes and text of some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, list[str]] = {}
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("text", MARKUP)
def test_escaped_text_holds_no_markup_and_no_line_break(text: str) -> None:
    escaped = rendering.escape(text)
    assert not re.search(r"[^\w\s&#;]", escaped.replace("<br>", ""))
    assert re.findall(r"&(?!#\d+;)", escaped) == []
    assert len(escaped.splitlines()) <= 1
    assert set(Page(escaped).tags) <= {"br"}


@pytest.mark.parametrize("text", MARKUP)
def test_escaped_text_reads_as_it_was_written(text: str) -> None:
    assert "".join(Page(rendering.escape(text)).text.split()) == "".join(text.split())


def test_control_and_direction_characters_are_dropped() -> None:
    assert rendering.escape("a\x00\x1b\u202eb\u2066\ud800c") == "abc"


def test_a_hostile_answer_keeps_only_our_own_tags() -> None:
    answer = FakeRag()("hostile")
    page = Page(rendering.answer(answer, "u1"))
    assert set(page.tags) <= {"div", "p", "span", "a", "details", "summary", "mark"}
    assert page.attributes["href"] == ["#source-u1-1"]
    assert set(page.attributes) <= {"class", "href", "title", "id"}
    assert page.text.count(HOSTILE) == 4  # the sentence, the title, the quote, the document: all as text


def test_hostile_steps_questions_and_problems_keep_only_our_own_tags() -> None:
    event = Event("note", HOSTILE, {HOSTILE: [{HOSTILE: HOSTILE}], "list": [HOSTILE, True, 0.25, None]})
    for html in (rendering.steps([event]), rendering.question(HOSTILE), rendering.problem(HOSTILE)):
        assert not {"script", "img", "a"} & set(Page(html).tags)
        assert HOSTILE in Page(html).text
    assert "script" not in Page(rendering.status("failed", HOSTILE, None)).tags


def test_an_answer_links_each_number_to_a_source_that_marks_its_quote() -> None:
    answer = FakeRag()("dropout")
    html = rendering.answer(answer, "u1")
    assert 'href="#source-u1-1"' in html
    assert 'id="source-u1-1"' in html
    assert "page 7" in html
    assert "Training" in html
    marked = [Page(piece).text for piece in re.findall("<mark>.*?</mark>", html)]
    assert marked == [citation.quote for citation in answer.citations]


def test_a_documents_own_reference_mark_is_text() -> None:
    claim = Claim("As shown in [7], dropout helps [1].", (1,), 0.9, "quoted")
    html = rendering.claims_so_far([claim])
    assert Page(html).text == "As shown in [7], dropout helps\u00a01."


def test_sentences_on_their_way_carry_no_links() -> None:
    claim = Claim("Dropout is 0.1 [1].", (1,), 0.9, "supported")
    assert "<a " not in rendering.claims_so_far([claim])


def test_an_unsupported_sentence_is_marked() -> None:
    html = rendering.answer(FakeRag()("unsupported"), "u")
    assert html.count("not supported") == 1
    assert "not supported" not in rendering.answer(FakeRag()("dropout"), "u")


def test_a_refusal_is_told_from_an_answer_and_from_a_problem() -> None:
    html = rendering.answer(FakeRag()("missing"), "u")
    assert "No answer in the library" in html
    assert "problem" not in html


def test_notes_stand_under_the_answer() -> None:
    assert "quoted passages" in Page(rendering.answer(FakeRag()("fallback"), "u")).text
    assert 'class="note"' not in rendering.answer(FakeRag()("dropout"), "u")


def test_a_quote_that_is_not_in_the_passage_is_still_shown() -> None:
    citation = Citation(1, "12 * 8 = 96", "calculator", "", None, 0, 11, 1.0, kind="calculation", passage="")
    html = rendering.answer(replace(FakeRag()("dropout"), citations=(citation,)), "u")
    assert "Calculation" in html
    assert Page(html).text.count("12 * 8 = 96") == 1


def test_quotes_of_one_number_share_a_card() -> None:
    quotes = ("Regularization came", "twelve hours")
    citations = tuple(Citation(1, quote, "d", "T", None, 0, 0, 0.9, passage=PASSAGE) for quote in quotes)
    html = rendering.answer(replace(FakeRag()("dropout"), citations=citations), "u")
    assert html.count("<details") == 1
    assert html.count("<mark>") == 2


def test_steps_show_names_costs_and_folded_details() -> None:
    event = Event("retrieve", "30 candidates", {"pool": [{"id": "c1", "score": 0.5}] * 15}, Usage(1, 100, 0, 20), 0.5)
    html = rendering.steps([event])
    assert "Search" in html
    assert "1 call · 120 tokens · 0.5 s" in html
    assert "and 3 more" in html
    assert "c1" not in html


def test_cost_leaves_out_what_is_nothing() -> None:
    assert rendering.cost(Usage(), 0.01) == ""
    assert rendering.cost(Usage(2, 1000, 0, 200), 6.12) == "2 calls · 1,200 tokens · 6.1 s"


def test_history_is_plain_text_and_leaves_out_what_was_not_answered() -> None:
    answered, broken = Exchange("dropout?", answer=FakeRag()("dropout")), Exchange("x", problem="It is down.")
    expected = (
        "The base Transformer uses residual dropout at a rate of 0.1. It trained for 100,000 steps, or twelve hours."
    )
    assert history([answered, broken]) == [Turn("dropout?", expected)]


def test_two_exchanges_never_share_anchors() -> None:
    first, second = (Exchange("dropout", answer=FakeRag()("dropout")) for _ in range(2))
    ids = [re.findall(r'id="([^"]+)"', exchange.messages()[-1].content) for exchange in (first, second)]
    assert not set(ids[0]) & set(ids[1])


def test_a_trace_without_notes_adds_nothing() -> None:
    answer = replace(FakeRag()("dropout"), trace=Trace())
    assert "note" not in rendering.answer(answer, "u")
