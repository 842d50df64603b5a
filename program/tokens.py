"""Language-model tokens, counted the same everywhere: `cl100k_base`, without a network.

tiktoken fetches its vocabulary on first use. litellm, which DSPy brings, ships the file; its folder is found without
importing litellm, which takes seconds.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import tiktoken


def count_tokens(text: str) -> int:
    """Number of `cl100k_base` tokens; text that looks like a special token counts as plain text."""
    return len(_encoding().encode(text, disallowed_special=()))


class TokenizerCount:
    """Counts tokens as a model's own tokenizer makes them, all of them, however long the text is; without special ones.

    It can be pickled, so that the process that reads files counts as the encoder does, without loading it.
    """

    def __init__(self, tokenizer: str) -> None:
        """tokenizer: its description in JSON (`Tokenizer.to_str`)."""
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_str(tokenizer)  # a copy, so that counting disturbs no encoding
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def __call__(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


@cache
def _encoding() -> tiktoken.Encoding:
    litellm = find_spec("litellm")
    if litellm is not None and litellm.origin is not None:
        vocabulary = Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers"
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(vocabulary))
    return tiktoken.get_encoding("cl100k_base")
