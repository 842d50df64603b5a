"""The command line: `python -m program ask|ingest|documents|forget|migrate|doctor`.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done (a refusal is an answer too),
1 something failed, 2 the command or the question was wrong, 130 interrupted. Heavy parts are imported by the commands
that need them, so that `--help` is quick.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from program.errors import LanguageModelError, LibraryMissing, WeightsError
from program.manifest_cli import fetch_papers, manifest_app
from program.migrate import migrate
from program.terminal import (
    FAILED,
    StatusLine,
    answer_text,
    citation_lines,
    claim_text,
    failures,
    plain,
    print_json,
    print_table,
    progress,
    say,
    trace_lines,
)

if TYPE_CHECKING:
    from program.pipeline import AdaptiveRAG
    from program.retrieval.encoders import Encoder
    from program.settings import Settings
    from program.types import Answer, Turn

app = typer.Typer(
    name="program",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    help="Ask a library of documents; every sentence of an answer cites the passage it was checked against.\n\n"
    'Start with: python -m program ask "How many attention heads does BERT-large have?"\n\n'
    "Settings come from the environment (RAG_LM, RAG_INDEX, ...); `python -m program doctor` shows and checks them.",
)
app.add_typer(manifest_app)

IndexOption = Annotated[
    Path | None,
    typer.Option(
        "--index",
        metavar="DIR",
        help="The library's folder; else your own once it has documents, else the demo library.",
    ),
]
ArtifactOption = Annotated[
    Path | None,
    typer.Option("--artifact", metavar="DIR", help="The compiled program's folder; else artifacts/default."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines; errors too.")]


def main() -> None:
    """Entry point of `python -m program` and of the installed command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # text the terminal's encoding lacks must not stop an answer
    app()


def load(settings: Settings, on_progress: Callable[[int, int, str], None]) -> AdaptiveRAG:
    """The program that answers, its language model connected. Tests put another one here."""
    from program import lm
    from program.artifact import load as load_artifact

    rag = load_artifact(settings.artifact, settings=settings, on_progress=on_progress)
    if settings.lm != "none":
        # Here, not with the first step, so that fetching weights shows. One that fails is told in the trace.
        with suppress(LanguageModelError, WeightsError):
            lm.connect(settings, on_progress)
    return rag


@app.command()
def ask(
    words: Annotated[
        list[str], typer.Argument(metavar="QUESTION", help="The question; - reads it from standard input.")
    ],
    trace: Annotated[
        bool, typer.Option("--trace", help="Print every step: route, queries, scores, calls, seconds.")
    ] = False,
    history: Annotated[
        Path | None,
        typer.Option(
            "--history", metavar="FILE", help='Earlier turns: JSON, a list of {"question": ..., "answer": ...}.'
        ),
    ] = None,
    as_json: JsonOption = False,
    index: IndexOption = None,
    artifact: ArtifactOption = None,
) -> None:
    """Answer a question, with numbered citations.

    Exit code 0 for an answer, and for a refusal, which says what is missing.

    \b
    Examples:
      python -m program ask "Which optimizer was used to train the Transformer?"
      python -m program ask --trace "And how long did that take?" --history chat.json
      echo "What is LoRA?" | python -m program ask - --json | jq .citations
    """
    with failures(as_json):
        settings = _settings(index, artifact)
        question, turns = _question(words), _history(history)
        with progress() as on_progress:
            rag = load(settings, on_progress)
        answer = _answer(rag, question, turns, as_json=as_json)
        if as_json:
            print_json(answer.to_dict())
            return
        if answer.citations:
            print()
        for line in citation_lines(answer.citations):
            print(line)
        if trace:
            print()
            for line in trace_lines(answer):
                print(line)


