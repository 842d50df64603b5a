"""`program manifest arxiv`, as it is typed, and what docs/manifest.md promises."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from program import cli
from program.ingest.manifest import Entry, Manifest, load_manifest
from program.ingest.topics import load_topics
from program.retrieval.embedded import EmbeddedIndex
from tests.arxiv_server import ArXivServer, Fault, Listed
from tests.fakes import HashEncoder
from tests.pdf_files import lines, pdf

GUIDE = Path(__file__).parent.parent / "docs" / "manifest.md"
LISTED = [Listed(f"2001.{n:05d}", f"Paper {n}") for n in range(5)]
TOPICS = """
topics:
  - name: a
    queries: ['ti:x']
    papers: [{id: 2001.00003, title: Paper 3}]
"""


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[ArXivServer]:
    monkeypatch.chdir(tmp_path)
    with ArXivServer(LISTED, {"ti:x": [paper.id for paper in LISTED]}) as server:
        monkeypatch.setenv("RAG_ARXIV_URL", server.url)
        monkeypatch.setenv("RAG_ARXIV_PAUSE", "0")
        monkeypatch.setenv("RAG_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("RAG_DATA", str(tmp_path / "data"))
        yield server


def run(topics: str, *args: str) -> Result:
    Path("topics.yaml").write_text(topics)
    return CliRunner().invoke(cli.app, ["manifest", "arxiv", "--topics", "topics.yaml", *args])


def test_the_manifest_goes_to_standard_output(server):
    result = run(TOPICS, "--size", "2")
    assert result.exit_code == 0
    assert [paper["id"] for paper in json.loads(result.stdout)["papers"]] == ["2001.00003", "2001.00000"]


def test_or_to_a_file_with_a_table_of_its_topics(server):
    result = run(TOPICS, "--size", "2", "--out", "papers.json")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["topic\tselected\thand-picked\trejected\tspare", "a\t2\t1\t0\t3"]
    assert "ingest --manifest papers.json" in result.stderr
    assert len(load_manifest(Path("papers.json")).papers) == 2


def test_a_second_run_asks_nothing_and_a_refreshed_one_asks_again(server):
    first = run(TOPICS, "--size", "2")
    asked = len(server.asked)
    assert run(TOPICS, "--size", "2").stdout == first.stdout
    assert len(server.asked) == asked
    run(TOPICS, "--size", "2", "--refresh")
    assert len(server.asked) == 2 * asked


def test_an_unverified_paper_fails_the_command_after_the_manifest_is_written(server):
    result = run(TOPICS.replace("Paper 3", "Paper 4"), "--size", "2", "--out", "papers.json")
    assert result.exit_code == 1
    assert '2001.00003 (Paper 4): Picked by hand, but the title of this id is "Paper 3".' in result.stderr
    assert len(load_manifest(Path("papers.json")).papers) == 2


def test_fewer_papers_than_wanted_are_told(server):
    result = run(TOPICS, "--size", "50")
    assert result.exit_code == 0
    assert "Only 5 of 50" in result.stderr


def test_failures_are_one_message_with_a_hint(server):
    result = run("topics: []", "--size", "2")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: topics.yaml: topics")
    server.faults.append(Fault(status=403))
    result = run(TOPICS, "--size", "2")
    assert result.exit_code == 1
    assert "turns this program away" in result.stderr


@pytest.mark.parametrize("size", ["0", "-1", "many"])
def test_a_size_must_be_a_count(server, size):
    assert run(TOPICS, "--size", size).exit_code == 2


def test_the_guides_examples_are_what_the_program_reads(tmp_path):
    blocks = dict(re.findall(r"```(yaml|json)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL))
    (tmp_path / "topics.yaml").write_text(blocks["yaml"], encoding="utf-8")
    topics = load_topics(tmp_path / "topics.yaml")
    assert [topic.share for topic in topics.topics] == [2, 1, 1]
    assert topics.topics[0].papers[0].id == "2004.04906"
    assert [entry.version for entry in Manifest.model_validate_json(blocks["json"]).papers] == [3, None]


@pytest.fixture
def library(server, monkeypatch) -> Path:
    """A manifest of two papers, one of which the server has as text; the other as a file without PDF."""
    monkeypatch.setattr("program.retrieval.encoders.load_encoder", lambda settings: HashEncoder())
    text = ["Dense retrieval encodes questions and passages into one space of vectors.", "It is trained by contrast."]
    papers = {
        "2001.00001": pdf([lines(72, 100, text * 5)]),
        "2001.00002": b"<html>PDF unavailable</html>",
    }
    for id, body in papers.items():
        server.papers[id] = Listed(id, f"A Title of {id}", 2, pdf=body, published="2019-01-01T00:00:00Z")
    entries = [
        Entry(id=id, version=2, title=f"A Title of {id}", year=2019, categories=("cs.IR",), topic="dense retrieval")
        for id in papers
    ]
    Path("papers.json").write_text(Manifest(size=2, papers=tuple(entries)).to_json())
    return Path("library")


def ingest(library: Path, *args: str) -> Result:
    return CliRunner().invoke(cli.app, ["ingest", "--index", str(library), *args])


def test_ingest_downloads_and_indexes_with_what_the_manifest_knows(server, library):
    result = ingest(library, "--manifest", "papers.json", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert [(file["name"], file["status"]) for file in report["files"]] == [
        ("2001.00001.pdf", "indexed"),
        ("2001.00002", "not downloaded"),
    ]
    assert "no PDF" in report["files"][1]["message"]
    with closing(EmbeddedIndex.open_as_made(library)) as index:
        (document,) = index.documents()
        hits = index.search("contrast", HashEncoder().encode(["contrast"])[0], k=5, alpha=0.5, fusion="ranked")
    assert (document.title, document.source) == ("A Title of 2001.00001", "arXiv:2001.00001v2")
    assert (document.year, document.field) == (2019, "dense retrieval")
    assert {(hit.chunk.title, hit.chunk.year) for hit in hits} == {("A Title of 2001.00001", 2019)}
    asked = len(server.asked)
    result = ingest(library, "--manifest", "papers.json")
    assert "2001.00001.pdf\tunchanged" in result.stdout
    assert server.asked[asked:] == ["/pdf/2001.00002v2"]


def test_files_and_a_manifest_go_together_and_one_of_them_must_be_given(server, library):
    Path("notes.md").write_text("# Notes\n\nAll retrieval here is dense, and the encoder is small and quick to train.")
    result = ingest(library, "notes.md", "--manifest", "papers.json")
    assert "notes.md\tindexed" in result.stdout
    assert "2001.00001.pdf\tindexed" in result.stdout
    result = ingest(library)
    assert result.exit_code == 2
    assert "--manifest" in result.stderr
