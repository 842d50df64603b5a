"""The plumbing of encoder and cross-encoder, on tiny random models that are built here; the real encoder end to end."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from program.errors import WeightsError
from program.params import Params, SearchParams
from program.retrieval import encoders, hub, rerankers
from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.encoders import encode_passages, load_encoder, passage_text
from program.retrieval.index import Document
from program.retrieval.rerankers import load_reranker
from program.retrieval.retriever import Retriever
from program.settings import Settings
from program.types import Chunk, Query

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ",", ".", "!", "alpha", "beta", "gamma", "##s", "##!"]
DATASETS = Path(__file__).resolve().parent.parent.parent / "shared" / "datasets"


def settings(**values: object) -> Settings:
    return Settings(_env_file=None, offline=True, **values)  # type: ignore[call-arg, arg-type]


def tiny_bert(**more: int):
    from transformers import BertConfig

    return BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=64, **more,
    )  # fmt: skip


def tiny_tokenizer():
    from transformers import BertTokenizerFast

    return BertTokenizerFast(vocab={word: place for place, word in enumerate(WORDS)}, model_max_length=32)


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertModel

    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("encoder")
    BertModel(tiny_bert()).save_pretrained(folder / "bert")
    tiny_tokenizer().save_pretrained(folder / "bert")
    transformer = Transformer(str(folder / "bert"))
    SentenceTransformer(modules=[transformer, Pooling(16)], device="cpu").save(str(folder / "whole"))
    return folder / "whole"


def reranker_folder(path: Path, outputs: int = 1) -> Path:
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(1)
    BertForSequenceClassification(tiny_bert(num_labels=outputs)).save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)
    return path


def test_passages_are_read_with_their_titles():
    assert passage_text(Chunk("1", "d", "Title", "Text.")) == "Title\nText."
    assert passage_text(Chunk("1", "d", "", "Text.")) == "Text."


def test_vectors_have_unit_length_and_do_not_depend_on_their_batch(encoder_folder: Path):
    encoder = load_encoder(settings(encoder=str(encoder_folder)))
    texts = ["alpha beta", "", "gamma", "alphas, beta! " * 20, "alpha"] * 10
    vectors = encoder.encode(texts)
    assert vectors.shape == (50, encoder.dimensions)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(50), abs=1e-5)
    alone = np.concatenate([encoder.encode([text]) for text in texts[:5]])
    assert vectors[:5] == pytest.approx(alone, abs=1e-5)
    assert encoder.encode([]).shape == (0, encoder.dimensions)


def test_token_vectors_leave_out_special_tokens_and_punctuation(encoder_folder: Path):
    encoder = load_encoder(settings(encoder=str(encoder_folder)))
    texts = ["alpha, beta.", "!", "", "alphas gamma", "alpha " * 100]
    vectors, tokens = encoder.encode_with_tokens(texts)
    assert vectors == pytest.approx(encoder.encode(texts), abs=1e-5)
    assert [len(item) for item in tokens] == [2, 0, 0, 3, encoder.max_tokens]
    assert all(item.dtype == np.int8 for item in tokens)
    assert np.linalg.norm(tokens[0] / 127, axis=1) == pytest.approx(np.ones(2), abs=0.02)


def test_counting_does_not_truncate(encoder_folder: Path, recwarn: pytest.WarningsRecorder):
    encoder = load_encoder(settings(encoder=str(encoder_folder)))
    assert encoder.max_tokens == 30  # 32 less [CLS] and [SEP]
    assert encoder.count("alpha " * 1000) == 1000
    assert encoder.count("") == 0
    assert not recwarn


def test_the_fingerprint_knows_the_weights(encoder_folder: Path, tmp_path: Path):
    from safetensors.numpy import load_file, save_file

    first = load_encoder(settings(encoder=str(encoder_folder)))
    other = tmp_path / encoder_folder.name
    other.mkdir()
    for source in encoder_folder.rglob("*"):
        if source.is_file():
            target = other / source.relative_to(encoder_folder)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(source.read_bytes())
    assert load_encoder(settings(encoder=str(other))).fingerprint == first.fingerprint
    weights = load_file(other / "model.safetensors")
    name = sorted(weights)[0]
    save_file(weights | {name: weights[name] + 1}, other / "model.safetensors", {"format": "pt"})
    encoders._encoder.cache_clear()
    assert load_encoder(settings(encoder=str(other))).fingerprint != first.fingerprint


def test_a_folder_without_a_model_says_what_to_do(tmp_path: Path):
    with pytest.raises(WeightsError, match="RAG_ENCODER"):
        load_encoder(settings(encoder=str(tmp_path)))


def test_nothing_is_printed(encoder_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    encoders._encoder.cache_clear()
    load_encoder(settings(encoder=str(encoder_folder))).encode_with_tokens(["alpha", "alpha " * 500])
    folder = reranker_folder(tmp_path)
    capfd.readouterr()
    reranker = load_reranker(settings(reranker=str(folder)))
    assert reranker
    reranker.logits("alpha", ["alpha beta " * 500])
    assert capfd.readouterr() == ("", "")


def test_a_cross_encoder_gives_logits_pair_by_pair(tmp_path: Path):
    reranker = load_reranker(settings(reranker=str(reranker_folder(tmp_path))))
    assert reranker
    assert reranker.name == str(tmp_path)
    texts = ["alpha", "beta gamma", "alpha, beta. " * 40, ""]
    logits = reranker.logits("alpha", texts)
    assert logits.shape == (4,)
    assert logits.dtype == np.float32
    assert logits == pytest.approx(np.concatenate([reranker.logits("alpha", [text]) for text in texts]), abs=1e-5)
    assert len(set(logits.tolist())) == 4
    assert reranker.logits("alpha", []).shape == (0,)


def test_a_cross_encoder_with_two_outputs_is_refused(tmp_path: Path):
    with pytest.raises(WeightsError, match="2 outputs"):
        load_reranker(settings(reranker=str(reranker_folder(tmp_path, outputs=2))))


def test_no_cross_encoder(tmp_path: Path):
    assert load_reranker(settings(reranker="none")) is None
    with pytest.raises(WeightsError, match="RAG_RERANKER"):
        load_reranker(settings(reranker="someone/some-cross-encoder-that-is-nowhere"))
    with pytest.raises(WeightsError, match="does not load"):
        load_reranker(settings(reranker=str(tmp_path)))


class FakeRuntime(ModuleType):
    """Stands for onnxruntime: its sessions add up the token ids of each pair."""

    def __init__(self, outputs: int = 1) -> None:
        super().__init__("onnxruntime")
        self.outputs = outputs

    class SessionOptions:
        def add_session_config_entry(self, name: str, value: str) -> None: ...

    def InferenceSession(self, file: Path, options: object, providers: list[str]):  # noqa: N802
        def run(_: None, given: dict[str, np.ndarray]) -> list[np.ndarray]:
            assert {array.dtype for array in given.values()} == {np.dtype(np.int64)}
            return [np.tile((given["input_ids"] * given["attention_mask"]).sum(axis=1, keepdims=True), self.outputs)]

        inputs = [SimpleNamespace(name=name) for name in ("input_ids", "attention_mask")]
        return SimpleNamespace(run=run, get_inputs=lambda: inputs)


def onnx_folder(path: Path, monkeypatch: pytest.MonkeyPatch, outputs: int = 1) -> Path:
    monkeypatch.setitem(sys.modules, "onnxruntime", FakeRuntime(outputs))
    monkeypatch.setattr(rerankers, "find_spec", lambda name: name)
    file = reranker_folder(path) / "onnx" / "model.onnx"
    file.parent.mkdir()
    file.touch()
    return path


def test_an_onnx_file_is_used_where_there_is_something_to_run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    reranker = load_reranker(settings(reranker=str(onnx_folder(tmp_path, monkeypatch))))
    assert isinstance(reranker, rerankers.OnnxReranker)
    texts = ["alpha " * n for n in (20, 1, 7, 0, 3) * 5]  # more than a batch, in no order of length
    place = {word: id for id, word in enumerate(WORDS)}
    around = place["[CLS]"] + 2 * place["[SEP]"]
    expected = [around + place["beta"] + place["alpha"] * n for n in (20, 1, 7, 0, 3) * 5]
    assert reranker.logits("beta", texts).tolist() == expected
    assert reranker.logits("beta", []).shape == (0,)
    rerankers._reranker.cache_clear()
    monkeypatch.setattr(rerankers, "find_spec", lambda name: None)
    assert isinstance(load_reranker(settings(reranker=str(tmp_path))), rerankers.CrossEncoderReranker)


def test_an_onnx_file_with_two_outputs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(WeightsError, match="2 outputs"):
        load_reranker(settings(reranker=str(onnx_folder(tmp_path, monkeypatch, outputs=2))))


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A hub that cannot be reached, and a record of the attempts."""
    import httpx
    import huggingface_hub

    attempts: list[str] = []

    def refuse(url: str, **_: object) -> None:
        attempts.append(url)
        raise httpx.ConnectError("no route")

    def not_cached(*_: object, local_files_only: bool = False, **__: object) -> str:
        attempts.append("cache" if local_files_only else "download")
        raise FileNotFoundError

    monkeypatch.setattr(httpx, "head", refuse)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", not_cached)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    for cached in (hub.from_hub, hub.hub_answers):
        cached.cache_clear()
    yield attempts
    for cached in (hub.from_hub, hub.hub_answers):
        cached.cache_clear()