@app.command()
def ingest(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH...", help="Files, folders with all that is in them, or patterns such as '**/*.pdf'."
        ),
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option("--manifest", metavar="FILE", help="Download and add the papers that `program manifest` chose."),
    ] = None,
    password: Annotated[
        str | None, typer.Option("--password", envvar="RAG_PASSWORD", help="Opens encrypted files.")
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option("--time-limit", min=1, metavar="SECONDS", help="Time to read one file, or one page of a scan."),
    ] = 120,
    retry: Annotated[
        bool, typer.Option("--retry", help="Try again what could not be read before, though nothing has changed.")
    ] = False,
    as_json: JsonOption = False,
    index: IndexOption = None,
    artifact: ArtifactOption = None,
) -> None:
    """Add documents to a library; files that have not changed are left alone, changed ones replace what it had of them.

    Without --index they go to your own library, which questions are asked to from then on. A run that was interrupted
    goes on where it was when it is started again. Exit code 1 when a file could not be read; all others are indexed
    nevertheless.

    \b
    Examples:
      python -m program ingest paper.pdf notes/ 'archive/**/*.docx'
      python -m program ingest locked.pdf --password secret
      python -m program ingest --manifest papers.json
      python -m program ingest paper.pdf --index ./papers && python -m program ask "..." --index ./papers
    """
    if not paths and manifest is None:
        raise typer.BadParameter("Give a PATH, or a --manifest.", param_hint="PATH...")
    with failures(as_json):
        from program.ingest import FileReport, Limits
        from program.ingest import ingest as ingest_files
        from program.ingest.readers import READERS
        from program.library import library_for_writing
        from program.retrieval.encoders import load_encoder

        settings = _settings(index, artifact)
        place = library_for_writing(settings)
        with progress() as on_progress:
            downloads, known = fetch_papers(manifest, settings, on_progress) if manifest else ((), {})

            def encoder() -> Encoder:
                on_progress(0, 0, "Loading the encoder")
                return load_encoder(settings)

            with closing(place.open_or_make(encoder)) as library:
                try:
                    reports = ingest_files(
                        [*map(Path, paths or ()), *known],
                        library,
                        encoder,
                        password=password,
                        limits=Limits(seconds=time_limit),
                        retry=retry,
                        described=known,
                        on_progress=on_progress,
                    )
                except KeyboardInterrupt:
                    say(f"Interrupted. {place} keeps what is indexed; the same command goes on from there.")
                    raise
        reports += [FileReport(str(d.path), d.id, "", "not downloaded", 0, d.message) for d in downloads if not d.ok]
        failed = [report for report in reports if report.failed]
        counts = Counter(report.status for report in reports)
        if as_json:
            print_json({"index": str(place), "files": reports, "counts": counts, "failed": len(failed)})
        elif reports:
            rows = [(r.name, r.status, r.chunks, r.message) for r in reports]
            print_table(("file", "status", "chunks", "message"), rows)
            if counts["unsupported"]:
                say(f"Supported: {', '.join(sorted(READERS))}.")
        if not reports:
            given = [*(paths or ()), *([str(manifest)] if manifest else ())]
            say(f"Nothing to index in {', '.join(given)}: no files there.")
        else:
            say(f"{', '.join(f'{n} {status}' for status, n in counts.most_common())}; the library is {place}.")
        if failed or not reports:
            raise typer.Exit(FAILED)


@app.command()
def documents(as_json: JsonOption = False, index: IndexOption = None, artifact: ArtifactOption = None) -> None:
    """List the documents of the library that questions are asked to.

    \b
    Example:
      python -m program documents --json | jq -r '.documents[].name'
    """
    with failures(as_json):
        from program.library import is_demo, resolve

        settings = _settings(index, artifact)
        place = resolve(settings)
        try:
            with closing(place.open_as_made()) as library:
                found, engine = library.documents(), library.engine
        except LibraryMissing as error:
            if not is_demo(settings, place):
                raise
            raise LibraryMissing("The demo library is made with the first question.", "Ask one, or ingest.") from error
        if as_json:
            print_json({"index": str(place), "engine": engine, "documents": found})
            return
        rows = [(d.name, d.title, d.year or "", d.field, d.chunks) for d in found]
        print_table(("document", "title", "year", "field", "chunks"), rows)
        say(f"{len(found)} document{'s' * (len(found) != 1)} in {place} ({engine}).")


