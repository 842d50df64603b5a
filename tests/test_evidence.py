from program.evidence import assemble, best_sentences, render
from program.tokens import count_tokens
from program.types import Chunk, Hit
from tests.fakes import HashEncoder

HEADS = "The encoder has six layers. It uses eight attention heads. Dropout is applied to every layer."
DATA = "Training used the WMT 2014 data. The data holds millions of sentence pairs. Byte pairs encode them."


def hit(name: str, text: str, start: int = 0, score: float = 0.5, document: str = "") -> Hit:
    chunk = Chunk(name, document or f"{name}.md", f"On {name}", text, start=start, end=start + len(text))
    return Hit(chunk, 0.5, 1.0, score=score)


def test_evidence_keeps_what_was_asked_within_the_budget() -> None:
    found = assemble(
        [hit("a", HEADS), hit("b", DATA)], ["How many attention heads?"], HashEncoder(), chunks=6, tokens=20
    )
    assert "eight attention heads" in found[0].text
    assert sum(count_tokens(item.text) for item in found) <= 20


def test_spans_are_in_the_document_and_numbers_are_in_order() -> None:
    found = assemble([hit("a", HEADS, start=50)], ["attention heads"], HashEncoder(), chunks=6, tokens=500)
    assert [item.n for item in found] == [1]
    for sentence in found[0].sentences:
        assert HEADS[sentence.start - 50 : sentence.end - 50] == sentence.text


def test_every_sub_question_gets_its_share() -> None:
    hits = [hit("a", HEADS), hit("b", DATA)]
    asked = ["How many attention heads?", "Which data was training on?"]
    text = " ".join(item.text for item in assemble(hits, asked, HashEncoder(), chunks=6, tokens=40))
    assert "attention heads" in text
    assert "WMT 2014" in text


def test_a_sentence_that_two_chunks_share_is_kept_once() -> None:
    shared = "It uses eight attention heads."
    first, second = f"The encoder has six layers. {shared}", f"{shared} Dropout is applied."
    hits = [
        hit("a", first, document="d.md"),
        hit("b", second, start=len("The encoder has six layers. "), document="d.md"),
    ]
    found = assemble(hits, ["heads"], HashEncoder(), chunks=6, tokens=500)
    assert " ".join(item.text for item in found).count(shared) == 1


def test_rendering_numbers_passages_and_leaves_out_their_own_reference_marks() -> None:
    found = assemble(
        [hit("a", "Residual dropout is used [13, 14].\nIt helps.")], ["dropout"], HashEncoder(), chunks=6, tokens=99
    )
    assert render(found) == "[1] On a: Residual dropout is used. It helps."
    assert "[13" in found[0].text


def test_nothing_found_gives_no_evidence() -> None:
    assert assemble([], ["x"], HashEncoder(), chunks=6, tokens=100) == ()
    assert best_sentences("x", [], HashEncoder(), 2) == []


def test_best_sentences_are_the_nearest() -> None:
    found = assemble([hit("a", HEADS), hit("b", DATA)], ["heads"], HashEncoder(), chunks=6, tokens=500)
    (item, place), *_ = best_sentences("attention heads", found, HashEncoder(), 1)
    assert item.sentences[place].text == "It uses eight attention heads."


def test_rendering_for_a_grade_keeps_the_sentences_that_share_words_with_the_question() -> None:
    found = assemble([hit("a", HEADS), hit("b", DATA)], ["anything"], HashEncoder(), chunks=6, tokens=500)
    assert render(found, "How many attention heads?", 8) == "[1] On a: It uses eight attention heads."
