"""How small can token vectors be kept? All gold in the first five and ten by late interaction alone, and bytes.

    python bench/token_vectors.py [--sets hotpotqa,scifact,xquad_de,xquad_zh] [--questions 250] [--cache DIR]

Reads ../shared/datasets. The pool of 50 that bench/retrieval.py ranks is ordered by MaxSim over passages' token vectors
kept in each way; questions keep their full vectors, projected where passages are. The principal axes are fitted on the
token vectors of PROJECTED_ON, which is not tested. Full token vectors are encoded once and kept under --cache (50 KB a
passage).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from public_sets import DATASETS, index_of, questions_of
from rich.console import Console
from rich.progress import track
from rich.table import Table

from optimize.metrics import all_gold, reciprocal_rank
from program.params import Params, SearchParams
from program.retrieval.encoders import SentenceEncoder, load_encoder, passage_text
from program.retrieval.index import Filters
from program.retrieval.retriever import Retriever
from program.settings import Settings
from program.transforms import plain
from program.types import Chunk

PROJECTED_ON = "clapnq"
SAMPLE = 40_000  # token vectors that the axes are fitted on
DEPTH = 50
BATCH = 256

Floats = NDArray[np.float32]
Way = tuple[Callable[[Floats], Floats], Callable[[Floats], Floats], float]  # passage's side, question's side, bytes


def token_vectors(name: str, chunks: list[Chunk], encoder: SentenceEncoder, cache: Path) -> dict[str, NDArray[np.int8]]:
    """Every passage's full token vectors, int8 [tokens, d], by id."""
    file = cache / f"{name}-tokens.npz"
    if not file.exists():
        kept: list[NDArray[np.int8]] = []
        for begin in track(range(0, len(chunks), BATCH), f"Encoding {name}"):
            kept += encoder.encode_with_tokens([passage_text(chunk) for chunk in chunks[begin : begin + BATCH]])[1]
        counts = [len(tokens) for tokens in kept]
        np.savez(file, ids=[chunk.id for chunk in chunks], counts=counts, tokens=np.concatenate(kept))
    with np.load(file) as held:
        parts = np.split(held["tokens"], np.cumsum(held["counts"])[:-1])
        return dict(zip(map(str, held["ids"]), parts, strict=True))


def ways(sample: Floats) -> dict[str, Way]:
    """Every way of keeping them. sample: token vectors to fit axes on."""
    d = sample.shape[1]
    axes = np.linalg.svd(sample, full_matrices=False)[2].T
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((d, d)))[0].astype(np.float32)

    def cut(by: Floats) -> Callable[[Floats], Floats]:
        return lambda vectors: unit(vectors @ by)

    def then(first: Callable[[Floats], Floats], second: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
        return lambda vectors: second(first(vectors))

    def same(vectors: Floats) -> Floats:
        return vectors

    return {
        "8 bits": (same, same, d),
        "4 bits": (four_bits, same, d / 2),
        "signs": (signs, same, d / 8),
        "signs, turned at random": (then(cut(turned), signs), cut(turned), d / 8),
        "signs, both sides": (signs, signs, d / 8),
        "128 axes, 8 bits": (cut(axes[:, :128]), cut(axes[:, :128]), 128),
        "96 axes, 8 bits": (cut(axes[:, :96]), cut(axes[:, :96]), 96),
        "128 axes, 4 bits": (then(cut(axes[:, :128]), four_bits), cut(axes[:, :128]), 64),
        "96 axes, 4 bits": (then(cut(axes[:, :96]), four_bits), cut(axes[:, :96]), 48),
        "128 random axes, 8 bits": (cut(turned[:, :128]), cut(turned[:, :128]), 128),
    }


def unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9), np.float32)


def four_bits(vectors: Floats) -> Floats:
    step = np.abs(vectors).max(axis=1, keepdims=True, initial=1e-9) / 7
    return np.asarray(np.rint(vectors / step) * step, np.float32)


def signs(vectors: Floats) -> Floats:
    return np.where(vectors >= 0, np.float32(1), np.float32(-1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="hotpotqa,scifact,xquad_de,xquad_zh", help="which sets, commas between")
    parser.add_argument("--questions", type=int, default=250, help="of each set, at most")
    parser.add_argument("--cache", type=Path, default=Settings().cache / "bench", help="where indexes are kept")
    wanted = parser.parse_args()
    if not DATASETS.is_dir():
        sys.exit(f"The data sets are not in {DATASETS}.")
    encoder = load_encoder(Settings())
    assert isinstance(encoder, SentenceEncoder)
    retrievers = {
        name: Retriever(index_of(name, encoder, wanted.cache), encoder)
        for name in (PROJECTED_ON, *wanted.sets.split(","))
    }
    tokens = {
        name: token_vectors(name, all_chunks(retriever), encoder, wanted.cache)
        for name, retriever in retrievers.items()
    }
    fitted_on = np.concatenate(list(tokens.pop(PROJECTED_ON).values()))
    chosen = np.random.default_rng(0).permutation(len(fitted_on))[:SAMPLE]
    table = Table(title=f"Late interaction alone on pools of {DEPTH}: all@5/all@10 MRR (bytes a passage)")
    table.add_column("kept as")
    for name in tokens:
        table.add_column(name, justify="right")
    cells: dict[str, list[str]] = {}
    for name, of_passages in tokens.items():
        questions = questions_of(name, wanted.questions, 0)
        asked = encoder.encode_with_tokens([question.text for question in questions])[1]
        search = SearchParams(passages=DEPTH, abstracts=0)
        pools = [retrievers[name].pools(plain(question.text), search, Params())[0] for question in questions]
        for way, (passage, question_side, width) in ways(as_floats(fitted_on[chosen])).items():
            kept: dict[str, Floats] = {}
            ranks = []
            for question, query, pool in zip(questions, asked, pools, strict=True):
                against = question_side(as_floats(query))
                scores = {}
                for hit in pool.hits:
                    id = hit.chunk.id
                    if id not in kept:
                        kept[id] = passage(as_floats(of_passages[id])).astype(np.float16)
                    both = len(query) and len(kept[id])
                    scores[id] = float((kept[id].astype(np.float32) @ against.T).max(axis=0).mean()) if both else 0.0
                ranking = sorted(scores, key=lambda id, scores=scores: (-scores[id], id))  # type: ignore[misc]
                places = {id: place for place, id in enumerate(ranking, 1)}
                ranks.append([places.get(id, 0) for id in question.gold])
            shares = "/".join(f"{100 * np.mean([all_gold(item, k) for item in ranks]):.1f}" for k in (5, 10))
            size = width * np.mean([len(tokens) for tokens in of_passages.values()])
            mrr = np.mean([reciprocal_rank(item) for item in ranks])
            cells.setdefault(way, []).append(f"{shares} {mrr:.3f} ({size:,.0f})")
    for way, row in cells.items():
        table.add_row(way, *row)
    Console(width=160).print(table)


def as_floats(tokens: NDArray[np.int8]) -> Floats:
    return tokens.astype(np.float32) / 127


def all_chunks(retriever: Retriever) -> list[Chunk]:
    index = retriever.index
    direction = np.eye(1, retriever.encoder.dimensions, dtype=np.float32)[0]
    hits = index.search("", direction, k=len(index), alpha=1.0, fusion="ranked", filters=Filters())
    return [hit.chunk for hit in hits]


if __name__ == "__main__":
    main()
