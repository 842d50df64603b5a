"""One Weaviate server for all tests that need one; no other test sees the variables that name it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from program.settings import Settings
from tests.weaviate_server import running

_NAMES = ("WEAVIATE_URL", "WEAVIATE_API_KEY", "RAG_WEAVIATE_URL", "RAG_WEAVIATE_KEY", "RAG_WEAVIATE_GRPC")
_GIVEN = {name: os.environ.pop(name) for name in _NAMES if name in os.environ}


@pytest.fixture(scope="session")
def weaviate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings that name a server: the one of WEAVIATE_URL, or one started for this run."""
    url = _GIVEN.get("RAG_WEAVIATE_URL") or _GIVEN.get("WEAVIATE_URL")
    if url:
        yield Settings(
            _env_file=None,
            weaviate_url=url,
            weaviate_key=_GIVEN.get("RAG_WEAVIATE_KEY") or _GIVEN.get("WEAVIATE_API_KEY"),
            weaviate_grpc=_GIVEN.get("RAG_WEAVIATE_GRPC", "50051"),
        )
        return
    with running(tmp_path_factory.mktemp("weaviate")) as server:
        yield server.settings()
