import json
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from typer.testing import CliRunner, Result

from program import cli, terminal
from program.errors import LanguageModelError, LibraryMissing, WeightsError
from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.encoders import encode_passages
from program.types import Answer, Chunk, Claim, Event, Route, Trace, Turn
from tests.fake_rag import FakeRag
from tests.fakes import HashEncoder


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("RAG_LM", "RAG_INDEX", "RAG_ARTIFACT", "RAG_LM_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAG_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("RAG_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def rag(monkeypatch):
    fake = FakeRag()
    monkeypatch.setattr(cli, "load", lambda settings, on_progress: fake)
    return fake


def run(*args: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli.app, list(args), input=stdin)


def test_answer_comes_first_then_numbered_citations_with_their_quotes(rag):
    result = run("ask", "What dropout rate?")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == FakeRag()("What dropout rate?").text
    assert lines[1] == ""
    assert lines[2].startswith("[1] Attention Is All You Need (attention-is-all-you-need.md)")
    assert lines[3].strip().startswith('"Regularization came from residual dropout')
    assert "page 7" in lines[4]


def test_words_without_quotes_are_one_question(rag):
    answer = json.loads(run("ask", "what", "dropout", "rate", "--json").stdout)
    assert answer["question"] == "what dropout rate"


def test_json_is_one_object_with_the_promised_keys(rag):
    answer = json.loads(run("ask", "dropout", "--json").stdout)
    promised = {"text", "refused", "route", "citations", "contexts", "calls", "tokens", "seconds", "trace"}
    assert promised <= set(answer)
    assert {"strategy", "transform", "decided_by", "confidence"} <= set(answer["route"])
    assert {"n", "quote", "document", "title", "page", "start", "end", "support"} <= set(answer["citations"][0])


def test_trace_shows_every_step_with_calls_tokens_and_seconds(rag):
    out = run("ask", "dropout", "--trace").stdout
    for step in ("route", "retrieve", "rank", "grade", "synthesize"):
        assert f"\n  {step} " in out
    assert "decided by the router (93% sure)" in out
    assert "1 call, 598 tokens read (210 cached), 44 written" in out
    assert "first sentence after 3.10 s" in out
    assert "and 5 more (--json shows all)" in out  # of fifteen candidates
    assert "Steps" not in run("ask", "dropout").stdout


def test_a_refusal_is_an_answer(rag):
    result = run("ask", "what is missing?")
    assert result.exit_code == 0
    assert "I could not find the answer" in result.stdout


def test_an_unsupported_sentence_is_marked_and_a_note_is_told_on_standard_error(rag):
    assert "It was later replaced everywhere. (not supported by the library)" in run("ask", "unsupported").stdout
    result = run("ask", "fallback")
    assert "quoted passages" in result.stderr
    assert "quoted passages" not in result.stdout


def test_question_is_read_from_standard_input_even_when_it_is_no_text(rag):
    answer = json.loads(run("ask", "-", "--json", stdin="dropout \N{SNOWMAN}".encode() + b"\xff").stdout)
    assert answer["question"] == "dropout \N{SNOWMAN}\N{REPLACEMENT CHARACTER}"


def test_history_reaches_the_program(rag, tmp_path):
    file = tmp_path / "chat.json"
    file.write_text('[{"question": "What is BERT?", "answer": "An encoder."}]')
    assert run("ask", "dropout", "--history", str(file)).exit_code == 0
    assert rag.histories == [[Turn("What is BERT?", "An encoder.")]]


@pytest.mark.parametrize("content", ["{", '{"question": "a"}', '[{"question": "a"}]', "[1]", "null"])
def test_a_wrong_history_is_a_usage_error_that_says_the_shape(rag, tmp_path, content):
    file = tmp_path / "chat.json"
    file.write_text(content)
    result = run("ask", "dropout", "--history", str(file))
    assert result.exit_code == 2
    assert "must hold a JSON list" in " ".join(result.stderr.split())
    assert rag.histories == []


def test_a_missing_history_file_is_a_usage_error(rag):
    assert run("ask", "dropout", "--history", "nowhere.json").exit_code == 2


@pytest.mark.parametrize(
    ("question", "code", "kind", "says"),
    [
        ("  ", 2, "QuestionError", "The question is empty."),
        ("broken", 1, "LanguageModelError", "The language model did not answer."),
        ("crash", 1, "ZeroDivisionError", "ZeroDivisionError"),
    ],
)
def test_failures_are_a_message_a_hint_and_an_exit_code(rag, question, code, kind, says):
    result = run("ask", question)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {says}")
    assert len(result.stderr.strip().splitlines()) == 2
    assert "Traceback" not in result.stderr
    error = json.loads(run("ask", question, "--json").stdout)["error"]
    assert error["type"] == kind
    assert error["message"].startswith(says)
    assert error["hint"]


def test_interrupting_exits_with_130(monkeypatch):
    class Interrupted(FakeRag):
        def stream(self, question, history=()) -> Iterator[Event | Claim | Answer]:
            yield from ()
            raise KeyboardInterrupt

    monkeypatch.setattr(cli, "load", lambda settings, on_progress: Interrupted())
    assert run("ask", "dropout").exit_code == 130


def test_command_line_wins_over_the_environment(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setenv("RAG_INDEX", "from-environment")
    monkeypatch.setattr(cli, "load", lambda settings, on_progress: seen.append(settings) or FakeRag())
    run("ask", "dropout", "--artifact", "b")
    run("ask", "dropout", "--index", "a")
    assert [(str(s.index), str(s.artifact)) for s in seen] == [("from-environment", "b"), ("a", "None")]


def test_a_wrong_setting_is_named(rag, monkeypatch):
    monkeypatch.setenv("RAG_LM_TIMEOUT", "soon")
    result = run("ask", "dropout")
    assert result.exit_code == 2
    assert "RAG_LM_TIMEOUT" in result.stderr


def test_usage_errors_exit_with_2():
    assert run("ask").exit_code == 2
    assert run("ask", "x", "--nonsense").exit_code == 2
    assert run("nonsense").exit_code == 2


HOSTILE = "\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b]8;;http://a\x1b\\link\x9b2Jx\rover\u202etxt[bold]kept[/bold]\x00"


def test_plain_keeps_words_and_drops_what_moves_the_terminal():
    assert terminal.plain(HOSTILE) == "red linkxovertxt[bold]kept[/bold]"
    assert terminal.plain("a\tb\n中文 é") == "a\tb\n中文 é"
    assert terminal.plain("an unterminated \x1b]sequence hides nothing") == "an unterminated sequence hides nothing"
    assert terminal.plain("word " * 50, 20) == "word word word word…"


def test_nothing_that_comes_from_documents_reaches_the_terminal_raw(monkeypatch):
    class Hostile(FakeRag):
        def stream(self, question, history=()) -> Iterator[Event | Claim | Answer]:
            event = Event(
                "rank", HOSTILE, {"hits": [{"title": HOSTILE, "score": 0.5}], "queries": [HOSTILE], HOSTILE: "x"}
            )
            route = Route("single", "clear", "head", 0.9)
            yield Answer(question, HOSTILE, True, route, trace=Trace((event, Event("note", HOSTILE))))

    monkeypatch.setattr(cli, "load", lambda settings, on_progress: Hostile())
    result = run("ask", "x", "--trace")
    assert result.exit_code == 0
    assert "[bold]kept[/bold]" in result.stdout
    for raw in "\x1b\x9b\r\x00\x07\u202e":
        assert raw not in result.stdout + result.stderr


def test_on_a_terminal_sentences_are_printed_once_as_they_are_released(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    answer = cli._answer(FakeRag(), "dropout", [], as_json=False)
    out = capsys.readouterr().out
    assert [out.count(claim.text) for claim in answer.claims] == [1, 1]
    cli._answer(FakeRag(), "what is missing", [], as_json=False)  # a refusal releases no sentence
    assert "I could not find the answer" in capsys.readouterr().out


def test_json_has_no_nan_and_no_numpy(capsys):
    import numpy as np

    terminal.print_json({"a": [math.nan, np.float32(0.5), np.int64(3)], "b": {1: math.inf}, "c": "\ud800 ü"})
    assert json.loads(capsys.readouterr().out) == {
        "a": [None, 0.5, 3], "b": {"1": None}, "c": "\ud800 ü"
    }  # fmt: skip


def test_help_is_quick_because_nothing_heavy_is_imported():
    heavy = "{'dspy', 'torch', 'numpy', 'gradio', 'sentence_transformers', 'litellm', 'pydantic_settings'}"
    check = f"import sys, program.cli; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", check], text=True, cwd=cli.__file__[:-14]).strip() == "[]"


def test_a_closed_pipe_is_no_error():
    script = (
        "from program.terminal import failures\nimport typer\n"
        "try:\n  with failures(False):\n    [print('x' * 1000) for _ in range(1000)]\n"
        "except typer.Exit as exit:\n  raise SystemExit(exit.exit_code)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cli.__file__[:-14]
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141
    process.stderr.close()


# documents and forget, on a small library of their own


@pytest.fixture
def library(tmp_path):
    from program.retrieval.index import Document

    encoder, place = HashEncoder(), tmp_path / "data" / "library"
    index = EmbeddedIndex.open(place, encoder.fingerprint, encoder.dimensions, create=True)
    chunk = Chunk("c1", "paper.pdf", "A \x1b[31mPaper", "Some text.", end=10)
    vectors, tokens = encode_passages(encoder, [chunk.text])
    index.replace(Document("paper.pdf", chunk.title, "0" * 64, year=2017), [chunk], vectors, tokens)
    index.close()
    return place


def test_documents_lists_the_library(library):
    result = run("documents")
    assert result.exit_code == 0
    assert result.stdout == "document\ttitle\tyear\tfield\tchunks\npaper.pdf\tA Paper\t2017\t\t1\n"
    listed = json.loads(run("documents", "--json").stdout)
    assert listed["index"] == str(library)
    assert listed["documents"][0]["name"] == "paper.pdf"


def test_a_table_on_a_terminal_reads_nothing_as_markup(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    terminal.print_table(("name", "count"), [("[bold]x[/bold] :smile:", 3)])
    assert "[bold]x[/bold] :smile:" in capsys.readouterr().out


def test_documents_of_a_named_folder_that_is_not_there(library, tmp_path):
    result = run("documents", "--index", str(tmp_path / "nowhere"))
    assert result.exit_code == 1
    assert "There is no library in" in result.stderr
    assert not (tmp_path / "nowhere").exists()
    assert json.loads(run("documents", "--index", "nowhere", "--json").stdout)["error"]["type"] == "LibraryMissing"


def test_forget_takes_one_document_out(library):
    assert run("forget", "other.pdf").exit_code == 1
    assert run("forget", "paper.pdf").exit_code == 0
    result = run("forget", "paper.pdf")
    assert result.exit_code == 1
    assert "There is no document 'paper.pdf'" in result.stderr
    assert "The demo library is made with the first question." in run("documents").stderr


def test_what_is_forgotten_never_answers_and_its_file_stays(monkeypatch, tmp_path):
    encoder = HashEncoder()
    monkeypatch.setattr("program.retrieval.encoders.load_encoder", lambda settings: encoder)
    for name, text in (("a", "Zeppelins fly slowly."), ("b", "Submarines dive."), ("c", "Zebras run.")):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\n{text}\n")
    assert run("ingest", "a.md", "b.md", "c.md").exit_code == 0
    result = run("forget", "a.md", str(tmp_path / "b.md"), "x.md", "--json")  # by name, and by path
    assert result.exit_code == 1
    assert json.loads(result.stdout)["forgotten"] == ["a.md", str(tmp_path / "b.md")]
    assert json.loads(result.stdout)["missing"] == ["x.md"]
    with closing(EmbeddedIndex.open_as_made(tmp_path / "data" / "library")) as index:
        for alpha in (0.0, 1.0):
            hits = index.search("zeppelins", encoder.encode(["zeppelins"])[0], k=9, alpha=alpha, fusion="ranked")
            assert {hit.chunk.document for hit in hits} <= {"c.md"}
    assert (tmp_path / "a.md").exists()
    assert json.loads(run("ingest", "a.md", "c.md", "--json").stdout)["counts"] == {"indexed": 1, "unchanged": 1}


def test_ingest_takes_patterns_and_loads_no_encoder_for_what_is_known(monkeypatch, tmp_path):
    loaded = []
    monkeypatch.setattr("program.retrieval.encoders.load_encoder", lambda settings: loaded.append(1) or HashEncoder())
    (tmp_path / "sub").mkdir()
    for name in ("a.md", "sub/b.md", "sub/c.txt"):
        (tmp_path / name).write_text(f"Something about {name}.")
    assert run("ingest", "**/*.md").exit_code == 0
    assert len(loaded) == 2  # to make the index, and to read
    result = run("ingest", "**/*.md")
    assert result.exit_code == 0
    assert "2 unchanged" in result.stderr
    assert len(loaded) == 2
    result = run("ingest", "*.docx")
    assert result.exit_code == 1
    assert "No file matches this pattern." in result.stdout


def test_ingest_passes_its_limits_and_its_password_on(monkeypatch):
    from program.ingest import Limits

    seen = {}
    monkeypatch.setattr("program.retrieval.encoders.load_encoder", lambda settings: HashEncoder())
    monkeypatch.setattr("program.ingest.batch.ingest", lambda *_, **named: seen.update(named) or [])
    assert run("ingest", "x", "--time-limit", "7", "--password", "open").exit_code == 1
    assert (seen["limits"], seen["password"]) == (Limits(seconds=7), "open")
    assert Limits() == Limits(seconds=120)
    assert run("ingest", "x", "--time-limit", "0").exit_code == 2


def test_load_passes_settings_on_and_a_language_model_that_is_down_does_not_stop_it(monkeypatch):
    import program.artifact
    import program.lm

    seen = {}

    def down(settings, on_progress):
        raise LanguageModelError("Connection refused.")

    monkeypatch.setattr(program.artifact, "load", lambda path, **named: seen.update(named, path=path) or FakeRag())
    monkeypatch.setattr(program.lm, "connect", down)
    assert run("ask", "dropout", "--index", "here", "--artifact", "there").exit_code == 0
    assert str(seen["path"]) == "there"
    assert str(seen["settings"].index) == "here"
    assert callable(seen["on_progress"])


def test_missing_weights_do_not_stop_an_answer(monkeypatch):
    import program.artifact
    import program.lm

    def missing(settings, on_progress):
        raise WeightsError("The weights are not on this machine.")

    monkeypatch.setattr(program.artifact, "load", lambda path, **named: FakeRag())
    monkeypatch.setattr(program.lm, "connect", missing)
    assert run("ask", "dropout").exit_code == 0


def test_what_loading_raises_is_told(monkeypatch):
    def missing(settings, on_progress):
        raise LibraryMissing("There is no library in x.", "Ingest first.")

    monkeypatch.setattr(cli, "load", missing)
    result = run("ask", "dropout")
    assert (result.exit_code, result.stderr) == (1, "Error: There is no library in x.\nIngest first.\n")


def test_progress_for_a_log_is_first_last_and_now_and_then(capsys):
    with terminal.progress() as on_progress:
        for done in range(101):
            on_progress(done, 100, "Reading")
    assert capsys.readouterr().err == "Reading (0%)\nReading (100%)\n"


def test_ingest_reports_every_file_and_fails_when_one_could_not_be_read(monkeypatch, tmp_path):
    encoder = HashEncoder()
    monkeypatch.setattr("program.retrieval.encoders.load_encoder", lambda settings: encoder)
    (tmp_path / "notes").mkdir()
    result = run("ingest", "notes")
    assert result.exit_code == 1
    assert "Nothing to index in notes" in result.stderr
    (tmp_path / "notes" / "a.md").write_text("# A title\n\nOne sentence. <|endoftext|> Another one.\n")
    result = run("ingest", "notes")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split("\t")[:3] == ["a.md", "indexed", "1"]
    result = run("ingest", "notes", "missing.md", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["index"] == str(tmp_path / "data" / "library")
    assert [file["status"] for file in found["files"]] == ["unchanged", "unreadable"]
    assert set(found["files"][0]) == {"path", "name", "document", "status", "chunks", "message"}
    assert (found["failed"], found["counts"]) == (1, {"unchanged": 1, "unreadable": 1})
    assert run("documents").stdout.splitlines()[1].startswith("a.md\tA title\t")
    assert run("ingest", "notes", "--index", "named").exit_code == 0  # --index makes the folder
    assert json.loads(run("documents", "--index", "named", "--json").stdout)["documents"][0]["name"] == "a.md"
