"""Which language model answers, and everything said to it.

`connect` gives a `dspy.LM` for the settings: the embedded llama.cpp server, or any provider or OpenAI-compatible URL.
Inside `with session(lm) as meter:` predictors are called with `call` (a structured reply) or `stream_text` (plain
text, piece by piece); `meter.usage` counts what was really sent and read. Every failure is a LanguageModelError;
a reply outside its form is the kind of it after which the model may be asked again, OutputError.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_origin

# DSPy asks litellm for its price list over the network otherwise: 5 s and a warning on a machine without one.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")

import dspy
from dspy.lm15 import (
    AccessPolicy,
    EndpointSupport,
    ModelSupport,
    OpenAIChatCompat,
    ProviderDefinition,
    register_provider,
)
from dspy.utils.exceptions import AdapterParseError

from program import embedded_server
from program.adapters import TextAdapter, adapter_for
from program.errors import LanguageModelError, OutputError
from program.settings import Settings
from program.types import Usage
from program.weights import DEFAULT, find_model

# Says "truncated" on standard error for each reply that reaches its bound; such a reply is repaired, or is an error.
logging.getLogger("dspy.clients.lm").setLevel(logging.ERROR)

Progress = Callable[[int, int, str], None]

_DECLARED = ("llamacpp", "ollama-server", "openai-compatible")  # our names for servers that speak OpenAI's format
OLLAMA_URL = "http://localhost:11434/v1"

_registering = threading.Lock()
_refuses_schemas: set[str] = set()  # models whose server answered a schema with "invalid request"
_embedded: dict[str, embedded_server.EmbeddedServer] = {}


def connect(settings: Settings, on_progress: Progress | None = None) -> dspy.LM:
    """The language model the settings name; starts the embedded server when that is the one.

    on_progress: (bytes done, bytes in all, what) while weights are fetched. Raises LanguageModelError, WeightsError.
    """
    provider, _, model = settings.lm.partition("/")
    key = settings.lm_key.get_secret_value() if settings.lm_key else None
    if provider == "embedded":
        weights = find_model(model or DEFAULT, settings, on_progress)
        server = embedded_server.start(weights, settings.cache / "prefixes")
        lm = _compatible("llamacpp", server.model, f"{server.address}/v1", server.key, settings)
        _embedded[lm.model] = server
        return lm
    if not model:
        raise LanguageModelError(
            f"RAG_LM={settings.lm} names no model.", "Write provider/model, for example RAG_LM=openai/gpt-4o-mini."
        )
    if provider in ("ollama", "ollama_chat"):
        return _compatible("ollama-server", model, settings.lm_url or OLLAMA_URL, key, settings)
    if settings.lm_url and provider == "openai":
        return _compatible("openai-compatible", model, settings.lm_url, key, settings)
    options: dict[str, Any] = {"api_key": key, "api_base": settings.lm_url}
    return _language_model(settings.lm, settings, **{k: v for k, v in options.items() if v})


def embedded(lm: dspy.LM) -> embedded_server.EmbeddedServer | None:
    """The server in this process that answers for `lm`, or None when another does."""
    return _embedded.get(lm.model)


def _compatible(provider: str, model: str, url: str, key: str | None, settings: Settings) -> dspy.LM:
    """A server that speaks OpenAI's chat format. Declared to DSPy as one that takes JSON schemas, which llama.cpp,
    vLLM, Ollama, LM Studio and most gateways do; `call` does without for a server that refuses them."""
    access = AccessPolicy(
        provider=provider,
        supports=EndpointSupport(complete=True, stream=True, models=True),
        auth_modes=("bearer",),
        base_url=url,
    )
    definition = ProviderDefinition.chat(access, compat=OpenAIChatCompat.preset("lmstudio"), placeholder_key="none")
    with _registering:  # a language model binds the declarations that stand when it is made
        register_provider(definition, supports=ModelSupport(response_schema=True), replace=True)
        return _language_model(f"{provider}/{model}", settings, **({"api_key": key} if key else {}))


def _language_model(model: str, settings: Settings, **options: Any) -> dspy.LM:
    """Temperature 0 and a bound on every reply, except for reasoning models, whose thinking needs the room."""
    try:
        return dspy.LM(
            model,
            temperature=0.0,
            max_tokens=512,
            cache=False,  # DSPy's cache would report no usage, stream nothing, and keep pickles on disk
            num_retries=2,  # after 1 and 2 s: a server that is down is known within a few seconds
            timeout=settings.lm_timeout,
            **options,
        )
    except dspy.LMConfigurationError:
        return dspy.LM(model, cache=False, num_retries=2, timeout=settings.lm_timeout, **options)
    except ValueError as error:
        raise LanguageModelError(f"RAG_LM={settings.lm} cannot be used: {error}.") from error


class Meter:
    """Counts language-model use. DSPy reports to it as its usage tracker; safe to read and write from any thread."""

    def __init__(self, parent: Any = None) -> None:
        self._parent = parent
        self._usage = Usage()
        self._lock = threading.Lock()

    @property
    def usage(self) -> Usage:
        with self._lock:
            return self._usage

    def add_usage(self, lm: str, usage: dict[str, Any]) -> None:
        """One call, with the counts in OpenAI's shape; a count that the provider does not report is 0."""
        details = usage.get("prompt_tokens_details") or {}
        call_usage = Usage(
            calls=1,
            prompt_tokens=usage.get("prompt_tokens") or 0,
            cached_tokens=(details.get("cached_tokens") if isinstance(details, dict) else 0) or 0,
            completion_tokens=usage.get("completion_tokens") or 0,
        )
        with self._lock:
            self._usage += call_usage
        if self._parent is not None:
            self._parent.add_usage(lm, usage)

    def __deepcopy__(self, memo: dict[int, Any]) -> Meter:
        return self  # DSPy copies trackers into its worker threads; this one counts for all of them


