"""Models of the Hugging Face hub, and the silence of the libraries that load them: nothing here prints."""

from __future__ import annotations

import os
import threading
from functools import cache
from pathlib import Path

HUB_SECONDS = 1.0


@cache
def from_hub(name: str, offline: bool, more: tuple[str, ...] = ()) -> Path | None:
    """A hub model's folder: from the hub's cache on this machine, else fetched, else None. Asked once per process.

    more: files wanted beside the tokenizer, the configuration and the safetensors.
    """
    silence()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    patterns = ["*.json", "*.txt", "*.safetensors", "*.model", "1_Pooling/*", *more]
    try:
        found = Path(snapshot_download(name, local_files_only=True, allow_patterns=patterns))
        if any(found.glob("*.safetensors")):
            return found
    except (OSError, ValueError, HFValidationError):
        pass
    if offline or not hub_answers():
        return None
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except (OSError, ValueError, HfHubHTTPError):
        return None


@cache
def hub_answers() -> bool:
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
def silence() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else a warning after every fork
    import logging

    from huggingface_hub.utils.tqdm import disable_progress_bars
    from transformers.utils import logging as transformers_logging

    disable_progress_bars()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