def test_without_a_hub_there_is_no_cross_encoder_and_it_is_asked_once(unreachable: list[str]):
    online = Settings(_env_file=None)  # type: ignore[call-arg]
    assert load_reranker(online) is None
    assert load_reranker(online) is None
    assert [attempt.split(":")[0] for attempt in unreachable] == ["cache", "https"]


def test_offline_never_asks_the_hub(unreachable: list[str]):
    assert load_reranker(settings()) is None
    assert unreachable == ["cache"]


@pytest.mark.e2e
def test_the_real_encoder_finds_what_a_question_is_about(tmp_path: Path):
    corpus = DATASETS / "hotpotqa" / "corpus.jsonl.gz"
    if not corpus.exists():
        pytest.skip("the hotpotqa data set is not beside the checkout")
    with gzip.open(corpus, "rt") as file:
        passages = [json.loads(next(file)) for _ in range(300)]
    known = {passage["id"] for passage in passages}
    with (DATASETS / "hotpotqa" / "questions.jsonl").open() as file:
        questions = [question for line in file if set((question := json.loads(line))["gold"]) <= known]
    assert len(questions) >= 10
    encoder = load_encoder(settings())
    index = EmbeddedIndex.open(tmp_path, encoder.fingerprint, encoder.dimensions, create=True)
    chunks = [Chunk(passage["id"], "hotpotqa", passage["title"], passage["text"]) for passage in passages]
    vectors, tokens = encode_passages(encoder, [passage_text(chunk) for chunk in chunks])
    index.replace(Document("hotpotqa", "HotpotQA", "sha"), chunks, vectors, tokens)
    retriever = Retriever(index, encoder)
    found = 0
    for question in questions:
        query = Query(question["question"], question["question"])
        hits = retriever.retrieve([query], SearchParams(), Params()).hits[:5]
        found += set(question["gold"]) <= {hit.chunk.id for hit in hits}
    assert found / len(questions) >= 0.6
    index.close()
