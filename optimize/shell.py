"""What the commands of `python -m optimize` share: options, what is loaded, what goes where, and how failures end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from program.errors import ProgramError

if TYPE_CHECKING:
    from program.pipeline import AdaptiveRAG

FAILED = 1
DEFAULT_LABELS = "data/labeled"

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
LabelsOption = Annotated[
    Path | None,
    typer.Option("--labels", metavar="DIR", help="Folder with routing and qa (JSONL or CSV); else data/labeled."),
]
IndexOption = Annotated[
    Path | None,
    typer.Option(
        "--index", metavar="DIR", help="The library's folder; else your own once it has documents, else the demo."
    ),
]
ArtifactOption = Annotated[
    Path | None,
    typer.Option("--artifact", metavar="DIR", help="The compiled program's folder; else artifacts/default."),
]


def labels_folder(given: Path | None) -> Path:
    from program.settings import shipped

    return given or shipped(DEFAULT_LABELS)


def load_program(artifact: Path | None, index: Path | None) -> AdaptiveRAG:
    """The compiled program over a library, with progress shown."""
    from program import terminal
    from program.artifact import load
    from program.settings import settings_from

    with terminal.progress() as on_progress:
        return load(artifact, settings=settings_from(index), on_progress=on_progress)


def print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def failures() -> Iterator[None]:
    """Failures raised on purpose as one sentence and an exit code."""
    try:
        yield
    except ProgramError as error:
        say(str(error))
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt:
        say("Interrupted. Run the same command again to go on.")
        raise typer.Exit(130) from None
