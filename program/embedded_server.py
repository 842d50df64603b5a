"""The embedded language model: a llama.cpp server inside this process, on a loopback port, one per weights file.

Each prompt's static part stays in a slot of its own (`SLOTS` of them share one KV memory), so that predictors may
alternate without reading their instructions and demonstrations again. Slot states are kept in `prefix_folder`, which
spares the next process that reading too.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import threading
import urllib.request
from dataclasses import dataclass, field
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path
from typing import Any

from program.errors import LanguageModelError
from program.machine import processor_cores

# Idle worker threads must sleep, not spin: with OpenMP's default, one other busy process on two cores slowed
# generation from 25 tokens a second to 0.4. Read when the OpenMP library is loaded, hence before any import of it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

SLOTS = 16  # the program's twelve predictors, and room for the same one asked by several people at once
CONTEXT_TOKENS = 16_384  # shared by all slots: 200 MB with the 0.5B model, 460 MB with the 1.5B

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback never goes through a proxy
_servers: dict[Path, EmbeddedServer] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class EmbeddedServer:
    """A running server. `address` is its root, without `/v1`; `model` names its weights file."""

    address: str
    model: str
    key: str = field(repr=False)  # other local programs and web pages must not use the port
    prefix_folder: Path
    _server: Any = field(repr=False)

    def hold(self, slot: int, messages: list[dict[str, str]], *, read: bool = True) -> bool:
        """Have slot number `slot` hold the state after `messages`: from disk (True), else (False) by reading them and
        writing the state to disk, or not at all without `read`. Raises LanguageModelError."""
        identity = json.dumps([version("xllamacpp"), self.model, CONTEXT_TOKENS, messages]).encode()
        prompt = hashlib.sha256(identity).hexdigest()[:32]
        for file in self.prefix_folder.glob(f"{prompt}-*.slot"):
            # Checked here because llama.cpp ends the whole process when a state file is cut short or altered.
            if file.name != f"{prompt}-{_digest(file)}.slot":
                file.unlink(missing_ok=True)
            elif self.post(f"/slots/{slot}?action=restore", {"filename": file.name}).get("n_restored"):
                os.utime(file)
                return True
        if not read:
            return False
        reading = {"messages": messages, "id_slot": slot, "max_tokens": 1, "temperature": 0}
        self.post("/v1/chat/completions", reading)
        fresh = self.prefix_folder / f"{prompt}.{os.getpid()}"
        try:
            self.post(f"/slots/{slot}?action=save", {"filename": fresh.name})
            fresh.replace(self.prefix_folder / f"{prompt}-{_digest(fresh)}.slot")
        except (LanguageModelError, OSError):  # a full disk only costs the next process its reading
            fresh.unlink(missing_ok=True)
        return False

    def forget_old_prefixes(self, keep: int) -> None:
        """Delete all but the `keep` prompt states used last."""
        files = sorted(self.prefix_folder.glob("*.slot"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[keep:]:
            file.unlink(missing_ok=True)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """llama.cpp's own answer, with its timings. Raises LanguageModelError."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), headers)
        try:
            with _DIRECT.open(request, timeout=600.0) as response:
                return dict(json.load(response))
        except (OSError, ValueError, HTTPException) as error:
            raise LanguageModelError(
                f"The embedded language model did not answer: {error}.", "Restart the program."
            ) from error


def _digest(file: Path) -> str:
    """What the file holds, as a short hash; "" when it cannot be read (another process has just removed it)."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:32]
    except OSError:
        return ""


def start(weights: Path, prefix_folder: Path) -> EmbeddedServer:
    """The server for `weights`, started on first use. Raises LanguageModelError when it cannot start."""
    weights = weights.resolve()
    with _lock:
        if weights not in _servers:
            _servers[weights] = _start(weights, prefix_folder)
        return _servers[weights]


def _start(weights: Path, prefix_folder: Path) -> EmbeddedServer:
    try:
        import xllamacpp
    except ImportError as error:
        raise LanguageModelError(
            f"llama.cpp cannot be loaded: {error}.",
            "Install xllamacpp (and the system library libgomp1), or set RAG_LM to another language model.",
        ) from error
    try:
        prefix_folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LanguageModelError(
            f"The folder {prefix_folder} cannot be made: {error.strerror}.",
            "Set RAG_CACHE to a folder that you may write to.",
        ) from error
    key = secrets.token_hex(16)
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.n_parallel = SLOTS
    params.kv_unified = True
    params.n_ctx = CONTEXT_TOKENS
    # A slot must keep its prompt while others work, and be found again however short its static part is beside the
    # passages: the server's defaults move idle slots out and forget a prefix under a quarter of the prompt.
    params.cache_idle_slots = False
    params.cache_ram_mib = 0
    params.slot_prompt_similarity = 0.02
    params.slot_save_path = f"{prefix_folder}{os.sep}"
    params.api_keys = [key]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = processor_cores()
    # A second copy of the weights, rearranged, is no faster on x86 with AVX2 (26 ms of processor time a token either
    # way) and costs 0.6 GB with the 1.5B model and a second at the start.
    params.no_extra_bufts = platform.machine().lower() in ("x86_64", "amd64")
    params.verbosity = -1  # the library logs to standard error
    params.ui = False
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise LanguageModelError(
            f"The embedded language model could not start from {weights.name}: {error}.",
            "Run `python -m program.weights` to check the weights, or free some memory.",
        ) from error
    return EmbeddedServer(server.listening_address, weights.stem, key, prefix_folder, server)
