"""The sentence encoder, run in several ways: what each needs, and what it finds on the labelled questions.

Imported by bench/ingest.py. Tokenizer, pooling and token vectors are the program's own in all of them; only the
network in the middle differs.
"""

from __future__ import annotations

import importlib.util
import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optimize.gold import gold_ranks
from optimize.labels import QUESTIONS, QuestionLabel, find, read_questions
from optimize.metrics import all_gold, recall_at_k
from program.artifact import read as read_artifact
from program.ingest.batch import BATCH
from program.ingest.chunking import chunk_document
from program.ingest.readers import read_document
from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.encoders import Encoder, SentenceEncoder, encode_passages, passage_text
from program.retrieval.index import Document
from program.retrieval.retriever import Retriever
from program.settings import Settings, shipped
from program.types import Query
from program.weights import find_encoder

EXPORTING = ("onnx", "onnxscript", "onnxruntime")


@dataclass(frozen=True)
class Way:
    """One way to run the encoder. change: makes it so, in the encoder as the program loads it."""

    name: str
    change: Callable[[Any], None]
    needs: tuple[str, ...] = ()

    @property
    def lacks(self) -> list[str]:
        return [package for package in self.needs if importlib.util.find_spec(package) is None]

    def load(self) -> SentenceEncoder:
        encoder = SentenceEncoder(find_encoder(Settings()), Settings().encoder)
        self.change(encoder._model)
        return encoder


def _float32(model: Any) -> None:
    model.float()


def _bfloat16(model: Any) -> None:
    model.bfloat16()


def _onnx(model: Any, int8: bool = False) -> None:
    import torch
    from onnxruntime import InferenceSession
    from transformers.modeling_outputs import BaseModelOutput

    network = model[0].model.float()
    names = ("input_ids", "attention_mask", "token_type_ids")

    class Plain(torch.nn.Module):
        """The network with its last layer as its one output."""

        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
            found = self.network(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
            return found.last_hidden_state

    class Session(torch.nn.Module):
        """What ONNX Runtime makes of it, in the network's place."""

        def __init__(self, file: str) -> None:
            super().__init__()
            self.config = network.config
            self.session = InferenceSession(file, providers=["CPUExecutionProvider"])

        def forward(self, **inputs: Any) -> Any:
            given = {name: inputs[name].numpy() for name in names}
            return BaseModelOutput(last_hidden_state=torch.from_numpy(self.session.run(None, given)[0]))

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)  # the exporter tells what else it could export
        file = f"{folder}/model.onnx"
        example = tuple(torch.ones(2, 16, dtype=torch.long) for _ in names)
        sizes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
        torch.onnx.export(
            Plain().eval(), example, file, input_names=names, output_names=["last"], dynamo=True,
            dynamic_shapes=(sizes, sizes, sizes), external_data=False, verbose=False,
        )  # fmt: skip
        if int8:
            from onnxruntime.quantization import QuantType, quantize_dynamic

            quantize_dynamic(file, file := f"{folder}/int8.onnx", weight_type=QuantType.QInt8)
        model[0].model = Session(file)


def _onnx_int8(model: Any) -> None:
    _onnx(model, int8=True)


WAYS = {
    way.name: way
    for way in (
        Way("torch float32", _float32),
        Way("torch bfloat16", _bfloat16),
        Way("ONNX float32", _onnx, EXPORTING),
        Way("ONNX int8", _onnx_int8, EXPORTING),
    )
}


def measure_way(name: str) -> dict[str, Any]:
    """Over the demo library: chunks a second; recall@5 by nearness alone, and by the program's search and ranking; all
    gold in its first ten.

    vectors: float32 [chunks, d], to be compared between ways.
    """
    encoder = WAYS[name].load()
    chunks = [
        chunk
        for path in sorted(shipped("data/corpus").glob("*.md"))
        for chunk in chunk_document(
            read_document(path.read_bytes(), path.name), path.name, encoder.count, encoder.max_tokens
        )
    ]
    asked = read_questions(find(shipped("data/labeled"), QUESTIONS))
    labels = [label for label in asked if label.quotes and not label.history and label.part != "test"]
    texts = [passage_text(chunk) for chunk in chunks]
    encode_passages(encoder, texts[:BATCH])  # the first call sets things up
    vectors, tokens = [], []
    begun = time.perf_counter()
    for begin in range(0, len(texts), BATCH):
        found = encode_passages(encoder, texts[begin : begin + BATCH])
        vectors.append(found[0])
        tokens += found[1]
    seconds = time.perf_counter() - begun
    matrix = np.concatenate(vectors)
    with tempfile.TemporaryDirectory() as folder:
        index = EmbeddedIndex.open(Path(folder), encoder.fingerprint, encoder.dimensions, create=True)
        index.replace(Document("all", "", ""), chunks, matrix, tokens)
        scores = _scores(index, encoder, labels)
        index.close()
    return {"chunks": len(chunks), "questions": len(labels), "rate": len(chunks) / seconds, "vectors": matrix, **scores}


def _scores(index: EmbeddedIndex, encoder: Encoder, labels: Sequence[QuestionLabel]) -> dict[str, float]:
    params = read_artifact(shipped("artifacts/default")).params
    retriever = Retriever(index, encoder)
    dense, program, complete = [], [], []
    for label in labels:
        vector = encoder.encode([label.question])[0]
        near = index.search(label.question, vector, k=5, alpha=1.0, fusion="ranked")
        dense.append(recall_at_k(gold_ranks(near, label), 5))
        query = [Query(label.question, label.question)]
        hits = retriever.retrieve(query, params.search_for(label.transform), params).hits
        ranks = gold_ranks(hits, label)
        program.append(recall_at_k(ranks, 5))
        complete.append(all_gold(ranks, 10))
    return {"dense": float(np.mean(dense)), "program": float(np.mean(program)), "complete": float(np.mean(complete))}