@contextmanager
def session(lm: dspy.LM) -> Iterator[Meter]:
    """`lm` for every predictor called inside; the Meter counts their use (and reports to an enclosing tracker)."""
    meter = Meter(dspy.settings.usage_tracker)
    with dspy.context(lm=lm, usage_tracker=meter, disable_history=True, max_trace_size=500):
        yield meter


def call(predictor: dspy.Predict, **inputs: Any) -> dspy.Prediction:
    """The predictor's reply, inside a session. Raises OutputError for a reply outside its form, LanguageModelError for
    every other failure."""
    lm = predictor.lm or dspy.settings.lm
    schemas = lm.model not in _refuses_schemas
    try:
        try:
            return _predict(predictor, inputs, schemas=schemas)
        except (dspy.LMInvalidRequestError, dspy.LMUnsupportedFeatureError) as error:
            if not schemas or _too_long(error) or isinstance(adapter_for(predictor.signature), TextAdapter):
                raise
            prediction = _predict(predictor, inputs, schemas=False)
            _refuses_schemas.add(lm.model)
            return prediction
    except (dspy.LMError, AdapterParseError) as error:
        raise _explained(error, lm.model) from error


def _predict(predictor: dspy.Predict, inputs: dict[str, Any], *, schemas: bool) -> dspy.Prediction:
    with dspy.context(adapter=adapter_for(predictor.signature, schemas=schemas)):
        return predictor(**inputs, config=_config(predictor))


def stream_text(predictor: dspy.Predict, **inputs: Any) -> Generator[str]:
    """The reply of a plain-text predictor piece by piece, inside a session.

    Closing the iterator ends the request, and with it the work of the server; it then counts as one call with the
    pieces given, for the server never says what it read. Raises LanguageModelError, also after some pieces when the
    stream breaks off.
    """
    lm, meter = predictor.lm or dspy.settings.lm, dspy.settings.usage_tracker
    pieces: queue.SimpleQueue[str | BaseException | None] = queue.SimpleQueue()
    loop = asyncio.new_event_loop()

    async def pump() -> None:
        streamed = False
        try:
            program = dspy.streamify(predictor, is_async_program=True)
            async for value in program(**inputs, config=_config(predictor)):
                if isinstance(value, dspy.Prediction):
                    if not streamed:  # an engine without streaming
                        pieces.put(next(iter(value.values())))
                elif text := _delta(value):
                    streamed = True
                    pieces.put(text)
        except BaseException as error:
            pieces.put(error)
        pieces.put(None)

    with dspy.context(adapter=TextAdapter()):
        task = loop.create_task(pump(), context=contextvars.copy_context())
    thread = threading.Thread(target=_run, args=(loop, task), name="language model stream", daemon=True)
    thread.start()
    given = 0
    try:
        while (piece := pieces.get()) is not None:
            if isinstance(piece, (dspy.LMError, AdapterParseError)):
                raise _explained(piece, lm.model) from piece
            if isinstance(piece, BaseException):
                raise piece
            given += 1
            yield piece
    except GeneratorExit:
        try:
            loop.call_soon_threadsafe(task.cancel)
        except RuntimeError:  # the reply is complete, and counted: its loop is closed
            raise GeneratorExit from None
        if meter is not None:
            meter.add_usage(lm.model, {"completion_tokens": given})
        raise


