"""How long does ranking 25 candidates take, without a cross-encoder and with one?

    python bench/rerank_time.py [--cache DIR] [--questions 20]

Reads ../shared/datasets (HotpotQA), with the index that bench/retrieval.py makes. The cross-encoders have random
weights: 2 and 6 layers of MiniLM's width (384), by PyTorch and, where onnxruntime, onnx and onnxscript are installed,
as ONNX files, whole and in eight bits; what eight bits cost in quality cannot be seen with random weights. Times are
medians in milliseconds of one run over the same pairs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from public_sets import index_of, questions_of
from rich.console import Console
from rich.table import Table

from program.params import Params, SearchParams
from program.retrieval.encoders import load_encoder, passage_text
from program.retrieval.rerankers import CrossEncoderReranker, OnnxReranker, Reranker
from program.retrieval.retriever import Pool, Retriever, rank_pools
from program.settings import Settings
from program.transforms import plain
from program.weights import find_encoder

CANDIDATES = 25
LAYERS = (2, 6)


def milliseconds(call: Callable[..., Any], *values: Any) -> tuple[float, Any]:
    begun = time.perf_counter()
    result = call(*values)
    return (time.perf_counter() - begun) * 1000, result


def cross_encoders(folder: Path, tokenizer: Path) -> dict[str, Reranker]:
    """Random cross-encoders by name, the two-layer one by PyTorch first: it is what the others are compared with."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    made: dict[str, Reranker] = {}
    torch.manual_seed(0)
    for layers in LAYERS:
        place = folder / str(layers)
        config = BertConfig(
            hidden_size=384, num_hidden_layers=layers, num_attention_heads=12, intermediate_size=1536, num_labels=1
        )
        model = BertForSequenceClassification(config).eval()
        model.save_pretrained(place)
        AutoTokenizer.from_pretrained(str(tokenizer)).save_pretrained(place)
        made[f"{layers} layers, PyTorch"] = CrossEncoderReranker(place, "random")
        if all(find_spec(package) for package in ("onnxruntime", "onnx", "onnxscript")):
            whole, eight = export(model, place)
            made[f"{layers} layers, ONNX"] = OnnxReranker(place, whole, "random")
            made[f"{layers} layers, ONNX in eight bits"] = OnnxReranker(place, eight, "random")
    return made


def export(model: Any, place: Path) -> tuple[Path, Path]:
    """The model as an ONNX file, whole and in eight bits."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    names = ["input_ids", "attention_mask", "token_type_ids"]
    whole, eight = place / "whole.onnx", place / "eight.onnx"
    given = tuple(torch.ones((2, 16), dtype=torch.long) for _ in names)
    shapes = {name: {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC} for name in names}
    torch.onnx.export(model, given, whole, input_names=names, dynamic_shapes=shapes, external_data=False, verbose=False)
    quantize_dynamic(whole, eight, weight_type=QuantType.QUInt8)
    return whole, eight


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Settings().cache / "bench", help="where indexes are kept")
    parser.add_argument("--questions", type=int, default=20)
    wanted = parser.parse_args()
    encoder, params = load_encoder(Settings()), Params()
    retriever = Retriever(index_of("hotpotqa", encoder, wanted.cache), encoder)
    search = SearchParams(passages=CANDIDATES, abstracts=0)
    questions = [question.text for question in questions_of("hotpotqa", wanted.questions + 1, 0)]
    embedding, features, ranking, pairs = [], [], [], []
    for question in questions:
        taken, encoded = milliseconds(retriever._encode, plain(question))
        (pool,) = retriever.pools(plain(question), search, params)
        embedding.append(taken)
        taken, _ = milliseconds(retriever._features, question, pool.hits, encoded)
        features.append(taken)
        again = Pool(question, pool.hits, pool.signals, False)
        ranking.append(milliseconds(rank_pools, [again], params)[0])
        pairs.append((question, [passage_text(hit.chunk) for hit in pool.hits]))
    table = Table(title=f"Ranking {CANDIDATES} candidates of {len(questions) - 1} questions")
    for column in ("", "ms", "to two layers"):
        table.add_column(column, justify="right" if column else "left")
    for name, times in (
        ("question's vectors", embedding), ("signals without a cross-encoder", features), ("rank, cut, merge", ranking)
    ):  # fmt: skip
        table.add_row(name, f"{statistics.median(times[1:]):.1f}", "")  # the first question sets things up
    with tempfile.TemporaryDirectory() as folder:
        found = find_encoder(Settings())
        tokenizer = found if isinstance(found, Path) else Path(found)
        taken: dict[str, float] = {}
        for name, reranker in cross_encoders(Path(folder), tokenizer).items():
            times = [milliseconds(reranker.logits, *pair)[0] for pair in pairs]
            taken[name] = statistics.median(times[1:])
            ratio = taken[name] / taken[f"{LAYERS[0]} layers, PyTorch"]
            table.add_row(name, f"{taken[name]:.0f}", f"{ratio:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
