from collections.abc import Sequence

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
    assert strip_marks("No marks.") == ("No marks.", ())


def test_quoting_cites_the_sentence_itself() -> None:
    items = evidence(BERT)
    check = Attribution("heads?", items, HashEncoder(), 0.5)
    claim = check.quote(items[0], 1)
    assert claim.text == "It was trained on BooksCorpus and English Wikipedia [1]."
    assert check.citations[0].quote == "It was trained on BooksCorpus and English Wikipedia."
