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


@cache
def _encoding() -> tiktoken.Encoding:
    litellm = find_spec("litellm")
    if litellm is not None and litellm.origin is not None:
        vocabulary = Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers"
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(vocabulary))
    return tiktoken.get_encoding("cl100k_base")
