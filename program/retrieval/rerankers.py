"""The cross-encoder, which reads a question and a passage together: by ONNX Runtime where that is installed and the
model has a file for it, else by PyTorch. Both give logits, not probabilities: a sigmoid flattens the differences among
good hits.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from program.errors import WeightsError
from program.retrieval.hub import from_hub, silence
from program.settings import Settings

RERANKER = "cross-encoder/ms-marco-MiniLM-L6-v2"
BATCH = 16
WINDOW = 512  # tokens of question and passage together that are read
#: Eight-bit files as the sentence-transformers models on the hub have them, by kind of processor.
ONNX_FILES = {
    "x86_64": "onnx/model_quint8_avx2.onnx",
    "AMD64": "onnx/model_quint8_avx2.onnx",
    "aarch64": "onnx/model_qint8_arm64.onnx",
    "arm64": "onnx/model_qint8_arm64.onnx",
}
_HINT = "Set RAG_RERANKER to a cross-encoder's folder or hub name, or to none."


class Reranker(Protocol):
    """Scores a query and a text together."""

    name: str

    def logits(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n], the higher the more relevant; unbounded. May hold NaN when the model is broken."""
        ...


class CrossEncoderReranker:
    """A `Reranker` over sentence-transformers' CrossEncoder. Safe to share between threads."""

    def __init__(self, folder: Path, name: str) -> None:
        """Raises WeightsError when the folder holds no cross-encoder with one output."""
        silence()
        from sentence_transformers import CrossEncoder

        try:
            self._model = CrossEncoder(str(folder), local_files_only=True)
        except Exception as error:  # the library raises whatever its parts raise
            message = f"The cross-encoder in {folder} does not load ({type(error).__name__}: {error})."
            raise WeightsError(message, _HINT) from error
        if self._model.num_labels != 1:
            raise WeightsError(f"The cross-encoder in {folder} has {self._model.num_labels} outputs, not one.", _HINT)
        self._lock = threading.Lock()
        self.name = name

    def logits(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        import torch

        if not texts:
            return np.zeros(0, np.float32)
        pairs = [(query, text) for text in texts]
        with self._lock:
            scores = self._model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
        return np.asarray(scores, np.float32).reshape(len(texts))


class OnnxReranker:
    """A `Reranker` over an ONNX file. Safe to share between threads."""

    def __init__(self, folder: Path, file: Path, name: str) -> None:
        """Raises WeightsError when the file holds no cross-encoder with one output."""
        silence()
        import onnxruntime
        from transformers import AutoTokenizer

        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the language model needs the cores
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            self._session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
            self._inputs = [item.name for item in self._session.get_inputs()]
            outputs = self._score([("", "")]).shape[1]
        except Exception as error:  # the libraries raise whatever their parts raise
            message = f"The cross-encoder {file} does not load ({type(error).__name__}: {error})."
            raise WeightsError(message, _HINT) from error
        if outputs != 1:
            raise WeightsError(f"The cross-encoder {file} has {outputs} outputs, not one.", _HINT)
        self.name = name

    def logits(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        scores = np.zeros(len(texts), np.float32)
        by_length = sorted(range(len(texts)), key=lambda row: len(texts[row]))  # batches of like length pad little
        for begin in range(0, len(by_length), BATCH):
            rows = by_length[begin : begin + BATCH]
            scores[rows] = self._score([(query, texts[row]) for row in rows])[:, 0]
        return scores

    def _score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        questions, texts = zip(*pairs, strict=True)
        most = min(self._tokenizer.model_max_length, WINDOW)
        read = self._tokenizer(
            list(questions), list(texts), padding=True, truncation=True, max_length=most, return_tensors="np"
        )
        given = {name: np.asarray(read[name], np.int64) for name in self._inputs}
        return np.asarray(self._session.run(None, given)[0], np.float32)


def load_reranker(settings: Settings) -> Reranker | None:
    """The cross-encoder that `settings.reranker` names; None when it is `none`, or `auto` (unset) and none can be had.

    `auto` costs at most about a second on a machine without a hub, once per process. Raises WeightsError when a named
    one cannot be had.
    """
    wanted = settings.reranker or "auto"
    if wanted == "none":
        return None
    if wanted == "auto":
        folder = from_hub(RERANKER, settings.offline, _wanted())
        return _reranker(folder, RERANKER) if folder else None
    folder = Path(wanted) if Path(wanted).is_dir() else from_hub(wanted, settings.offline, _wanted())
    if folder is None:
        raise WeightsError(
            f"The cross-encoder {wanted} is neither a folder nor to be had from the hub.",
            "Set RAG_RERANKER to a cross-encoder's folder or hub name, or to none.",
        )
    return _reranker(folder, wanted)


@cache
def _reranker(folder: Path, name: str) -> Reranker:
    files = [folder / file for file in (*_wanted(), "onnx/model.onnx") if find_spec("onnxruntime")]
    file = next((file for file in files if file.is_file()), None)
    return OnnxReranker(folder, file, name) if file else CrossEncoderReranker(folder, name)


def _wanted() -> tuple[str, ...]:
    """The file for this processor, where there is something to run it with."""
    file = ONNX_FILES.get(platform.machine())
    return (file,) if file and find_spec("onnxruntime") else ()
