"""`python -m optimize`: compile the program, and measure it on labelled questions.

Tables go to standard output, plans, progress and errors to standard error. Exit codes: 0 done, 1 something failed or
the labels are unsound, 2 wrong use, 3 the compiled program was no better and was not written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from optimize.anchors_cli import find_anchors
from optimize.labels_cli import labels_app
from optimize.shell import (
    ArtifactOption,
    IndexOption,
    JsonOption,
    LabelsOption,
    failures,
    labels_folder,
    load_program,
    print_json,
    say,
)
from program.errors import ArtifactError, LabelError

if TYPE_CHECKING:
    from optimize.labels import QuestionLabel, RoutingLabel
    from optimize.plan import Budget, Line
    from optimize.run import Outcome, Run
    from program.artifact import Artifact
    from program.pipeline import AdaptiveRAG
    from program.settings import Settings

WRONG_USE, NOT_WRITTEN = 2, 3

app = typer.Typer(
    name="optimize",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    invoke_without_command=True,
)
app.add_typer(labels_app, name="labels")
app.command("anchors")(find_anchors)


def main() -> None:
    """Entry point of `python -m optimize`."""
    app()


@app.callback()
def optimize(
    context: typer.Context,
    budget: Annotated[
        Literal["tiny", "quick", "medium", "full"],
        typer.Option(
            help="tiny: try it out. quick: under 25 minutes with the embedded model. medium: 90. full: a night."
        ),
    ] = "quick",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the compiled program is written.")] = Path(
        "artifacts/default"
    ),
    labels: LabelsOption = None,
    index: IndexOption = None,
    artifact: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The compiled program to start from and to beat; else the one in --out."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of every draw.")] = 0,
    optimizer: Annotated[
        Literal["bootstrap", "miprov2", "gepa"],
        typer.Option(help="bootstrap: few-shot examples. miprov2: instructions too. gepa: instructions by reflection."),
    ] = "bootstrap",
    only: Annotated[
        str,
        typer.Option(metavar="STAGES", help="Some of head,tune,compile,thresholds; what is left out stays as it is."),
    ] = "head,tune,compile,thresholds",
    force: Annotated[
        bool, typer.Option("--force", help="Write the compiled program even where it is no better.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do all work again; else finished work of earlier runs is used.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")] = False,
) -> None:
    """Compile the program against labelled questions, and compare it with the uncompiled one.

    Fits the router's head, tunes retrieval and ranking, compiles few-shot examples with DSPy, tunes the bars, asks
    the test part, and writes the result as an artifact. The plan with its cost comes first. An interrupted run goes
    on where it stopped. What is no better on the dev part than the artifact in its place is not written (exit code 3).

    \b
    Examples:
      python -m optimize --budget quick
      python -m optimize --budget tiny --out artifacts/trial --yes
      python -m optimize --only head,tune
      python -m optimize --labels my/labels --index my/library --out artifacts/mine
      RAG_LM=openai/gpt-4o-mini python -m optimize --budget medium --optimizer gepa
      python -m optimize labels check
      python -m optimize compare data/labeled/qa.jsonl --json
      python -m optimize eval --part test
      python -m optimize anchors
    """
    if context.invoked_subcommand is not None:
        return
    with failures():
        stages = [stage.strip() for stage in only.split(",") if stage.strip()]
        from optimize.plan import BUDGETS, STAGES

        if unknown := sorted(set(stages) - set(STAGES)) or not stages:
            raise typer.BadParameter(f"--only takes some of {','.join(STAGES)}, not {unknown or 'nothing'}.")
        run, settings = _prepare(labels, index, artifact or out, BUDGETS[budget], stages, optimizer, seed, fresh)
        lines = _planned(run, settings)
        _show_plan(run, lines)
        if (
            not yes
            and sys.stdin.isatty()
            and sys.stderr.isatty()
            and not typer.confirm("Start?", default=True, err=True)
        ):
            raise typer.Exit(0)
        with run.stages.running():
            outcome = run(out.resolve().name)
        _finish(run, outcome, out, force)


@app.command()
def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Questions in the shape of qa.jsonl.")],
    as_json: JsonOption = False,
    index: IndexOption = None,
    artifact: ArtifactOption = None,
) -> None:
    """For labelled questions, where the gold is lost: naive retrieval, pool, evidence, answer.

    Naive retrieval is the three chunks nearest to the question as typed. The evidence is what the answer is written
    from, at most 6 passages and 1,200 tokens. All gold quotes of a question must be there. A question that cannot be
    answered has no gold, and is right when refused.

    \b
    Examples:
      python -m optimize compare data/labeled/qa.jsonl
      python -m optimize compare questions.jsonl --index ./papers --json
    """
    with failures():
        from optimize.compare import compare as compare_one
        from optimize.compare import totals
        from optimize.labels import read_questions
        from optimize.progress import Stages
        from program import terminal

        questions = read_questions(file)
        program = load_program(artifact, index)
        stages, found = Stages(), []
        with stages.running(), stages.stage("Comparing", len(questions)) as step:
            for label in questions:
                found.append(compare_one(program, label))
                step()
        if as_json:
            print_json([asdict(item) for item in found])
            return
        rows = [(c.question, *(_yes(v) for v in (c.naive, c.pool, c.evidence, c.answer))) for c in found]
        terminal.print_table(("question", "naive", "pool", "evidence", "answer"), rows)
        print(totals(found))


@app.command("eval")
def evaluate(
    part: Annotated[Literal["train", "dev", "test"], typer.Option(help="Which part of the labels is asked.")] = "test",
    of: Annotated[
        Literal["answers", "routing", "retrieval"],
        typer.Option(help="What is measured: whole answers, or one station of the program on its own."),
    ] = "answers",
    limit: Annotated[int, typer.Option(min=0, help="Ask a stratified sample of so many; 0 asks all.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample and the intervals.")] = 0,
    as_json: JsonOption = False,
    labels: LabelsOption = None,
    index: IndexOption = None,
    artifact: ArtifactOption = None,
) -> None:
    """Ask the compiled program labelled questions, and score what it does.

    answers: right answers, citations, refusals, recall, MRR, and cost per route. routing: accuracy and F1 of the head,
    of the language model, and of both together. retrieval: recall@5 and all-gold@10 by nearness alone (dense), by the
    program's search with the question as it is, and with the queries of the question's own transform.

    \b
    Examples:
      python -m optimize eval
      python -m optimize eval --part dev --limit 10 --json
      python -m optimize eval --of routing --part dev
    """
    with failures():
        from optimize.evaluate import sample
        from optimize.labels import QUESTIONS, ROUTING, find, read_questions, read_routing

        folder = labels_folder(labels)
        read: Sequence[RoutingLabel] = (
            read_routing(find(folder, ROUTING)) if of == "routing" else read_questions(find(folder, QUESTIONS))
        )
        asked = [label for label in read if label.part == part]
        if not asked:
            raise LabelError(f"No question is in part {part}.", "Choose another --part.")
        _EVALUATIONS[of](load_program(artifact, index), sample(asked, limit or len(asked), seed), part, seed, as_json)


def _evaluate_answers(program: AdaptiveRAG, asked: list[QuestionLabel], part: str, seed: int, as_json: bool) -> None:
    from optimize import evaluate as evaluation
    from optimize.report import score_rows
    from program import terminal

    with _asking(part, len(asked)) as step:
        records = evaluation.run_over(program, asked, step)
    summary, costs = evaluation.summary(records, seed), evaluation.cost_per_route(records)
    if as_json:
        records_json = evaluation.to_json(records)
        print_json({"part": part, "summary": summary, "cost_per_route": costs, "records": records_json})
        return
    terminal.print_table(("score", f"{part} part, {len(records)} questions"), score_rows({"": summary}))
    terminal.print_table(
        ("route", "questions", "right", "calls", "tokens", "seconds"),
        [(route, *cost.values()) for route, cost in costs.items()],
    )


def _evaluate_routing(program: AdaptiveRAG, asked: list[RoutingLabel], part: str, _seed: int, as_json: bool) -> None:
    from optimize import stations
    from optimize.head import standing_alone
    from program import terminal

    with _asking(part, len(standing_alone(asked))) as step:
        routed = stations.routing(program, asked, step)
    if as_json:
        print_json({"part": part, **asdict(routed)})
        return
    terminal.print_table((f"{part} part, {len(routed.gold)} questions", *routed.given), routed.rows())


def _evaluate_retrieval(program: AdaptiveRAG, asked: list[QuestionLabel], part: str, _seed: int, as_json: bool) -> None:
    from optimize import stations
    from program import terminal

    with _asking(part, sum(bool(label.quotes) for label in asked)) as step:
        found = stations.retrieval(program, asked, step)
    if as_json:
        print_json({"part": part, "ranks": {item.label.id: item.ranks for item in found}})
        return
    print(f"{part} part: recall@{stations.RECALL_AT} / all-gold@{stations.ALL_GOLD_AT}")
    terminal.print_table(("class", "questions", *stations.WAYS), stations.retrieval_rows(found))


_EVALUATIONS: Mapping[str, Callable[[AdaptiveRAG, list[Any], str, int, bool], None]] = {
    "answers": _evaluate_answers,
    "routing": _evaluate_routing,
    "retrieval": _evaluate_retrieval,
}


@contextmanager
def _asking(part: str, n: int) -> Iterator[Callable[[], None]]:
    from optimize.progress import Stages

    stages = Stages()
    with stages.running(), stages.stage(f"Asking the {part} part", n) as step:
        yield step


def _prepare(
    labels: Path | None,
    index: Path | None,
    standing: Path,
    budget: Budget,
    only: list[str],
    optimizer: Literal["bootstrap", "miprov2", "gepa"],
    seed: int,
    fresh: bool,
) -> tuple[Run, Settings]:
    from optimize.labels import read_labels
    from optimize.progress import Stages
    from optimize.run import Run, journal_for
    from program import artifact as artifacts
    from program import terminal
    from program.library import open_library
    from program.retrieval.encoders import load_encoder
    from program.retrieval.rerankers import load_reranker
    from program.retrieval.retriever import Retriever
    from program.settings import settings_from

    settings = settings_from(index)
    read = read_labels(labels_folder(labels))
    with terminal.progress() as on_progress:
        on_progress(0, 0, "Loading the encoder")
        encoder, reranker = load_encoder(settings), load_reranker(settings)
        retriever = Retriever(open_library(settings, encoder, on_progress=on_progress), encoder, reranker)
    # One connection to the language model serves every program of the run.
    connect = artifacts.connector(settings)
    connected: list[Any] = []

    def language_model() -> Any:
        if not connected and connect is not None:
            connected.append(connect())
        return connected[0]

    def make() -> AdaptiveRAG:
        from program.pipeline import AdaptiveRAG

        return AdaptiveRAG(retriever, lm=language_model if connect else None)

    journal = journal_for(settings.cache, settings.lm, encoder.fingerprint, retriever.ranker, fresh=fresh)
    incumbent = _incumbent(standing, encoder.fingerprint, make())
    run = Run(make, read, budget, journal, Stages(), only, settings.lm, optimizer, seed, incumbent)
    return run, settings


def _incumbent(folder: Path, encoder: str, program: AdaptiveRAG) -> Artifact | None:
    """The artifact in the place of the new one, if it can be used here."""
    from program.artifact import read

    if not (folder / "artifact.json").exists():
        return None
    try:
        standing = read(folder)
        if standing.compiled_with.encoder != encoder:
            raise ArtifactError(f"The artifact in {folder} was made with the encoder {standing.compiled_with.encoder}.")
        standing.apply(program)
    except ArtifactError as error:
        say(f"{error.args[0]} It is not compared with.")
        return None
    return standing


def _planned(run: Run, settings: Settings) -> list[Line]:
    """The estimate, and the run's budget cut to its minutes. Starts the language model."""
    from optimize.plan import estimate, fitted, measure

    if settings.lm == "none":
        say("No language model is set (RAG_LM=none): only the router's head, retrieval and the bars are tuned.")
        return estimate(run.labels, run.budget, None, run.only, run.optimizer)
    say("Measuring the language model's speed ...")
    speed = measure(run.make().language_model())
    say(f"It reads {speed.read:.0f} and writes {speed.write:.0f} tokens a second.")
    lines = estimate(run.labels, run.budget, speed, run.only, run.optimizer)
    smaller = fitted(run.budget, lines)
    if smaller != run.budget:
        say(f"That would take more than {run.budget.minutes:.0f} minutes: smaller samples are used.")
        run.budget = smaller
        lines = estimate(run.labels, smaller, speed, run.only, run.optimizer)
    return lines


