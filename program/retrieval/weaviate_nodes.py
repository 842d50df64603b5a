"""Talking to a Weaviate server, or to a cluster through any of its nodes.

Weaviate's client waits a minute for a gRPC port that nobody listens on, whatever its timeouts say; so every call runs
under a deadline of ours. A node that does not answer is left for one that does. With several addresses, a node is used
only when it is in step with the others: one that was away answers at once, from what it had, and catches up later.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from program.errors import LibraryError, LibraryUnavailable, SettingsError, cause_of

if TYPE_CHECKING:
    from weaviate import WeaviateClient

    from program.settings import Settings

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Seconds a query, a write, a change of the schema may take.
QUERY, WRITE, SCHEMA = 5.0, 60.0, 30.0
#: How often all nodes of a cluster are tried: just after one died, the others are busy electing a leader.
ROUNDS = 4
#: Seconds of silence after which it is worth asking whether anybody is there.
SILENCE = 1.0
GRPC_PORT = 50051


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one node listens. secure: TLS on both ports."""

    host: str
    port: int
    grpc_host: str
    grpc_port: int
    secure: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"

    def open_ports(self) -> tuple[bool, bool]:
        """Whether somebody listens on the HTTP and on the gRPC port."""
        return _listens(self.host, self.port), _listens(self.grpc_host, self.grpc_port)


@dataclass(frozen=True, slots=True)
class Address:
    """Which library on which server. tenant: a private space in a collection that several share, or ""."""

    endpoints: tuple[Endpoint, ...]
    collection: str
    tenant: str = ""
    key: str = ""
    certificates: str = ""  # file of the authorities to trust, besides TLS's usual ones

    def __str__(self) -> str:
        place = f"{self.collection}/{self.tenant}" if self.tenant else self.collection
        return f"{place} on Weaviate at {', '.join(map(str, self.endpoints))}"

    @classmethod
    def from_settings(cls, settings: Settings, suffix: str = "") -> Address:
        """The address that the settings name; suffix: of the collection's name. Raises SettingsError."""
        assert settings.weaviate_url, "asked only when there is one"
        urls = [url.strip() for url in settings.weaviate_url.split(",") if url.strip()] or [""]
        grpc = [port.strip() for port in settings.weaviate_grpc.split(",") if port.strip()] or [str(GRPC_PORT)]
        if len(grpc) not in (1, len(urls)):
            raise SettingsError(
                f"RAG_WEAVIATE_GRPC names {len(grpc)} ports for {len(urls)} addresses.", "Give one, or one for each."
            )
        key = settings.weaviate_key.get_secret_value() if settings.weaviate_key else ""
        grpc = grpc * (len(urls) if len(grpc) == 1 else 1)
        endpoints = tuple(_endpoint(url, port) for url, port in zip(urls, grpc, strict=True))
        certificates = os.environ.get("SSL_CERT_FILE", "")
        return cls(endpoints, settings.weaviate_collection + suffix, settings.weaviate_tenant or "", key, certificates)


#: What tells whether two nodes have the same: compared as it is, the greater the newer.
Census = Callable[["WeaviateClient"], tuple[int, ...]]


