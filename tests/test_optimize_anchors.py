"""Every document is asked to find itself; those that do not are listed with the reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from optimize import anchors_cli, cli
from optimize.anchors import Anchor, find_anchors, hit_rate, index_set, miss_rows, opening, without_words_of
from optimize.shell import FAILED
from program.errors import LabelError
from program.params import Params
from program.pipeline import AdaptiveRAG
from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.encoders import encode_passages, passage_text
from program.retrieval.index import Document
from program.retrieval.retriever import Retriever
from program.types import Chunk
from tests.fakes import HashEncoder
from tests.optimize_library import FACTS, retriever

RUNNER = CliRunner()
WORDS = ("alder", "birch", "cedar", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "spruce", "willow")


def put(into: Retriever, name: str, title: str, *chunks: Chunk) -> None:
    vectors, tokens = encode_passages(into.encoder, [passage_text(chunk) for chunk in chunks])
    into.index.replace(Document(f"{name}.md", title, name), chunks, vectors, tokens)


def chunk(name: str, title: str, text: str, position: int = 0, kind: Any = "passage") -> Chunk:
    return Chunk(f"{name}{position}", f"{name}.md", title, text, kind, end=len(text), position=position)


@pytest.mark.parametrize(
    ("title", "sentence", "left"),
    [
        ("Adam: A Method", "We introduce Adam, a method for ADAM's users.", "We introduce , for users."),
        ("Neural Networks", "A neural-network learns; networks don't.", "A - learns; don't."),
        ("GPT-3", "GPT-3 and its 3 sizes", "and its sizes"),
        ("Café", "The cafe opened", "The opened"),
        ("黄石公园", "黄石公园位于美国。", "位于美国。"),
        ("", "All of it stays.", "All of it stays."),
    ],
)
def test_the_titles_words_are_taken_out(title: str, sentence: str, left: str) -> None:
    assert without_words_of(title, sentence) == left


def test_the_abstract_is_asked_before_the_text(tmp_path: Path) -> None:
    found = retriever(tmp_path)
    text = chunk("paper", "Newts", "They swim. All day.", 0)
    abstract = chunk("paper", "Newts", "Newts glow in e.g. caves. Nobody knows why.", 1, "abstract")
    put(found, "paper", "Newts", text, abstract)
    put(
        found, "note", "Toads", chunk("note", "Toads", "It began so. Then it went on.", 1), chunk("note", "T", "No.", 7)
    )
    assert opening(found.index, "paper.md")[0] == "Newts glow in e.g. caves."
    assert opening(found.index, "note.md")[0] == "It began so."


def test_documents_find_themselves(tmp_path: Path) -> None:
    steps: list[int] = []
    found = find_anchors(retriever(tmp_path), Params(), lambda: steps.append(1))
    assert [item.document for item in found] == sorted(f"{animal}.md" for animal in FACTS)
    assert len(steps) == len(found)
    badger = found[0]
    assert badger == Anchor("badger.md", "badger", "The was counted with 41 toes.", 1, 1, 0, "badger.md", "badger")
    assert hit_rate(found, 1) == 1.0
    assert miss_rows(found) == []


def test_misses_have_their_rank_the_first_and_a_reason(tmp_path: Path) -> None:
    found = retriever(tmp_path)
    for place, word in enumerate(WORDS):  # each says what the copy says, under a title that is nearer to it
        put(found, f"a{place:02}", "Elk Lore", chunk(f"a{place:02}", "Elk Lore", f"Elks shed antlers. See {word}."))
    put(found, "zcopy", "Zoo", chunk("zcopy", "Zoo", "Elks shed antlers. " + "Zebras do not know. " * 30))
    put(found, "empty", "Silent Night", chunk("empty", "Silent Night", "The silent night. Silent!"))
    anchors = {item.document: item for item in find_anchors(found, Params())}
    copy = anchors["zcopy.md"]
    assert copy.asked == "Elks shed antlers."
    assert copy.rank > 10
    assert copy.deep_rank > 10
    assert copy.first_title == "Elk Lore"
    assert copy.why == "the first has all these words too"
    empty = anchors["empty.md"]
    assert (empty.rank, empty.first, empty.why) == (0, "", "nothing is left without the title's words")
    listed = {row[0]: row for row in miss_rows(list(anchors.values()))}
    assert listed["Zoo"] == ("Zoo", str(copy.rank), "Elk Lore", copy.why, copy.asked)
    assert listed["Silent Night"][1] == "not found"
    assert hit_rate(list(anchors.values()), 10) < 1


@pytest.mark.parametrize("first", ["Background.", "Night Trains!", "The night train."])
def test_the_next_sentence_is_asked_where_nothing_is_left_of_the_first(tmp_path: Path, first: str) -> None:
    found = retriever(tmp_path)
    put(found, "night", "Night Trains", chunk("night", "Night Trains", f"{first} Sleepers roll to Lisbon. More."))
    night = next(item for item in find_anchors(found, Params()) if item.document == "night.md")
    assert (night.asked, night.sentence, night.rank) == ("Sleepers roll to Lisbon.", 2, 1)


def test_a_document_beyond_the_programs_search_is_looked_for_deeper(tmp_path: Path) -> None:
    found = retriever(tmp_path)
    for place in range(40):
        put(found, f"b{place:02}", "Elk Lore", chunk(f"b{place:02}", "Elk Lore", f"Elks shed antlers. {place} times."))
    put(found, "zlast", "Zoo", chunk("zlast", "Zoo", "Elks shed antlers. " + "Zebras do not know. " * 30))
    last = next(item for item in find_anchors(found, Params()) if item.document == "zlast.md")
    assert (last.rank, last.deep_rank) == (0, 41)
    assert not last.hit(10)
    assert miss_rows([last])[0][1] == "not found, deeper 41"


def test_hit_rates_count_documents() -> None:
    ranks = [1, 2, 10, 11, 0]
    found = [Anchor(str(place), "", "", rank=rank) for place, rank in enumerate(ranks)]
    assert hit_rate(found, 1) == 0.2
    assert hit_rate(found, 10) == 0.6
    assert hit_rate([], 10) == 0.0


def corpus(folder: Path, *lines: str, packed: bool = True) -> Path:
    folder.mkdir(exist_ok=True)
    data = "\n".join(lines).encode()
    name = "corpus.jsonl.gz" if packed else "corpus.jsonl"
    (folder / name).write_bytes(gzip.compress(data) if packed else data)
    return folder


def animals() -> list[str]:
    rest = (
        "It was seen by rivers and in woods, at dawn and at dusk, and it slept through the rest of the day and night."
    )
    texts = {name: f"The {name} has {legs} toes and eats {food}. {rest}" for name, (legs, food) in FACTS.items()}
    return [json.dumps({"id": f"../{name}", "title": name, "text": text}) for name, text in texts.items()]


@pytest.mark.parametrize("packed", [True, False])
def test_a_set_becomes_an_index_of_its_texts(tmp_path: Path, packed: bool) -> None:
    encoder = HashEncoder()
    reports = index_set(corpus(tmp_path / "set", *animals(), packed=packed), tmp_path / "index", encoder)
    assert {report.status for report in reports} == {"indexed"}
    index = EmbeddedIndex.open(tmp_path / "index", encoder.fingerprint, encoder.dimensions)
    assert {document.title for document in index.documents()} == set(FACTS)
    found = find_anchors(Retriever(index, encoder), Params())
    assert hit_rate(found, 10) == 1.0
    assert all(" toes and eats " in item.asked for item in found)


def test_a_sample_is_drawn_by_its_seed(tmp_path: Path) -> None:
    folder, encoder = corpus(tmp_path / "set", *animals()), HashEncoder()

    def drawn(place: str, seed: int) -> set[str]:
        index_set(folder, tmp_path / place, encoder, limit=4, seed=seed)
        return {d.title for d in EmbeddedIndex.open(tmp_path / place, encoder.fingerprint, 64).documents()}

    first = drawn("a", 0)
    assert len(first) == 4
    assert drawn("b", 0) == first
    assert drawn("c", 1) != first


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"id": "1", "title": "T"}', '{"title": "T", "text": 3}', '{"title": null}']
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    folder = corpus(tmp_path / "set", animals()[0], line)
    with pytest.raises(LabelError, match=r"corpus\.jsonl\.gz:2: .*title"):
        index_set(folder, tmp_path / "index", HashEncoder())


def test_a_damaged_or_missing_set_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match="neither"):
        index_set(tmp_path, tmp_path / "index", HashEncoder())
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(b'{"title": "a", "text": "b"}' * 9)[:-9])
    with pytest.raises(LabelError, match="cannot be read"):
        index_set(tmp_path, tmp_path / "index", HashEncoder())


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program over the library of facts, or over the index that is named."""

    def load(_artifact: Path | None, index: Path | None) -> AdaptiveRAG:
        if index is None:
            return AdaptiveRAG(retriever(tmp_path / "library"))
        encoder = HashEncoder()
        return AdaptiveRAG(Retriever(EmbeddedIndex.open(index, encoder.fingerprint, encoder.dimensions), encoder))

    monkeypatch.setattr(anchors_cli, "load_program", load)
    monkeypatch.setattr("program.retrieval.encoders.load_encoder", lambda _settings: HashEncoder())


