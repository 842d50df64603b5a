from collections.abc import Sequence
from dataclasses import replace

import pytest

from program.attribution import Attribution, strip_marks
from program.sentences import split_sentences
from program.types import Chunk, Evidence, Sentence
from tests.fakes import HashEncoder

BERT = "BERT-large has 24 layers and 16 attention heads. It was trained on BooksCorpus and English Wikipedia."
ADAM = "Adam keeps running averages of the gradient. Its default step size is 0.001."


def evidence(*texts: str) -> list[Evidence]:
    """Each text as a passage that starts at 100 of its own document."""
    found = []
    for n, text in enumerate(texts, 1):
        chunk = Chunk(f"c{n}", f"d{n}.md", f"Title {n}", text, start=100, end=100 + len(text))
        spans = tuple(Sentence(s.text, 100 + s.start, 100 + s.end) for s in split_sentences(text))
        found.append(Evidence(n, chunk, spans))
    return found


def checker(texts: Sequence[str], question: str = "How many heads does BERT-large have?") -> Attribution:
    return Attribution(question, evidence(*texts), HashEncoder(), 0.5)


def test_a_supported_claim_is_cited_with_its_quote_and_span() -> None:
    check = checker([ADAM, BERT])
    claim = check.check("BERT-large has 16 attention heads [2].")
    assert (claim.status, claim.citations) == ("supported", (1,))
    assert claim.text == "BERT-large has 16 attention heads [1]."
    (citation,) = check.citations
    assert citation.quote == "BERT-large has 24 layers and 16 attention heads."
    assert (citation.document, citation.start, citation.end) == ("d2.md", 100, 100 + len(citation.quote))


def test_numbers_follow_first_use_and_the_same_quote_keeps_its_number() -> None:
    check = checker([ADAM, BERT])
    first = check.check("BERT-large has 16 attention heads [2].")
    second = check.check("Adam's default step size is 0.001 [1].")
    again = check.check("BERT-large has 24 layers [2].")
    assert (first.citations, second.citations, again.citations) == ((1,), (2,), (1,))
    assert [citation.n for citation in check.citations] == [1, 2]


@pytest.mark.parametrize("mark", ["[9]", "[0]", "", "[1][7]", "[99999999999999]"])
def test_a_wrong_or_missing_mark_is_mended_when_another_passage_supports(mark: str) -> None:
    check = checker([ADAM, BERT])
    claim = check.check(f"BERT-large has 16 attention heads {mark}.")
    assert (claim.status, claim.citations) == ("recited", (1,))
    assert check.citations[0].document == "d2.md"


@pytest.mark.parametrize(
    "sentence",
    [
        "BERT-large has 12 attention heads [1].",  # a figure from nowhere
        "RoBERTa has 16 attention heads [1].",  # another name
        "Paris is the capital of France [1].",
        "BERT-large has 110 million parameters [3].",  # said of BERT-base
    ],
)
def test_what_nothing_supports_is_unsupported_and_uncited(sentence: str) -> None:
    check = checker([BERT, ADAM, "BERT-base has 110 million parameters. BERT-large has 340 million parameters."])
    claim = check.check(sentence)
    assert (claim.status, claim.citations) == ("unsupported", ())
    assert check.citations == ()
    assert "[" not in claim.text


def test_a_short_answer_is_supported_by_the_sentence_that_holds_it() -> None:
    claim = checker([BERT]).check("16 [1]")
    assert claim.status == "supported"


def test_marks_are_read_in_every_spelling() -> None:
    assert strip_marks("A [1], B [2, 3] and C [4][5].") == ("A, B and C.", (1, 2, 3, 4, 5))
    assert strip_marks("A [^1], B [Passage 2], C 【3】 and D【4†source】.") == ("A, B, C and D.", (1, 2, 3, 4))
    assert strip_marks(f"A [{'9' * 5000}] and B [1-3].") == ("A and B.", ())
    assert strip_marks("No marks, an array[i] and [a link].") == ("No marks, an array[i] and [a link].", ())


def test_quoting_cites_the_sentence_itself() -> None:
    items = evidence(BERT)
    check = Attribution("heads?", items, HashEncoder(), 0.5)
    claim = check.quote(items[0], 1)
    assert claim.text == "It was trained on BooksCorpus and English Wikipedia [1]."
    assert check.citations[0].quote == "It was trained on BooksCorpus and English Wikipedia."


def test_all_that_is_cited_and_supports_stays_cited() -> None:
    check = checker([BERT, f"In short: {BERT}"])
    assert check.check("BERT-large has 16 attention heads [1][2].").citations == (1, 2)


def test_the_better_of_two_sentences_is_quoted_however_close() -> None:
    many = " ".join(f"{a}{b}q" for a in "bcdfghkl" for b in "bcdfghkl")
    check = checker([f"The {many} first. The {many} second."])
    check.check(f"The {many} second [1].")
    assert check.citations[0].quote == f"The {many} second."


def test_a_documents_own_reference_marks_are_not_citations() -> None:
    items = evidence("Dropout is applied to every layer [13, 14].")
    check = Attribution("dropout?", items, HashEncoder(), 0.5)
    assert check.quote(items[0], 0).text == "Dropout is applied to every layer [1]."
    assert check.citations[0].quote == "Dropout is applied to every layer [13, 14]."


@pytest.mark.parametrize(
    ("passage", "claim", "status"),
    [
        ("BERT-large has 16 attention heads.", "BERT-large does not have 16 attention heads.", "unsupported"),
        ("The decoder cannot attend to later words.", "The decoder can attend to later words.", "unsupported"),
        ("The decoder cannot attend to later words.", "The decoder cannot attend to later words.", "supported"),
        ("BERT does not use recurrence but uses attention.", "BERT uses attention.", "supported"),
    ],
)
def test_a_claim_that_turns_what_the_passage_says_is_unsupported(passage: str, claim: str, status: str) -> None:
    assert checker([passage, ADAM], "What is said?").check(f"{claim} [1]").status == status


def test_a_citation_names_the_page_its_quote_is_on() -> None:
    item = evidence(BERT)[0]
    chunk = replace(item.chunk, page=3, page_breaks=f"{100 + BERT.index('It was')}:5")
    check = Attribution("heads?", [replace(item, chunk=chunk)], HashEncoder(), 0.5)
    check.quote(replace(item, chunk=chunk), 0)
    check.quote(replace(item, chunk=chunk), 1)
    assert [citation.page for citation in check.citations] == [3, 5]