class Nodes:
    """The nodes of one server or cluster. `run` may be called from any thread."""

    def __init__(self, address: Address, census: Census) -> None:
        self.address = address
        self._census = census
        self._choosing = threading.Lock()
        self._lock = threading.Lock()  # held for a moment only
        self._connecting = {endpoint: threading.Lock() for endpoint in address.endpoints}
        self._connections: dict[Endpoint, _Connection] = {}
        # A program that never closes its index must not end in the client's warning about it.
        weakref.finalize(self, _close, self._connections)
        self._closed = False
        self._current: Endpoint | None = None

    def run(self, work: Callable[[WeaviateClient], T], seconds: float | None = None, *, once: bool = False) -> T:
        """What `work` gives on a node that answers in `seconds`; it may run on more than one, and part of it twice,
        unless it is to run `once`.

        Raises LibraryUnavailable when none answers, LibraryError when the server refuses.
        """
        if self._closed:
            raise LibraryError(f"The library {self.address} is closed.")
        rounds = ROUNDS if len(self.address.endpoints) > 1 and not once else 1
        for rounds_left in reversed(range(rounds)):
            tried: dict[Endpoint, LibraryError] = {}
            while (endpoint := self._choose(tried)) is not None:
                try:
                    return self._ask(endpoint, work, seconds or QUERY)
                except LibraryError as error:
                    tried[endpoint] = error
                    self._leave(endpoint, connected=not isinstance(error, LibraryUnavailable))
                    if once:
                        raise
            # What a node that answers says is worth more than that another one is silent.
            worst = sorted(tried.values(), key=lambda error: isinstance(error, LibraryUnavailable))[0]
            if not rounds_left or not isinstance(worst, LibraryUnavailable):
                raise worst
            time.sleep(SILENCE)
        raise AssertionError("unreachable")

    def version(self) -> str:
        """The server's version, as "1.39.0"."""
        return str(self.run(lambda client: client.get_meta())["version"])

    def close(self) -> None:
        self._closed = True
        for endpoint in self.address.endpoints:
            self._leave(endpoint)

    def _choose(self, tried: dict[Endpoint, LibraryError]) -> Endpoint | None:
        """The node in use; after it failed, another one, in step with all that answer before any other."""
        with self._choosing:
            rest = [endpoint for endpoint in self.address.endpoints if endpoint not in tried]
            if self._current in rest or not rest:
                return self._current if rest else None
            if len(self.address.endpoints) > 1:
                rest = self._in_step(rest, tried)
            self._current = rest[0] if rest else None
            return self._current

    def _in_step(self, rest: list[Endpoint], tried: dict[Endpoint, LibraryError]) -> list[Endpoint]:
        """Those of the nodes that answer, the ones that have what most have first; of two halves, the newer."""
        found: dict[Endpoint, tuple[int, ...]] = {}
        for endpoint in rest:
            try:
                found[endpoint] = self._ask(endpoint, self._census, QUERY)
            except LibraryError as error:
                tried[endpoint] = error
                self._leave(endpoint)
        votes = Counter(found.values())
        best = max(votes, key=lambda census: (votes[census], census), default=())
        behind = [endpoint for endpoint, census in found.items() if census != best]
        if behind:
            log.warning("not in step with the cluster, and left alone for now: %s", ", ".join(map(str, behind)))
        return sorted(found, key=lambda endpoint: found[endpoint] != best)

    def _leave(self, endpoint: Endpoint, *, connected: bool = False) -> None:
        """Choose again the next time; and connect anew, unless it stays `connected`: a channel that failed waits longer
        and longer before it tries again."""
        with self._lock:
            left = None if connected else self._connections.pop(endpoint, None)
            if self._current == endpoint:
                self._current = None
            if left is not None:
                left.users -= 1
        if left is not None:
            left.close_if_unused()

    def _ask(self, endpoint: Endpoint, work: Callable[[WeaviateClient], T], seconds: float) -> T:
        """One node's answer. Raises LibraryUnavailable when it does not come in time, LibraryError when it refuses."""
        answer: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

        def ask() -> None:
            try:
                with self._connected(endpoint) as client:
                    answer.put((work(client), None))
            except BaseException as error:
                answer.put((None, error))

        # A thread that dies with the process: one that is stuck in the client's retries must not keep it alive.
        threading.Thread(target=ask, name="weaviate", daemon=True).start()
        try:
            result, error = answer.get(timeout=min(SILENCE, seconds))
        except queue.Empty:
            try:
                if not all(endpoint.open_ports()):
                    raise _silent(endpoint)
                result, error = answer.get(timeout=max(seconds - SILENCE, 0))
            except queue.Empty:
                raise _silent(endpoint) from None
        if error is not None:
            raise _explained(endpoint, error) from error
        return result  # type: ignore[return-value]

    @contextmanager
    def _connected(self, endpoint: Endpoint) -> Iterator[WeaviateClient]:
        """A client that stays open for as long as the body runs, though another thread leaves the node meanwhile."""
        with self._connecting[endpoint]:
            with self._lock:
                connection = self._connections.get(endpoint)
                if connection is not None:
                    connection.users += 1
            if connection is None:
                connection = _Connection(connect(endpoint, self.address))
                with self._lock:
                    if not self._closed:  # while this thread, whose answer nobody waits for any more, was connecting
                        connection.users += 1
                        self._connections[endpoint] = connection
        try:
            yield connection.client
        finally:
            with self._lock:
                connection.users -= 1
            connection.close_if_unused()