@pytest.mark.usefixtures("loaded")
def test_the_command_prints_rates_and_json() -> None:
    result = RUNNER.invoke(cli.app, ["anchors"])
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{len(FACTS)} documents, hit@1 100.0%, hit@10 100.0%\n"
    machine = json.loads(RUNNER.invoke(cli.app, ["anchors", "--json"]).stdout)
    assert (machine["documents"], machine["hit@1"], machine["hit@10"]) == (len(FACTS), 1.0, 1.0)
    keys = {"document", "title", "asked", "sentence", "rank", "deep_rank", "first", "first_title", "why"}
    assert all(set(item) == keys for item in machine["anchors"])


@pytest.mark.usefixtures("loaded")
def test_the_command_lists_what_misses_and_what_was_not_indexed(tmp_path: Path) -> None:
    lost = json.dumps({"id": "1", "title": "Rain Song", "text": "The songs of rain. " * 9})
    label = json.dumps({"id": "2", "title": "Elk Lore", "text": "Background. " + "Antlers grow anew each spring. " * 9})
    folder = corpus(tmp_path / "set", *animals(), lost, label, json.dumps({"title": "", "text": " "}))
    result = RUNNER.invoke(cli.app, ["anchors", "--set", str(folder)])
    assert result.exit_code == 0, result.output
    header, missed, total = result.stdout.splitlines()
    assert header.split("\t")[:3] == ["document", "rank", "first was"]
    assert missed.split("\t")[:2] == ["Rain Song", "not found"]
    assert total.startswith(f"{len(FACTS) + 2} documents, hit@1 92.9%, hit@10 92.9% (1 asked by a later")
    assert "1 text of 15 not indexed" in result.stderr


@pytest.mark.usefixtures("loaded")
def test_wrong_use_and_failures_have_their_exit_codes(tmp_path: Path) -> None:
    both = RUNNER.invoke(cli.app, ["anchors", "--set", str(tmp_path), "--index", str(tmp_path)])
    assert both.exit_code == cli.WRONG_USE
    missing = RUNNER.invoke(cli.app, ["anchors", "--set", str(tmp_path / "none")])
    assert missing.exit_code == FAILED
    assert "Traceback" not in missing.output
