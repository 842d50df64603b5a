"""The part of bench/retrieval.py that asks the language model: what each transform's queries find.

Queries are kept in transforms.json under the cache folder, by language model, transform and its compiled state, set and
question, and written after every call: a broken run goes on where it stopped, and the table can be printed again
without a language model.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import get_args

from public_sets import Question
from rich.progress import Progress

from program.artifact import connector, read
from program.errors import LanguageModelError
from program.lm import session
from program.params import Params, RankWeights
from program.pipeline import AdaptiveRAG
from program.retrieval.retriever import Retriever
from program.settings import Settings, shipped
from program.transforms import plain
from program.types import Query, Transform

NO_BARS = {"top_bar": 0.0, "deep_bar": 0.0, "abstract_slots": 0}


class Transformed:
    """The queries of the program's transforms, from the file or from the language model."""

    def __init__(self, file: Path, settings: Settings, most_calls: int) -> None:
        self._file = file
        self._known: dict[str, list[list[object]]] = json.loads(file.read_text("utf-8")) if file.exists() else {}
        self.settings = settings
        self.left = most_calls
        self._lock = threading.Lock()

    def of(self, transform: Transform, name: str, question: Question, program: AdaptiveRAG) -> list[Query] | None:
        """None where they are not known and no call is left, or the language model failed."""
        key = "/".join([self.settings.lm, transform, _state(program, transform), name, question.id])
        if key not in self._known:
            with self._lock:
                if not self.left:
                    return None
                self.left -= 1
            try:
                with session(program.language_model()):
                    near = program.headings(question.text)
                    made = program.transforms(transform, question.text, program.params.max_queries, near)
            except LanguageModelError:
                return None
            with self._lock:
                self._known[key] = [list(astuple(query)) for query in made]
                self._file.write_text(json.dumps(self._known, ensure_ascii=False, indent=0), "utf-8")
        return [Query(*fields) for fields in self._known[key]]  # type: ignore[arg-type]


def _state(program: AdaptiveRAG, transform: Transform) -> str:
    """A short hash of the instructions and examples that the transform was compiled to."""
    state = getattr(program.transforms, transform).dump_state()
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:8]


def rankings(
    retrievers: Mapping[str, Retriever],
    questions: Mapping[str, Sequence[Question]],
    weights: Mapping[str, RankWeights],
    transformed: Transformed,
) -> dict[tuple[str, str], list[tuple[Question, list[str]]]]:
    """By set and transform: the questions whose queries are known, each with the chunks that they find, best first.

    `clear` is the question alone, over the questions of the set that any transform is known for.
    """
    found: dict[tuple[str, str], list[tuple[Question, list[str]]]] = {}
    program = AdaptiveRAG(next(iter(retrievers.values())), lm=connector(transformed.settings))
    read(shipped("artifacts/default")).apply(program)
    with Progress() as progress, ThreadPoolExecutor(len(get_args(Transform))) as threads:
        for name, retriever in retrievers.items():
            program.retriever = retriever
            program.params = Params(rank_without_cross_encoder=weights[name], **NO_BARS)  # type: ignore[arg-type]
            made = [transform for transform in get_args(Transform) if transform != "clear"]
            task = progress.add_task(f"Transforming {name}", total=len(questions[name]) * len(made))
            for question in questions[name]:
                # Side by side: the embedded model then answers a sixth faster.
                each = threads.map(partial(transformed.of, name=name, question=question, program=program), made)
                known = {transform: queries for transform, queries in zip(made, each, strict=True) if queries}
                progress.advance(task, len(made))
                for transform, queries in ({"clear": plain(question.text)} | known if known else known).items():
                    search = program.params.search_for("clear").model_copy(update={"abstracts": 0})
                    hits = retriever.retrieve(queries, search, program.params).hits
                    found.setdefault((name, transform), []).append((question, [hit.chunk.id for hit in hits]))
    return found