@dataclass(slots=True)
class _Connection:
    """users: who may still ask, the nodes that keep it counted as one."""

    client: WeaviateClient
    users: int = 1

    def close_if_unused(self) -> None:
        if not self.users:
            self.client.close()


def _close(connections: dict[Endpoint, _Connection]) -> None:
    for connection in connections.values():
        connection.client.close()


def connect(endpoint: Endpoint, address: Address) -> WeaviateClient:
    """A connected client. Without the client's own checks at the start, which ask the package registry for news."""
    import weaviate
    from weaviate.classes.init import AdditionalConfig, Auth, Timeout
    from weaviate.config import GrpcConfig

    grpc_config = None
    if endpoint.secure and address.certificates:
        import grpc

        trusted = Path(address.certificates).read_bytes()
        grpc_config = GrpcConfig(credentials=grpc.ssl_channel_credentials(trusted))
    return weaviate.connect_to_custom(
        http_host=endpoint.host,
        http_port=endpoint.port,
        http_secure=endpoint.secure,
        grpc_host=endpoint.grpc_host,
        grpc_port=endpoint.grpc_port,
        grpc_secure=endpoint.secure,
        auth_credentials=Auth.api_key(address.key) if address.key else None,
        additional_config=AdditionalConfig(
            timeout=Timeout(init=QUERY, query=2 * QUERY, insert=2 * WRITE),  # ours come first
            trust_env=bool(address.certificates),
            grpc_config=grpc_config,
        ),
        skip_init_checks=True,
    )


def _endpoint(url: str, grpc: str) -> Endpoint:
    try:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        port = urlsplit(f"//{grpc}" if ":" in grpc else f"//:{grpc}")
        if parts.scheme not in ("http", "https") or not parts.hostname or not port.port:
            raise ValueError(url)
        secure = parts.scheme == "https"
        http_port = parts.port or (443 if secure else 8080)
        return Endpoint(parts.hostname, http_port, port.hostname or parts.hostname, port.port, secure)
    except ValueError as error:
        raise SettingsError(
            f"RAG_WEAVIATE_URL is {url!r} and RAG_WEAVIATE_GRPC {grpc!r}: that is no address.",
            "Write http://HOST:8080 or https://HOST, and a gRPC port such as 50051, or HOST:PORT.",
        ) from error


def _listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=SILENCE):
            return True
    except OSError:
        return False


def _silent(endpoint: Endpoint) -> LibraryUnavailable:
    http, grpc = endpoint.open_ports()
    if http and not grpc:
        return LibraryUnavailable(
            f"Weaviate at {endpoint} listens, but nobody does on its gRPC port "
            f"{endpoint.grpc_host}:{endpoint.grpc_port}.",
            "Set RAG_WEAVIATE_GRPC to that port (50051 by default), and open it to this machine.",
        )
    what = "does not answer in time" if http else "cannot be reached"
    if endpoint.secure:
        what += ", or shows a certificate that is not trusted (SSL_CERT_FILE names a file of those to trust)"
    return LibraryUnavailable(
        f"Weaviate at {endpoint} (gRPC {endpoint.grpc_host}:{endpoint.grpc_port}) {what}.",
        "Start it, or correct RAG_WEAVIATE_URL and RAG_WEAVIATE_GRPC; unset RAG_WEAVIATE_URL to do without.",
    )


def _explained(endpoint: Endpoint, error: BaseException) -> BaseException:
    """The error as one of ours, if it is one that a server or the network makes."""
    import grpc
    import httpx
    from weaviate import exceptions as they

    code = error.__context__.code() if isinstance(error.__context__, grpc.RpcError) else None
    status = getattr(error, "status_code", None)
    refused = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
    if status in (401, 403) or code in refused or isinstance(error, they.AuthenticationFailedError):
        return LibraryError(f"Weaviate at {endpoint} refuses the key.", "Set RAG_WEAVIATE_KEY (or WEAVIATE_API_KEY).")
    unreachable = (
        they.WeaviateStartUpError,
        they.WeaviateConnectionError,
        they.WeaviateTimeoutError,
        they.WeaviateRetryError,
        they.WeaviateClosedClientError,
        httpx.HTTPError,
        OSError,
    )
    gone = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
    if isinstance(error, unreachable) or code in gone:
        return _silent(endpoint)
    if isinstance(error, they.WeaviateBaseError):
        return LibraryError(f"Weaviate at {endpoint} refuses: {cause_of(error)}", "The server's log says more.")
    return error
