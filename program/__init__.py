"""An adaptive retrieval-augmented question answerer: load a compiled program, ask it, get checked citations.

from program import load

rag = load("artifacts/default")
answer = rag("How many attention heads does BERT-large have?")
print(answer.text, answer.citations[0].quote)
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Idle OpenMP threads must sleep, not spin beside the language model: read when torch or llama.cpp is first loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Before anything imports DSPy: its price list would otherwise be looked up on the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")

if TYPE_CHECKING:
    from program.artifact import answer_question, load
    from program.params import Params
    from program.pipeline import AdaptiveRAG
    from program.settings import Settings
    from program.types import Answer, Citation, Claim, Event, Evidence, Hit, Route, Trace, Turn, Usage

_HOMES = {
    "AdaptiveRAG": "program.pipeline",
    "Answer": "program.types",
    "Citation": "program.types",
    "Claim": "program.types",
    "Event": "program.types",
    "Evidence": "program.types",
    "Hit": "program.types",
    "Params": "program.params",
    "Route": "program.types",
    "Settings": "program.settings",
    "Trace": "program.types",
    "Turn": "program.types",
    "Usage": "program.types",
    "answer_question": "program.artifact",
    "load": "program.artifact",
}

__all__ = [
    "AdaptiveRAG",
    "Answer",
    "Citation",
    "Claim",
    "Event",
    "Evidence",
    "Hit",
    "Params",
    "Route",
    "Settings",
    "Trace",
    "Turn",
    "Usage",
    "answer_question",
    "load",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `python -m program --help` is quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'program' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
