"""Compiled programs on disk: save, load, verify. Loading executes nothing: JSON and safetensors only.

artifacts/<name>/
  artifact.json        this module's envelope: schema version, what it was compiled with, every number, the report
  program.json         DSPy's state of every predictor (instructions, examples)
  router.safetensors   the router's head, if one was fitted
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import dspy
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from program.errors import ArtifactError
from program.library import open_library
from program.params import Params
from program.pipeline import AdaptiveRAG
from program.retrieval.encoders import load_encoder
from program.retrieval.rerankers import load_reranker
from program.retrieval.retriever import Retriever
from program.router import RouterHead
from program.settings import Settings, settings_from, shipped
from program.shape import SHAPE_SIZE
from program.types import ROUTE_LABELS
from program.weights import DEFAULT

Progress = Callable[[int, int, str], None]

SCHEMA_VERSION = 1
_RECOMPILE = "Compile it again with `python -m optimize`, or load another artifact."


class CompiledWith(BaseModel):
    """What an artifact depends on. The encoder must be the same to load it; another language model is a warning."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    language_model: str
    encoder: str
    reranker: str
    versions: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)  # file name to sha256
    seed: int = 0
    budget: str = ""


class Manifest(BaseModel):
    """artifact.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int
    name: str
    compiled_with: CompiledWith
    params: Params
    router_labels: list[str]
    files: dict[str, str]  # file name to sha256
    report: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled program, apart from the index it is used on."""

    name: str
    compiled_with: CompiledWith
    params: Params
    head: RouterHead | None
    predictors: Mapping[str, Any]  # predictor name to DSPy state
    report: Mapping[str, Any]

    def apply(self, program: AdaptiveRAG) -> None:
        """Put the numbers, the head and the predictors' state into a program.

        Raises ArtifactError when a predictor is missing, unknown or has other fields, or the head reads other features.
        """
        ours = dict(program.named_predictors())
        if missing := sorted(set(ours) - set(self.predictors)):
            raise ArtifactError(f"Artifact {self.name!r} has no predictor {', '.join(missing)}.", _RECOMPILE)
        if unknown := sorted(set(self.predictors) - set(ours)):
            raise ArtifactError(f"Artifact {self.name!r} has an unknown predictor {', '.join(unknown)}.", _RECOMPILE)
        features = program.retriever.encoder.dimensions + SHAPE_SIZE
        if self.head is not None and self.head.weights.shape[1] != features:
            read = self.head.weights.shape[1]
            raise ArtifactError(
                f"The router's head of artifact {self.name!r} reads {read} features, not {features}.", _RECOMPILE
            )
        for name, predictor in ours.items():
            state = self.predictors[name]
            _check_state(self.name, name, predictor, state)
            predictor.load_state(state)
        program.params = self.params
        program.head = self.head


def state_of(program: AdaptiveRAG) -> dict[str, Any]:
    """DSPy's state of every named predictor, as JSON-able values."""
    return {name: json.loads(json.dumps(p.dump_state(), default=str)) for name, p in program.named_predictors()}