def _run(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    try:
        loop.run_until_complete(task)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def _delta(chunk: Any) -> str:
    """The text in one streamed chunk of either of DSPy's engines."""
    choices = getattr(chunk, "choices", None) or []
    return (choices[0].delta.content if choices else None) or ""


def warm_up(
    lm: dspy.LM,
    predictors: Sequence[tuple[str, dspy.Predict]],
    on_progress: Progress | None = None,
    *,
    read: Callable[[str], bool] | None = None,
) -> None:
    """Have the embedded server read each predictor's static prompt, or load it from the cache folder, so that the first
    question waits for its own words only. Other language models keep their own caches: nothing is done.

    on_progress: (predictors done, predictors in all, name of the next). read: which predictors, by name, are read where
    the cache folder does not have them; all by default. Raises LanguageModelError.
    """
    server = embedded(lm)
    if server is None:
        return
    for done, (name, predictor) in enumerate(predictors):
        if on_progress:
            on_progress(done, len(predictors), name)
        first_input = next(iter(predictor.signature.input_fields))
        adapter = adapter_for(predictor.signature)
        # An input of one word: what is read is the static part, the input's name, and little that will not be needed.
        messages = adapter.format(predictor.signature, predictor.demos, {first_input: "?"})
        server.hold(done % embedded_server.SLOTS, messages, read=read is None or read(name))
    server.forget_old_prefixes(keep=4 * embedded_server.SLOTS)
    if on_progress:
        on_progress(len(predictors), len(predictors), "")


def _config(predictor: dspy.Predict) -> dict[str, Any]:
    """The most tokens a reply may have, by the kinds of its fields; a predictor's own `max_tokens` wins."""
    lm = predictor.lm or dspy.settings.lm
    if lm.kwargs.get("max_tokens") is None or "max_tokens" in predictor.config:
        return {}
    if isinstance(adapter_for(predictor.signature), TextAdapter):
        return {"max_tokens": 256}
    return {
        "max_tokens": 16 + sum(_reply_tokens(field.annotation) for field in predictor.signature.output_fields.values())
    }


def _reply_tokens(annotation: Any) -> int:
    if annotation in (bool, int, float) or get_origin(annotation) is Literal:
        return 16
    return 96 if annotation is str else 160


def _too_long(error: Exception) -> bool:
    """Whether the prompt did not fit; llama.cpp says so in the words of an invalid request only."""
    return isinstance(error, dspy.ContextWindowExceededError) or "exceeds the available context size" in str(error)


def _explained(error: Exception, model: str) -> LanguageModelError:
    """The error in words for people, with what to do about it."""
    provider, _, name = model.partition("/")
    model = name if provider in _DECLARED else model
    if _too_long(error):
        return LanguageModelError(
            f"The question and its passages are longer than the language model {model} can read.",
            "Shorten the question.",
        )
    detail = " ".join(str(getattr(error, "message", "") or error).split())[:300].rstrip(".")
    if isinstance(error, AdapterParseError):
        return OutputError(
            f"The language model {model} answered outside the form asked for.",
            "Try again, or use a stronger model (RAG_LM).",
        )
    for kinds, message, hint in _EXPLANATIONS:
        if isinstance(error, kinds):
            return LanguageModelError(message.format(model=model, detail=detail), hint)
    return LanguageModelError(f"The language model {model} failed: {detail}.", "Try again.")


_EXPLANATIONS: tuple[tuple[tuple[type[Exception], ...], str, str], ...] = (
    (
        (dspy.LMAuthError, dspy.LMNotConfiguredError),
        "The language model {model} refused the key.",
        "Set RAG_LM_KEY (or the provider's own variable) to a valid key.",
    ),
    (
        (dspy.LMRateLimitError, dspy.LMBillingError),
        "The language model {model} accepts no more requests for now: {detail}.",
        "Wait a little, or raise the account's limit.",
    ),
    (
        (dspy.LMTimeoutError,),
        "The language model {model} did not answer in time.",
        "Try again, or raise RAG_LM_TIMEOUT.",
    ),
    (
        (dspy.LMTransportError, dspy.LMStreamAssemblyError),
        "The language model {model} cannot be reached, or the connection broke off: {detail}.",
        "Check that its server is running and that RAG_LM_URL is right.",
    ),
    ((dspy.LMServerError,), "The server of the language model {model} failed: {detail}.", "Try again in a while."),
    (
        (dspy.LMUnsupportedModelError, dspy.LMInvalidRequestError, dspy.LMConfigurationError),
        "The language model {model} did not accept the request: {detail}.",
        "Check RAG_LM and RAG_LM_URL.",
    ),
)
