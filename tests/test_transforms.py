import pytest

from program.transforms import headings_of, plain, refers_back, with_question
from program.types import Chunk, Hit, Query


@pytest.mark.parametrize(
    "question",
    [
        "How many layers does it have?",
        "And the larger model?",
        "What about dropout?",
        "Why?",
        "Who are the authors of that paper?",
        "How does this compare with the others?",
    ],
)
def test_questions_that_lean_on_the_conversation(question: str) -> None:
    assert refers_back(question)


@pytest.mark.parametrize(
    "question",
    ["How many attention heads does BERT-large have?", "Which optimizer and schedule trained the Transformer model?"],
)
def test_questions_that_stand_alone(question: str) -> None:
    assert not refers_back(question)


def hit(document: str, title: str, heading: str) -> Hit:
    return Hit(Chunk(f"{document}{heading}", document, title, "text", heading=heading), 0.5, 1.0)


def test_headings_tell_several_documents_apart_and_say_nothing_of_one() -> None:
    one = [hit("a", "Paper A", "1 Introduction"), hit("a", "Paper A", "3.2 Heads"), hit("a", "Paper A", "3.2 Heads")]
    assert headings_of([*one, hit("b", "Paper B", "")]) == "Paper A: 1 Introduction; Paper A: 3.2 Heads; Paper B"
    assert headings_of(one) == headings_of([]) == ""


def test_a_plain_question_is_searched_and_ranked_as_it_is() -> None:
    assert plain("x?") == [Query("x?", against="x?")]


def test_the_question_joins_queries_that_are_ranked_against_other_texts() -> None:
    rewrite, variant = Query("y?", against="y?"), Query("z?", against="x?")
    assert with_question("x?", [rewrite]) == [Query("x?", against="x?", itself=True), rewrite]
    assert with_question("x?", [Query("x?", against="x?"), variant]) == [Query("x?", against="x?"), variant]


def test_a_follow_up_too_long_to_be_repeated_is_left_as_it_is() -> None:
    assert not refers_back("How does it work? " + "word " * 300)