def _show_plan(run: Run, lines: list[Line]) -> None:
    from optimize.report import plan_rows

    say(f"Plan ({run.budget.name}, seed {run.seed}): language-model calls at most, and minutes")
    for stage, calls, minutes in plan_rows(lines):
        say(f"  {stage:<36}{calls:>6}{minutes:>8}")


def _finish(run: Run, outcome: Outcome, out: Path, force: bool) -> None:
    from optimize.report import number_rows, predictor_rows, score_rows
    from program import terminal
    from program.artifact import save
    from program.params import Params

    report = outcome.artifact.report
    if compiled := report.get("predictors"):
        terminal.print_table(
            ("predictor", "before", "after", "n", "examples", "their tokens"), predictor_rows(compiled)
        )
    changed = number_rows(Params().model_dump(), outcome.artifact.params.model_dump())
    terminal.print_table(("number", "default", "compiled"), changed)
    both = {name: report[name] for name in ("uncompiled", "compiled")}
    terminal.print_table((f"test part, {report['sample']}", *both), score_rows(both))
    scores = f"{outcome.after:.3f} on dev, {outcome.against} {outcome.before:.3f}"
    if run.incumbent is not None and not outcome.better and not force:
        say(f"Not written: the compiled program scores {scores}. --force writes it all the same.")
        raise typer.Exit(NOT_WRITTEN)
    save(outcome.artifact, out)
    say(f"Written to {out} (scores {scores}; {run.journal.reused} results of earlier runs were used).")


def _yes(value: bool) -> str:
    return "yes" if value else "no"
