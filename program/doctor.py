"""Checks everything an answer depends on, and says how to mend what is broken. Nothing is fetched."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from program.errors import LibraryMissing, ProgramError, WeightsError
from program.settings import Settings, shipped

if TYPE_CHECKING:
    from program.library import Place

Status = Literal["ok", "warn", "fail"]

GIB = 1024**3
#: Free space and memory, in GiB: under the first number something fails soon, under the second it may.
DISK_GIB = (0.2, 3.0)
MEMORY_GIB = (1.0, 2.5)
PROBE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `mend` says what to do, and is empty when all is well."""

    name: str
    status: Status
    message: str
    mend: str = ""

    def line(self) -> str:
        return f"{self.status:<5} {self.name}: {self.message}" + (f"\n      -> {self.mend}" if self.mend else "")


def run(settings: Settings, *, deep: bool = False) -> Iterator[Check]:
    """Every check, as it is done. `deep` also asks the language model a question, which starts it. Never raises."""
    checks: list[tuple[str, Callable[[Settings], Check]]] = [
        ("language model", _language_model),
        ("weights", _weights),
        ("encoder", _encoder),
        ("reranker", _reranker),
        ("library", _library),
        ("artifact", _artifact),
        ("disk", _disk),
        ("memory", _memory),
    ]
    if deep:
        checks.append(("question", _question))
    for name, check in checks:
        try:
            yield check(settings)
        except ProgramError as error:
            yield Check(name, "fail", str(error.args[0]), error.hint or "See the documentation.")
        except Exception as error:  # a check that breaks is a finding like any other
            yield Check(name, "fail", f"{type(error).__name__}: {error}", "Run `make setup` again.")


def in_force(settings: Settings) -> dict[str, str]:
    """The settings that differ from their defaults, and the folders; keys stay hidden."""
    always = {"lm", "data", "cache"}
    values = {name: getattr(settings, name) for name in Settings.model_fields}
    return {name: str(value) for name, value in values.items() if name in always or name in settings.model_fields_set}


def _language_model(settings: Settings) -> Check:
    name = "language model"
    provider, _, model = settings.lm.partition("/")
    if settings.lm == "none":
        return Check(name, "warn", "none: answers are quoted passages", "Unset RAG_LM for the embedded one.")
    if provider == "embedded":
        try:
            import xllamacpp  # noqa: F401
        except ImportError as error:
            mend = "Run `make setup`; on Debian and Ubuntu also: apt-get install libgomp1. Or set RAG_LM."
            return Check(name, "fail", f"llama.cpp cannot be loaded ({error})", mend)
        return Check(name, "ok", f"embedded llama.cpp, {model or 'default'} model")
    url = settings.lm_url or ("http://localhost:11434/v1" if provider.startswith("ollama") else None)
    if url is not None:
        return _reachable(name, settings, url)
    key = f"{provider.upper()}_API_KEY"
    if settings.lm_key is None and not os.environ.get(key):
        return Check(name, "fail", f"{settings.lm} needs a key, and none is set", f"Set RAG_LM_KEY or {key}.")
    return Check(name, "ok", f"{settings.lm}, with a key (doctor --deep asks it a question)")


