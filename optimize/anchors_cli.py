"""`python -m optimize anchors`: does every document of the library find itself?"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from optimize.shell import ArtifactOption, IndexOption, JsonOption, failures, load_program, print_json, say


def find_anchors(
    corpus: Annotated[
        Path | None,
        typer.Option("--set", metavar="DIR", help="A folder with corpus.jsonl (or .gz) instead of a library."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Take so many documents of the set; 0 takes all.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw from the set.")] = 0,
    as_json: JsonOption = False,
    index: IndexOption = None,
    artifact: ArtifactOption = None,
) -> None:
    """Ask every document of the library to find itself, and list those that do not.

    A document is asked for by the first sentence of its abstract, or of its text where it has none, without the words
    of its title; where hardly a word is left, by the next sentence. hit@1 and hit@10 count documents. The list has what
    is not in the first ten: where it came, who was first, and what it was asked for by. A set has a line {"id",
    "title", "text"} for each document; its index is temporary.

    \b
    Examples:
      python -m optimize anchors
      python -m optimize anchors --index ./papers --json
      python -m optimize anchors --set datasets/scifact --limit 1000
    """
    if corpus is not None and index is not None:
        raise typer.BadParameter("--set makes an index of its own; leave --index out.")
    with failures(), ExitStack() as stack:
        from optimize import anchors
        from optimize.progress import Stages
        from program import terminal
        from program.wording import counted

        if corpus is not None:
            index = Path(stack.enter_context(TemporaryDirectory()))
            _index_set(corpus, index, limit, seed)
        program = load_program(artifact, index)
        stack.callback(program.retriever.index.close)
        stages = Stages()
        count = len(program.retriever.index.documents())
        with stages.running(), stages.stage("Asking every document", count) as step:
            found = anchors.find_anchors(program.retriever, program.params, step)
        rates = {f"hit@{k}": round(anchors.hit_rate(found, k), 4) for k in anchors.HIT_AT}
        if as_json:
            print_json({"documents": len(found), **rates, "anchors": [asdict(item) for item in found]})
            return
        if missed := anchors.miss_rows(found):
            terminal.print_table(anchors.COLUMNS, missed)
        later = sum(item.sentence > 1 for item in found)
        note = f" ({later} asked by a later sentence: the first has hardly a word but the title's)" if later else ""
        print(f"{counted(count, 'document')}, " + ", ".join(f"{k} {rate:.1%}" for k, rate in rates.items()) + note)


def _index_set(corpus: Path, place: Path, limit: int, seed: int) -> None:
    from optimize.anchors import index_set
    from program import terminal
    from program.retrieval.encoders import load_encoder
    from program.settings import settings_from
    from program.wording import counted

    with terminal.progress() as on_progress:
        on_progress(0, 0, "Loading the encoder")
        encoder = load_encoder(settings_from())
        reports = index_set(corpus, place, encoder, limit, seed, on_progress)
    lost = [report for report in reports if report.status != "indexed"]
    if lost:
        say(f"{counted(len(lost), 'text')} of {len(reports)} not indexed, the first one: {lost[0].message}")