@app.command()
def forget(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="Documents, as `documents` lists them, or their files' paths."),
    ],
    as_json: JsonOption = False,
    index: IndexOption = None,
    artifact: ArtifactOption = None,
) -> None:
    """Take documents out of your own library, or of the one that --index names. The files themselves are not touched.

    Exit code 1 when one of them is not there; the others are taken out nevertheless.

    \b
    Example:
      python -m program forget paper.pdf
    """
    with failures(as_json):
        from program.library import library_for_writing

        place = library_for_writing(_settings(index, artifact))
        with closing(place.open_as_made()) as library:
            by_path = {document.path: document.name for document in library.documents() if document.path}
            wanted = {name: by_path.get(str(Path(name).resolve()), name) for name in names}
            gone = {name: library.delete(document) or library.delete(name) for name, document in wanted.items()}
        missing = [name for name, found in gone.items() if not found]
        if as_json:
            print_json({"index": str(place), "forgotten": [name for name in names if gone[name]], "missing": missing})
        for name in () if as_json else names:
            say(f"{name} is no longer in {place}." if gone[name] else f"There is no document {name!r} in {place}.")
        if missing:
            say("`python -m program documents` lists what there is.")
            raise typer.Exit(FAILED)


app.command()(migrate)


@app.command()
def doctor(
    deep: Annotated[bool, typer.Option("--deep", help="Also ask the language model a question.")] = False,
    as_json: JsonOption = False,
    index: IndexOption = None,
    artifact: ArtifactOption = None,
) -> None:
    """Check language model, weights, encoder, reranker, library, compiled program, disk and memory.

    Every line that is not ok says how to mend it. Exit code 1 when something must be mended. Nothing is fetched.

    \b
    Examples:
      python -m program doctor --deep
      RAG_LM=ollama/qwen2.5 python -m program doctor
    """
    with failures(as_json):
        from program import doctor as checks

        settings = _settings(index, artifact)
        done: list[checks.Check] = []
        if not as_json:
            for name, value in checks.in_force(settings).items():
                print(f"      RAG_{name.upper()}={plain(value)}")
        for check in checks.run(settings, deep=deep):
            done.append(check)
            if not as_json:
                print(plain(check.line()), flush=True)
        failed = any(check.status == "fail" for check in done)
        if as_json:
            found = {"ok": not failed, "settings": checks.in_force(settings), "checks": done}
            print_json(found)
        if failed:
            raise typer.Exit(FAILED)


def _answer(rag: AdaptiveRAG, question: str, turns: Sequence[Turn], *, as_json: bool) -> Answer:
    """Ask; show the steps on standard error as they happen, and print the answer: on a terminal each sentence as it is
    released, else in one piece."""
    from program.types import Answer, Claim

    live = sys.stdout.isatty() and not as_json
    printed: list[str] = []
    status = StatusLine()
    status.show("Thinking")
    answer: Answer | None = None
    with closing(rag.stream(question, turns)) as items:  # type: ignore[type-var]
        for item in items:
            if isinstance(item, Answer):
                answer = item
            elif not isinstance(item, Claim):
                if not printed:
                    status.show(item.summary)
            elif live:
                status.clear()
                printed.append(claim_text(item))
                print(printed[-1], end=" ", flush=True)
    status.clear()
    assert answer is not None  # the stream's contract
    for note in answer.trace.of("note"):
        say(f"Note: {note.summary}")
    text = answer_text(answer)
    if not as_json:
        print(text if not printed else "" if " ".join(printed) == text else f"\n\n{text}")
    return answer


def _settings(index: Path | None, artifact: Path | None) -> Settings:
    from program.settings import settings_from  # half a second that `--help` need not wait for

    return settings_from(index, artifact)


def _question(words: Sequence[str]) -> str:
    if list(words) == ["-"]:
        if sys.stdin.isatty():
            say("Type the question, then Ctrl-D.")
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    # Bytes that are no text reach Python as lone surrogates, which no tokenizer takes.
    return " ".join(words).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _history(file: Path | None) -> list[Turn]:
    if file is None:
        return []
    from pydantic import TypeAdapter, ValidationError

    from program.types import Turn

    try:
        return TypeAdapter(list[Turn]).validate_json(file.read_bytes())
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read ({error.strerror}).", param_hint="--history") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"[{part!r}]" for part in first["loc"])
        raise typer.BadParameter(
            f'{file} must hold a JSON list of {{"question": ..., "answer": ...}}; {place or "it"}: {first["msg"]}.',
            param_hint="--history",
        ) from error