def _reachable(name: str, settings: Settings, url: str) -> Check:
    """Whether something that speaks OpenAI's format answers there, with our key."""
    import httpx

    key = settings.lm_key.get_secret_value() if settings.lm_key else ""
    try:
        response = httpx.get(
            f"{url.rstrip('/')}/models",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=PROBE_SECONDS,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        mend = "Start the server, or correct RAG_LM_URL."
        return Check(name, "fail", f"{settings.lm}: no answer from {url} ({type(error).__name__})", mend)
    if response.status_code in (401, 403):
        return Check(name, "fail", f"{settings.lm}: {url} refuses the key", "Set RAG_LM_KEY.")
    if not response.is_success:
        mend = "Correct RAG_LM_URL (it usually ends in /v1); `doctor --deep` asks it a question."
        return Check(name, "warn", f"{settings.lm}: {url} answers with status {response.status_code}", mend)
    return Check(name, "ok", f"{settings.lm} at {url}")


def _weights(settings: Settings) -> Check:
    from program.weights import DEFAULT, find_model

    provider, _, model = settings.lm.partition("/")
    if provider != "embedded":
        return Check("weights", "ok", "none needed: the language model is not the embedded one")
    try:
        file = find_model(model or DEFAULT, settings.model_copy(update={"offline": True}))
    except WeightsError as error:
        mend = "Run `python -m program.weights`, or set RAG_WEIGHTS to a folder that holds them."
        return Check("weights", "fail", str(error.args[0]), mend)
    return Check("weights", "ok", f"{file} ({file.stat().st_size / GIB:.2f} GiB, sha256 as expected)")


def _encoder(settings: Settings) -> Check:
    from program.retrieval.encoders import load_encoder

    encoder = load_encoder(settings)
    return Check("encoder", "ok", f"{encoder.fingerprint}, {encoder.dimensions} dimensions")


def _reranker(settings: Settings) -> Check:
    from program.retrieval.rerankers import load_reranker

    reranker = load_reranker(settings)
    if reranker is None:
        return Check("reranker", "ok", "late interaction over the encoder's token vectors; no cross-encoder is in use")
    return Check("reranker", "ok", f"cross-encoder {reranker.name}")


def _library(settings: Settings) -> Check:
    from program.library import is_demo, resolve
    from program.retrieval.encoders import load_encoder

    place = resolve(settings)
    try:
        index = place.open(load_encoder(settings))
    except LibraryMissing:
        if not is_demo(settings, place):
            raise
        return Check("library", "ok", f"the demo library, to be made with the first question: {place}")
    with closing(index):
        documents, chunks, engine = len(index.documents()), len(index), index.engine
    message = f"{place}: {documents} documents, {chunks} chunks, made with this encoder; {engine}{_size(place)}"
    if not chunks:
        named = f" --index {settings.index}" if settings.index is not None else ""
        return Check("library", "warn", message, f"Add documents: python -m program ingest PATH{named}")
    return Check("library", "ok", message)


def _size(place: Place) -> str:
    """What a library in a folder takes on the disk."""
    from program.library import Folder

    if not isinstance(place, Folder):
        return ""
    return f", {sum(file.stat().st_size for file in place.path.rglob('*') if file.is_file()) / 1024**2:.1f} MiB"


def _artifact(settings: Settings) -> Check:
    from program.artifact import read
    from program.pipeline import AdaptiveRAG
    from program.retrieval.encoders import load_encoder
    from program.retrieval.retriever import Retriever

    folder = settings.artifact or shipped("artifacts/default")
    artifact = read(folder)
    encoder = load_encoder(settings)
    made = artifact.compiled_with
    if made.encoder != encoder.fingerprint:
        mend = "Set RAG_ENCODER to that encoder, or compile again: python -m optimize"
        return Check(
            "artifact", "fail", f"{folder} was compiled for the encoder {made.encoder}, not {encoder.fingerprint}", mend
        )
    # The same checks as loading, without a library.
    artifact.apply(AdaptiveRAG(Retriever(cast(Any, None), encoder)))
    return Check("artifact", "ok", f"{folder}, compiled with {made.language_model}, {made.reranker}")


def _disk(settings: Settings) -> Check:
    free = {place: shutil.disk_usage(_existing(place)).free / GIB for place in (settings.data, settings.cache)}
    place, least = min(free.items(), key=lambda item: item[1])
    status, message = _enough(least, DISK_GIB), f"{least:.1f} GiB free for {place}"
    for folder in free:
        if not os.access(_existing(folder), os.W_OK):
            return Check(
                "disk", "fail", f"{folder} cannot be written to", "Set RAG_DATA and RAG_CACHE to other folders."
            )
    return Check("disk", status, message, "" if status == "ok" else "Free some space, or set RAG_DATA and RAG_CACHE.")


def _memory(_: Settings) -> Check:
    import psutil

    available = psutil.virtual_memory().available / GIB
    status = _enough(available, MEMORY_GIB)
    mend = "Close other programs, or use the small model: RAG_LM=embedded/0.5b"
    return Check("memory", status, f"{available:.1f} GiB available", "" if status == "ok" else mend)


def _question(settings: Settings) -> Check:
    """Asks the language model something, through the same door as every answer."""
    import dspy

    from program import lm
    from program.signatures import ReplyWithoutEvidence

    if settings.lm == "none":
        return Check("question", "ok", "not asked: there is no language model")
    started = time.perf_counter()
    with lm.session(lm.connect(settings)) as meter:
        reply = "".join(lm.stream_text(dspy.Predict(ReplyWithoutEvidence), message="Hello, are you there?")).strip()
    seconds, tokens = time.perf_counter() - started, meter.usage.tokens
    if not reply:
        return Check("question", "fail", f"an empty reply after {seconds:.1f} s", "Set RAG_LM to another model.")
    shown = reply if len(reply) < 80 else reply[:79] + "…"
    return Check("question", "ok", f'replied "{shown}" in {seconds:.1f} s ({tokens} tokens, starting included)')


def _enough(amount: float, bars: tuple[float, float]) -> Status:
    return "fail" if amount < bars[0] else "warn" if amount < bars[1] else "ok"


def _existing(place: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    return next(folder for folder in (place.absolute(), *place.absolute().parents) if folder.exists())
