"""Titles that stand in questions and in other documents' texts."""

from __future__ import annotations

import pytest

from program.retrieval.analysis import terms
from program.retrieval.links import Titles, links
from program.types import Chunk


@pytest.mark.parametrize(
    ("title", "text", "stands"),
    [
        ("Ed Wood", "Were Scott Derrickson and Ed Wood of the same nationality?", True),
        ("Ed Wood (film)", "Who directed Ed Wood?", True),  # what tells films from people is not asked
        ("Ed Wood", "Ed directed Wood", False),
        ("The Beatles", "a song of the beatles", True),
        ("Émile Zola", "a novel by Emile Zola", True),
        ("GPT-3", "what GPT-3 is", True),
        ("GPT-3", "what GPT-4 is", False),
        ("It", "Is it raining?", False),  # stop words alone stand everywhere
        ("", "anything", False),
        ("(untitled)", "an untitled work", True),  # nothing is left without the brackets, so they stay
        ("黑豹队", "黑豹队的防守丢了多少分", True),
    ],
)
def test_a_whole_title_stands_in_a_text(title: str, text: str, stands: bool):
    assert (Titles([("known by", title)]).named_in(terms(text)) == ["known by"]) is stands


def test_all_that_are_named_are_found_in_order():
    titles = Titles([("1", "New York"), ("2", "York"), ("3", "York (city)"), ("4", "Boston")])
    assert titles.named_in(terms("From York to New York and to York again")) == ["2", "3", "1"]


def test_names_that_begin_alike_are_all_found_the_longest_first():
    titles = Titles(
        [("state", "New York"), ("city", "New York City"), ("paper", "New York City Times"), ("new", "New")]
    )
    assert titles.named_in(terms("In New York City it rained.")) == ["city", "state", "new"]


def test_links_are_between_documents():
    chunks = [
        Chunk("film", "film", "Kiss and Tell (1945 film)", "It stars Shirley Temple as Corliss Archer."),
        Chunk("star-0", "star", "Shirley Temple", "Shirley Temple was chief of protocol."),
        Chunk("star-1", "star", "Shirley Temple", "She was in Kiss and Tell."),
        Chunk("untitled", "untitled", "", "Shirley, Temple."),
    ]
    found = links(chunks, {chunk.id: terms(chunk.text) for chunk in chunks})
    assert found == {
        "film": {"star-0", "star-1"},
        "star-0": frozenset(),  # its own document's title is no link
        "star-1": {"film"},
        "untitled": {"star-0", "star-1"},
    }
