"""Counting tokens: the language model's and a model's own."""

from __future__ import annotations

import pickle

from tokenizers import Tokenizer, models, pre_tokenizers

from program.tokens import TokenizerCount, count_tokens


def test_a_tokenizers_count_reads_all_of_a_text_and_can_be_pickled() -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=7)
    count = TokenizerCount(tokenizer.to_str())
    for counting in (count, pickle.loads(pickle.dumps(count))):
        assert [counting(text) for text in ("", "a", "a b c d e f g h i")] == [0, 1, 9]
    assert len(tokenizer.encode("a b c d e f g h i").ids) == 7


def test_special_tokens_in_a_text_are_text() -> None:
    assert count_tokens("<|endoftext|>") > 1
