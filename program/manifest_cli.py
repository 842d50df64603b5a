"""`python -m program manifest arxiv`: choose papers, and write down which and why, before anything is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from program.terminal import FAILED, failures, print_json, print_table, progress, say

if TYPE_CHECKING:
    from program.ingest.documents import Description
    from program.ingest.download import Download
    from program.settings import Settings

manifest_app = typer.Typer(
    name="manifest",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Write down which papers a library is to be made of, and why, to be read before anything is downloaded.",
)


def fetch_papers(
    file: Path, settings: Settings, on_progress: Callable[[int, int, str], None]
) -> tuple[Sequence[Download], dict[Path, Description]]:
    """Download a manifest's papers into the data folder: what became of each, and what is known of those that are
    there."""
    from program.ingest.download import described, fetch
    from program.ingest.manifest import load_manifest

    manifest = load_manifest(file)
    downloads = fetch(manifest, settings.data / "arxiv", settings, on_progress)
    return downloads, described(manifest, downloads)


@manifest_app.callback()
def manifest() -> None:
    """Keeps `arxiv` a command of its own, with others to come beside it."""


@manifest_app.command()
def arxiv(
    topics: Annotated[Path, typer.Option("--topics", metavar="FILE", help="What the library is about, in YAML.")],
    size: Annotated[int, typer.Option("--size", min=1, max=100_000, metavar="N", help="Papers wanted in all.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where the JSON goes; else standard output.")
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Ask arXiv again instead of using what it answered before.")
    ] = False,
) -> None:
    """Choose papers from arXiv: those picked by hand, then the best of each topic that pass its gates.

    Every answer of arXiv is kept, so that an interrupted run goes on where it was and the same topics give the same
    papers. Exit code 1 when a paper picked by hand is not on arXiv under the title given; the manifest is written
    without it.

    \b
    Examples:
      python -m program manifest arxiv --topics topics.yaml --size 200 --out papers.json
      python -m program ingest --manifest papers.json
    """
    with failures(as_json=False):
        from program.ingest.arxiv import ArXiv
        from program.ingest.manifest import save_manifest
        from program.ingest.polite import PoliteClient
        from program.ingest.selection import select_papers
        from program.ingest.topics import load_topics
        from program.settings import settings_from

        settings, wanted = settings_from(), load_topics(topics)
        with progress() as on_progress, PoliteClient(settings, say=lambda what: on_progress(0, 0, what)) as client:
            chosen = select_papers(wanted, size, ArXiv(client, settings, refresh=refresh), on_progress)
        if out is None:
            print_json(chosen.model_dump())
        else:
            save_manifest(chosen, out)
            rows = [(t.name, t.selected, t.hand_picked, t.rejected, t.spare) for t in chosen.topics]
            print_table(("topic", "selected", "hand-picked", "rejected", "spare"), rows)
        for rejected in chosen.unverified:
            say(f"{rejected.id} ({rejected.title}): {rejected.why}")
        if len(chosen.papers) < size:
            say(f"Only {len(chosen.papers)} of {size} papers were found: add queries, or widen the gates.")
        if out is not None:
            say(f"{len(chosen.papers)} papers are listed in {out}. Read it, then: ingest --manifest {out}")
        if chosen.unverified:
            raise typer.Exit(FAILED)