def save(artifact: Artifact, folder: Path) -> None:
    """Write an artifact whole before it takes the old one's place; the old one stays where that fails. A reader sees
    the old folder or the new one, for a moment neither, never a part of one."""
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".saving-") as scratch:
        new = Path(scratch) / "new"
        new.mkdir()
        (new / "program.json").write_text(
            json.dumps(artifact.predictors, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8"
        )
        if artifact.head is not None:
            # safetensors writes the bytes as they lie in memory: another order than rows would come back scrambled.
            arrays = {"weights": artifact.head.weights, "bias": artifact.head.bias}
            save_file({n: np.ascontiguousarray(a) for n, a in arrays.items()}, new / "router.safetensors")
        manifest = Manifest(
            schema_version=SCHEMA_VERSION,
            name=artifact.name,
            compiled_with=artifact.compiled_with,
            params=artifact.params,
            router_labels=list(artifact.head.labels) if artifact.head else [],
            files={path.name: _sha256(path) for path in sorted(new.iterdir())},
            report=dict(artifact.report),
        )
        (new / "artifact.json").write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
        old = Path(scratch) / "old"
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise


def read(folder: Path) -> Artifact:
    """Read and verify an artifact. Raises ArtifactError with the reason."""
    folder = Path(folder)
    try:
        manifest = Manifest.model_validate_json((folder / "artifact.json").read_bytes())
    except FileNotFoundError as error:
        raise ArtifactError(
            f"There is no compiled program in {folder}.", "Make one with `python -m optimize`."
        ) from error
    except (OSError, ValidationError) as error:
        raise ArtifactError(f"{folder / 'artifact.json'} cannot be read: {_first_line(error)}", _RECOMPILE) from error
    if manifest.schema_version != SCHEMA_VERSION:
        raise ArtifactError(
            f"Artifact {folder} has schema version {manifest.schema_version}; this program reads {SCHEMA_VERSION}.",
            _RECOMPILE,
        )
    if unknown := set(manifest.router_labels) - set(ROUTE_LABELS):
        raise ArtifactError(f"Artifact {folder} routes to unknown classes: {', '.join(sorted(unknown))}.", _RECOMPILE)
    for name, digest in manifest.files.items():
        path = folder / Path(name).name
        if not path.is_file() or _sha256(path) != digest:
            raise ArtifactError(f"{path} is missing or was changed after compiling.", _RECOMPILE)
    if "program.json" not in manifest.files:
        raise ArtifactError(f"Artifact {folder} does not list program.json.", _RECOMPILE)
    try:
        predictors = json.loads((folder / "program.json").read_bytes())
        head = _read_head(folder, manifest)
    except (ValueError, KeyError, OSError, RecursionError, SafetensorError) as error:
        raise ArtifactError(f"Artifact {folder} is damaged: {_first_line(error)}", _RECOMPILE) from error
    if not isinstance(predictors, dict):
        raise ArtifactError(f"{folder / 'program.json'} does not hold predictors.", _RECOMPILE)
    return Artifact(manifest.name, manifest.compiled_with, manifest.params, head, predictors, manifest.report)


def load(
    path: str | Path | None = None,
    *,
    index: str | Path | None = None,
    settings: Settings | None = None,
    on_progress: Progress | None = None,
) -> AdaptiveRAG:
    """A compiled program over an index, ready to be asked.

    path: an artifact's folder; else the `RAG_ARTIFACT` setting, else the one that ships. index: an index folder; else
    the `RAG_INDEX` setting, else your library, else the demo library, which is built at first use. The language model
    starts with the first question (or `warm_up`).

    Raises ArtifactError, LibraryError, SettingsError, WeightsError.
    """
    settings = settings or settings_from()
    if index is not None:
        settings = settings.model_copy(update={"index": Path(index)})
    artifact = read(_folder(path or settings.artifact))
    encoder = load_encoder(settings)
    if artifact.compiled_with.encoder != encoder.fingerprint:
        raise ArtifactError(
            f"Artifact {artifact.name!r} was compiled for the encoder {artifact.compiled_with.encoder}, "
            f"but {encoder.fingerprint} is in use.",
            "Set RAG_ENCODER to that encoder, or compile again with `python -m optimize`.",
        )
    reranker = load_reranker(settings)
    retriever = Retriever(open_library(settings, encoder, on_progress=on_progress), encoder, reranker)
    program = AdaptiveRAG(retriever, lm=connector(settings, on_progress), warnings=_warnings(artifact, settings))
    artifact.apply(program)
    return program


def uncompiled(settings: Settings, retriever: Retriever) -> AdaptiveRAG:
    """The program before compiling: default numbers, no head, no examples."""
    return AdaptiveRAG(retriever, lm=connector(settings))


def connector(settings: Settings, on_progress: Progress | None = None) -> Callable[[], dspy.LM] | None:
    """How the program gets its language model when it first needs one; None for RAG_LM=none."""
    if settings.lm == "none":
        return None

    def connect() -> dspy.LM:
        from program.lm import connect as start

        return start(settings, on_progress)

    return connect


def answer_question(question: str) -> tuple[str, list[str]]:
    """Answer with the default program: (text, contexts), the two-value form of cookbooks and evaluation harnesses."""
    answer = _default()(question)
    return answer.text, list(answer.contexts)


@lru_cache(maxsize=1)
def _default() -> AdaptiveRAG:
    return load()


def _folder(path: str | Path | None) -> Path:
    """An artifact's folder; the shipped one by its name in the checkout works anywhere."""
    if path is None:
        return shipped("artifacts/default")
    folder = Path(path)
    if not folder.exists() and folder.as_posix() == "artifacts/default":
        return shipped("artifacts/default")
    return folder


def _read_head(folder: Path, manifest: Manifest) -> RouterHead | None:
    if "router.safetensors" not in manifest.files:
        if manifest.router_labels:
            raise ValueError("it names the classes of a router's head and has none")
        return None
    tensors = load_file(folder / "router.safetensors")
    weights, bias = tensors["weights"].astype(np.float32), tensors["bias"].astype(np.float32)
    if weights.ndim != 2 or weights.shape[0] != len(manifest.router_labels) or bias.shape != weights.shape[:1]:
        raise ValueError(f"router weights of shape {weights.shape} for {len(manifest.router_labels)} labels")
    if not (np.isfinite(weights).all() and np.isfinite(bias).all()):
        raise ValueError("router weights that are not finite")
    return RouterHead(tuple(manifest.router_labels), weights, bias)


def _check_state(artifact: str, name: str, predictor: dspy.Predict, state: Any) -> None:
    if not _is_state(state):
        raise ArtifactError(f"Predictor {name} of artifact {artifact!r} is damaged.", _RECOMPILE)
    ours = predictor.dump_state()
    if foreign := sorted(set(state) - set(ours)):
        # DSPy would set them as they are: a `config`, say, with the address of another language model.
        raise ArtifactError(f"Predictor {name} of artifact {artifact!r} also sets {', '.join(foreign)}.", _RECOMPILE)
    if state.get("lm") is not None:
        # A language model in an artifact could send the user's documents elsewhere.
        raise ArtifactError(f"Predictor {name} of artifact {artifact!r} brings its own language model.", _RECOMPILE)
    expected = ours["signature"]["fields"]
    if [field["prefix"] for field in state["signature"]["fields"]] != [field["prefix"] for field in expected]:
        raise ArtifactError(
            f"Predictor {name} of artifact {artifact!r} has other fields than this program.", _RECOMPILE
        )


def _is_state(state: Any) -> bool:
    """Whether a predictor's state has DSPy's shape: instructions, fields, and demonstrations as objects."""
    if not isinstance(state, dict) or not {"signature", "demos", "lm"} <= set(state):
        return False
    signature, demos = state["signature"], state["demos"]
    if not (isinstance(signature, dict) and isinstance(signature.get("instructions"), str)):
        return False
    fields = signature.get("fields")
    return (
        isinstance(fields, list)
        and all(isinstance(f, dict) and {"prefix", "description"} <= set(f) for f in fields)
        and all(isinstance(text, str) for f in fields for text in f.values())
        and isinstance(demos, list)
        and all(isinstance(demo, dict) for demo in demos)
    )


def _warnings(artifact: Artifact, settings: Settings) -> list[str]:
    compiled = artifact.compiled_with.language_model
    if settings.lm == "none" or _full_name(settings.lm) == _full_name(compiled):
        return []
    return [f"Compiled for the language model {compiled}, answered with {settings.lm}."]


def _full_name(language_model: str) -> str:
    return f"embedded/{DEFAULT}" if language_model == "embedded" else language_model


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
