"""Loads the real program for the chat: settings, encoder, library, language model, each with its progress."""

from __future__ import annotations

from program.library import is_demo, resolve
from program.settings import Settings
from ui.backend import Loaded, Report


def load_program(settings: Settings, report: Report) -> Loaded:
    """Everything but the language model. Raises ArtifactError, LibraryError, WeightsError."""
    report(0, 0, "Loading the program")
    from program import artifact, lm, weights  # takes seconds, and the page is to be up first

    demo = is_demo(settings, resolve(settings))
    library = "Reading the demo library" if demo else "Reading the library"
    program = artifact.load(
        settings.artifact, settings=settings, on_progress=lambda done, total, _: report(done, total, library)
    )

    def warm_up(report: Report) -> None:
        report(0, 0, "Starting the language model")
        if settings.lm != "none":
            lm.connect(settings, report)  # the program finds what is fetched and started here
        program.warm_up(lambda done, total, _: report(done, total, "Warming up the language model"))

    index = program.retriever.index
    documents = len(index.documents())
    provider, _, name = settings.lm.partition("/")
    models = {"embedded": f"built-in language model ({name or weights.DEFAULT})", "none": "no language model"}
    model = models.get(provider, settings.lm)
    summary = f"{'demo library, ' * demo}{documents} document{'s' * (documents != 1)} · {index.engine} · {model}"
    return Loaded(program, summary, demo, warm_up)
