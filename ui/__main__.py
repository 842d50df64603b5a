"""`python -m ui`: serve the chat."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 7860,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 lets other machines in, without a password.")
    ] = "127.0.0.1",
    index: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The library's folder; else your own once it has documents, else the demo library."
        ),
    ] = None,
    artifact: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The compiled program's folder; else artifacts/default.")
    ] = None,
) -> None:
    """Serve the chat over a library of documents.

    The page is up at once; it says what is still being loaded, and questions wait for that. Programs can ask too:
    gradio_client.Client(ADDRESS).predict("question", api_name="/chat") gives the object of `program ask --json`.

    \b
    Examples:
      python -m ui
      python -m ui --index my-library --port 8080
      RAG_LM=openai/gpt-4o-mini python -m ui
    """
    from program.errors import ProgramError
    from program.terminal import say

    say("Starting the chat")
    try:
        from ui.chat import run

        run(index=index, artifact=artifact, host=host, port=port)
    except ProgramError as error:
        say(f"Error: {error}")
        raise typer.Exit(1) from error


def main() -> None:
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command()(serve)
    app(prog_name="python -m ui")


if __name__ == "__main__":
    main()
