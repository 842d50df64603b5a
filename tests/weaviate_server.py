"""Real Weaviate servers for tests, from the binary that `make weaviate` builds: one node, or a cluster on one machine.

WEAVIATE_URL (with WEAVIATE_API_KEY, RAG_WEAVIATE_GRPC) points the tests that need just a server at another one. Without
binary and address they skip.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from program.settings import Settings

SECONDS = 60.0
_HOST = "127.0.0.1"
_PORTS = (
    "CLUSTER_GOSSIP_BIND_PORT", "CLUSTER_DATA_BIND_PORT", "RAFT_PORT", "RAFT_INTERNAL_RPC_PORT", "GRPC_PORT",
    "GO_PROFILING_PORT", "PROMETHEUS_MONITORING_PORT", "HTTP_PORT",
)  # fmt: skip


def binary() -> Path:
    """Where `make weaviate` puts the server. Skips the test that asks when it is not there."""
    file = Settings().cache / "weaviate" / "weaviate-server"
    if not file.is_file():
        needs = "" if shutil.which("go") else ", which needs Go"
        pytest.skip(f"no Weaviate server: run `make weaviate`{needs}, or set WEAVIATE_URL")
    return file


def free_ports(number: int) -> list[int]:
    """Ports nobody listens on. Weaviate wants its data port one above its gossip port, and so for Raft's two: pairs."""
    found: list[int] = []
    while len(found) < number:
        with closing(socket.socket()) as first, closing(socket.socket()) as second:
            first.bind((_HOST, 0))
            port = first.getsockname()[1]
            try:
                second.bind((_HOST, port + 1))
            except OSError:
                continue
            if port not in found and port + 1 not in found:
                found += [port, port + 1]
    return found[:number]


class Server:
    """One node. Its data stay in `folder` when it is stopped or killed, and are there when it is started again."""

    def __init__(self, folder: Path, name: str = "node1", environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.folder = folder
        self.ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
        self.environment = {
            **{key: str(port) for key, port in self.ports.items() if key != "HTTP_PORT"},
            "PERSISTENCE_DATA_PATH": str(folder / "data"),
            "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "true",
            "DEFAULT_VECTORIZER_MODULE": "none",
            "CLUSTER_HOSTNAME": name,
            "CLUSTER_ADVERTISE_ADDR": _HOST,
            "CLUSTER_BIND_ADDR": _HOST,
            "RAFT_BOOTSTRAP_EXPECT": "1",
            "RAFT_JOIN": f"{name}:{self.ports['RAFT_PORT']}",
            "DISABLE_TELEMETRY": "true",
            "GOMAXPROCS": "2",
            "LOG_LEVEL": "warning",
            **(environment or {}),
        }
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{_HOST}:{self.ports['HTTP_PORT']}"

    @property
    def grpc(self) -> str:
        return str(self.ports["GRPC_PORT"])

    def settings(self, **more: object) -> Settings:
        values = {"weaviate_url": self.url, "weaviate_grpc": self.grpc, **more}
        return Settings(_env_file=None, **values)  # type: ignore[arg-type]

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        address = ("--host", _HOST, "--port", str(self.ports["HTTP_PORT"]), "--scheme", "http")
        inherited = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "TMPDIR")}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [binary(), *address], env=inherited | self.environment, stdout=log, stderr=log, cwd=self.folder
            )

    def wait(self) -> None:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if self.process is not None and self.process.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/v1/.well-known/ready", timeout=2).is_success:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise RuntimeError(f"{self.name} did not become ready:\n{self.log()}")

    def log(self) -> str:
        return (self.folder / "log").read_text("utf-8", "replace")[-4000:]

    def kill(self) -> None:
        """As when the power goes."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


@contextmanager
def running(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """One node for as long as the body runs, however it ends."""
    server = Server(folder, environment=environment)
    try:
        server.start()
        server.wait()
        yield server
    finally:
        server.kill()


@contextmanager
def cluster(folder: Path, size: int = 3, environment: Mapping[str, str] | None = None) -> Iterator[list[Server]]:
    """A cluster for as long as the body runs."""
    servers = [Server(folder / f"node{n}", f"node{n}", environment) for n in range(1, size + 1)]
    raft = ",".join(f"{server.name}:{server.ports['RAFT_PORT']}" for server in servers)
    first = f"{_HOST}:{servers[0].ports['CLUSTER_GOSSIP_BIND_PORT']}"
    try:
        for server in servers:
            server.environment |= {
                "CLUSTER_IN_LOCALHOST": "true",
                "RAFT_BOOTSTRAP_EXPECT": str(size),
                "RAFT_JOIN": raft,
            }
            if server is not servers[0]:
                server.environment["CLUSTER_JOIN"] = first
            server.start()
        for server in servers:
            server.wait()
        yield servers
    finally:
        for server in servers:
            server.kill()
