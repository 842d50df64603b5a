"""What only a server can do to an index: die, refuse, be shared, take half of a batch. Against real servers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from program.errors import FormatMismatch, LibraryError, LibraryMissing, LibraryUnavailable, NotAllWritten
from program.retrieval import weaviate_nodes, weaviate_read, weaviate_schema, weaviate_write
from program.retrieval.encoders import encode_passages
from program.retrieval.index import Document, Filters, Search
from program.retrieval.late import packed_width
from program.retrieval.weaviate import WeaviateIndex, remove
from program.retrieval.weaviate_nodes import Address
from program.settings import Settings
from program.types import Chunk
from tests.fakes import HashEncoder
from tests.tls_proxy import certificate, tls_proxy
from tests.weaviate_server import Server, free_ports, running

ENCODER = HashEncoder()


@pytest.fixture
def address(weaviate: Settings) -> Iterator[Address]:
    """A library that no other test uses."""
    address = fresh(weaviate)
    yield address
    remove(address)


def fresh(settings: Settings, **more: object) -> Address:
    name = f"Faults_{uuid.uuid4().hex}"
    return Address.from_settings(settings.model_copy(update={"weaviate_collection": name, **more}))


def opened(address: Address) -> WeaviateIndex:
    return WeaviateIndex.open(address, ENCODER.fingerprint, ENCODER.dimensions, create=True)


def texts(name: str, number: int) -> list[str]:
    return [f"{name} tells of zeppelin {place}" for place in range(number)]


def put(index: WeaviateIndex, name: str, passages: list[str], vectors: object = None) -> None:
    chunks = [Chunk(f"{name}/{text}", name, name, text, position=place) for place, text in enumerate(passages)]
    encoded, tokens = encode_passages(ENCODER, passages)
    index.replace(Document(name, name, f"sha-{passages}"), chunks, vectors or encoded, tokens)  # type: ignore[arg-type]


def found(index: WeaviateIndex, text: str, k: int = 1000, alpha: float = 0.0) -> set[str]:
    return {hit.chunk.text for hit in index.search(text, ENCODER.encode([text])[0], k=k, alpha=alpha, fusion="ranked")}


# Searches side by side


def test_one_search_that_fails_beside_others_is_raised(address: Address, monkeypatch: pytest.MonkeyPatch):
    real = weaviate_read.Reader.near

    def near(self: weaviate_read.Reader, search: Search) -> object:
        if search.k == 2:
            raise LibraryError("no more")
        return real(self, search)

    monkeypatch.setattr(weaviate_read.Reader, "near", near)
    with closing(opened(address)) as index:
        put(index, "ship", texts("old", 3))
        vector = ENCODER.encode(["zeppelin"])[0]
        searches = [Search("zeppelin", vector, k, 0.5, "ranked") for k in (1, 2, 3)]
        with pytest.raises(LibraryError, match="no more"):
            index.search_all(searches)
        assert [len(hits) for hits in index.search_all([searches[0], searches[2]])] == [1, 3]


def test_each_word_is_counted_once_for_all_searches(address: Address, monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[tuple[str, ...], str]] = []
    real = weaviate_read.Reader.having

    def having(self: weaviate_read.Reader, known: weaviate_read.Statistics, terms: object, *names: str) -> object:
        asked.extend((names, term) for term in terms if (" ".join(names), term) not in known.having)  # type: ignore[attr-defined]
        return real(self, known, terms, *names)  # type: ignore[arg-type]

    monkeypatch.setattr(weaviate_read.Reader, "having", having)
    with closing(opened(address)) as index:
        put(index, "ship", texts("old", 3))
        vector = ENCODER.encode(["zeppelin"])[0]
        filters = (Filters(), Filters(kind="passage"), Filters(document="ship"))
        index.search_all([Search("old zeppelin submarine", vector, 3, 0.5, "ranked", which) for which in filters])
    assert sorted(term for _, term in asked) == ["old", "old", "zeppelin", "zeppelin"]  # in titles, in texts


def test_a_request_past_its_deadline_leaves_the_others_alone(address: Address):
    """Each such request drops the connection that all share; whoever is using it goes on."""
    with closing(opened(address)) as index:
        put(index, "ship", texts("old", 3))
        stop, failures, answers = threading.Event(), [], []

        def read() -> None:
            while not stop.is_set():
                try:
                    answers.append(len(found(index, "zeppelin")))
                except Exception as error:
                    failures.append(error)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for _ in range(4):
            with pytest.raises(LibraryUnavailable):
                index._nodes.run(lambda client: time.sleep(1.2), 0.3)
        stop.set()
        for reader in readers:
            reader.join()
        assert failures == []
        assert set(answers) == {3}


# Interrupted writes

DYING = """
import os, sys
from tests.test_retrieval_weaviate import *
from program.retrieval import weaviate_write

class Deadly(list):
    def __iter__(self):
        for place, vector in enumerate(list.__iter__(self)):
            if place == 250:
                os._exit(9)
            yield vector

where, url, grpc, key, name = sys.argv[1:]
server = {"weaviate_url": url, "weaviate_grpc": grpc, "weaviate_key": key or None, "weaviate_collection": name}
index = opened(Address.from_settings(Settings(_env_file=None, **server)))
passages = texts("new", 300)
if where == "cleaning":
    real = weaviate_write.Writer._delete_chunks
    weaviate_write.Writer._delete_chunks = lambda *arguments: os._exit(9)
    put(index, "ship", passages)
put(index, "ship", passages, Deadly(ENCODER.encode(passages)))
"""


def die(address: Address, where: str) -> None:
    endpoint = address.endpoints[0]
    arguments = (where, str(endpoint), f"{endpoint.grpc_host}:{endpoint.grpc_port}", address.key, address.collection)
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run([sys.executable, "-c", DYING, *arguments], cwd=root, env={**os.environ, "PYTHONPATH": "."})
    assert done.returncode == 9


@pytest.mark.parametrize("cleaned_by", ["opening", "writing", "deleting"])
def test_a_process_killed_while_it_writes_leaves_the_old_document(
    address: Address, cleaned_by: str, monkeypatch: pytest.MonkeyPatch
):
    old = texts("old", 3)
    with closing(opened(address)) as index:
        put(index, "ship", old)
        die(address, "writing")
        assert set(old) <= found(index, "zeppelin")
        assert index.documents()[0].chunks == 3
        assert len(index) == 3 + 200  # two whole batches
        with closing(opened(address)):
            assert len(index) == 203  # for all that is known, the writer is still at it
        if cleaned_by == "opening":
            monkeypatch.setattr(weaviate_write, "LEASE", 0.0)
            opened(address).close()
            assert found(index, "zeppelin") == set(old)
            assert len(index) == 3
        elif cleaned_by == "writing":
            put(index, "ship", ["another zeppelin"])
            assert found(index, "zeppelin") == {"another zeppelin"}
            assert len(index) == 1
        else:
            assert index.delete("ship")
            assert (len(index), found(index, "zeppelin"), index.documents()) == (0, set(), [])


def test_a_process_killed_before_it_took_the_old_chunks_out(address: Address, monkeypatch: pytest.MonkeyPatch):
    old = texts("old", 3)
    with closing(opened(address)) as index:
        put(index, "ship", old)
        die(address, "cleaning")
        assert index.documents()[0].chunks == 300
        assert len(index) == 303
        monkeypatch.setattr(weaviate_write, "LEASE", 0.0)
        opened(address).close()
        assert found(index, "zeppelin", k=400) == set(texts("new", 300))
        assert len(index) == 300


def test_the_same_write_after_a_crash_leaves_nothing_of_the_first(address: Address):
    with closing(opened(address)) as index:
        put(index, "other", ["nothing"])
        die(address, "writing")
        assert [document.name for document in index.documents()] == ["other"]  # what was never whole is not listed
        put(index, "ship", texts("new", 300))
        assert len(index) == 301
        assert found(index, "zeppelin", k=400) == set(texts("new", 300))


# Batches of which the server takes a part


def test_objects_that_come_back_are_sent_again(address: Address, monkeypatch: pytest.MonkeyPatch):
    from weaviate.collections.classes.batch import BatchObjectReturn
    from weaviate.collections.data import _DataCollection

    real, refused = _DataCollection.insert_many, []

    def insert_many(self, objects):
        """As a server that is losing its node: the first two objects of a batch come back, once."""
        if len(objects) < 10 or "_" in self.name.removeprefix("Faults_") or refused:
            return real(self, objects)
        refused.extend(objects[:2])
        done = real(self, objects[2:])
        error = type("Refused", (), {"message": "the client connection is closing"})()
        return BatchObjectReturn(
            _all_responses=[], elapsed_seconds=0, errors={0: error, 1: error}, uuids=done.uuids, has_errors=True
        )

    monkeypatch.setattr(_DataCollection, "insert_many", insert_many)
    with closing(opened(address)) as index:
        put(index, "ship", texts("new", 50))
        assert len(refused) == 2
        assert len(index) == 50
        assert found(index, "zeppelin") == set(texts("new", 50))


def test_what_is_never_taken_is_an_error_that_counts(address: Address, monkeypatch: pytest.MonkeyPatch):
    """Vectors of another width than the collection's: the server itself refuses them."""
    monkeypatch.setattr(weaviate_write, "AGAIN", 1)
    with closing(opened(address)) as index:
        put(index, "ship", texts("old", 3))
        before = index.documents()
        index._writer._dimensions = 65
        long = np.ones((2, 65), np.float32)
        chunks = [Chunk(f"new-{place}", "ship", "", "new", position=place) for place in range(2)]
        with pytest.raises(NotAllWritten, match=r"took 0 of 2 objects of a batch \(.*vector"):
            index.replace(Document("ship", "", "new"), chunks, long, [np.ones((1, packed_width(65)), np.uint8)] * 2)
        assert index.documents() == before
        assert found(index, "zeppelin") == set(texts("old", 3))
        assert len(index) == 3


# A server that is not there


def grpc_at(address: Address, port: int) -> Address:
    from dataclasses import replace

    return replace(address, endpoints=(replace(address.endpoints[0], grpc_port=port),))


def test_a_closed_grpc_port_is_named(address: Address):
    opened(address).close()
    (port,) = free_ports(1)
    with pytest.raises(LibraryUnavailable, match=f"gRPC port 127.0.0.1:{port}.*RAG_WEAVIATE_GRPC"):
        WeaviateIndex.open_as_made(grpc_at(address, port))


def test_a_silent_grpc_port_is_not_waited_for(address: Address, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(weaviate_nodes, "QUERY", 2.0)
    opened(address).close()
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as silent,
        pytest.raises(LibraryUnavailable, match="does not answer in time"),
    ):
        WeaviateIndex.open_as_made(grpc_at(address, silent.getsockname()[1]))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that wants a key."""
    environment = {
        "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "false",
        "AUTHENTICATION_APIKEY_ENABLED": "true",
        "AUTHENTICATION_APIKEY_ALLOWED_KEYS": "secret",
        "AUTHENTICATION_APIKEY_USERS": "somebody",
    }
    with running(tmp_path_factory.mktemp("guarded"), environment) as server:
        yield server


def test_a_key_opens_a_server_that_wants_one(guarded: Server):
    for key in (None, "wrong"):
        with pytest.raises(LibraryError, match=r"refuses the key.*RAG_WEAVIATE_KEY"):
            opened(fresh(guarded.settings(weaviate_key=key)))
    with closing(opened(fresh(guarded.settings(weaviate_key="secret")))) as index:
        put(index, "ship", ["a zeppelin"])
        assert found(index, "zeppelin") == {"a zeppelin"}
        assert "secret" not in index.location


def test_an_index_outlives_its_server_s_restart(guarded: Server):
    with closing(opened(fresh(guarded.settings(weaviate_key="secret")))) as index:
        put(index, "fleet", texts("fleet", 50))
        put(index, "ship", ["a zeppelin"])
        guarded.kill()
        with pytest.raises(LibraryUnavailable, match="cannot be reached"):
            found(index, "zeppelin")
        with pytest.raises(LibraryUnavailable):
            put(index, "boat", ["a boat"])
        guarded.start()
        guarded.wait()
        for alpha in (0.0, 1.0):  # the log of the vectors is Weaviate's weaker one
            assert found(index, "zeppelin", alpha=alpha) == {"a zeppelin", *texts("fleet", 50)}
        put(index, "boat", ["a boat"])
        assert [document.name for document in index.documents()] == ["boat", "fleet", "ship"]


def test_tls_is_spoken_on_both_ports_with_a_certificate_of_one_s_own(
    guarded: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = certificate(tmp_path)
    with tls_proxy(guarded.ports["HTTP_PORT"], file) as http, tls_proxy(guarded.ports["GRPC_PORT"], file) as grpc:
        more = {"weaviate_url": f"https://127.0.0.1:{http}", "weaviate_grpc": str(grpc), "weaviate_key": "secret"}
        address = fresh(guarded.settings(**more))
        with pytest.raises(LibraryUnavailable, match="SSL_CERT_FILE"):
            opened(address)
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        with closing(opened(fresh(guarded.settings(**more)))) as index:
            put(index, "ship", ["a zeppelin"])
            assert found(index, "zeppelin", alpha=0.5) == {"a zeppelin"}
            assert index.location.endswith(f"https://127.0.0.1:{http}")


# What is in a library, and whose it is


def test_another_format_is_refused(address: Address, monkeypatch: pytest.MonkeyPatch):
    opened(address).close()
    monkeypatch.setattr(weaviate_schema, "FORMAT", weaviate_schema.FORMAT + 1)
    with pytest.raises(FormatMismatch, match="RAG_WEAVIATE_COLLECTION"):
        opened(address)


def test_somebody_else_s_collection_is_refused_and_left(address: Address):
    def make(client):
        client.collections.create(address.collection, description="recipes")

    nodes = weaviate_nodes.Nodes(address, lambda _: ())
    nodes.run(make, 30)
    with pytest.raises(FormatMismatch):
        opened(address)
    assert nodes.run(lambda client: client.collections.get(address.collection).config.get().description) == "recipes"
    nodes.close()


def test_a_tenant_never_sees_another_s_documents(weaviate: Settings):
    settings = weaviate.model_copy(update={"weaviate_collection": f"Tenants_{uuid.uuid4().hex}"})
    first, second = (
        Address.from_settings(settings.model_copy(update={"weaviate_tenant": name})) for name in ("first", "second")
    )
    whole = Address.from_settings(settings)
    try:
        with closing(opened(first)) as one, closing(opened(second)) as two:
            put(one, "ship", ["a zeppelin of the first"])
            assert (len(two), two.documents(), found(two, "zeppelin")) == (0, [], set())
            put(two, "ship", ["a zeppelin of the second", "nothing else"])
            for alpha in (0.0, 0.5, 1.0):
                assert found(one, "zeppelin", alpha=alpha) == {"a zeppelin of the first"}
                assert "a zeppelin of the first" not in found(two, "zeppelin", alpha=alpha)
            assert two.vectors(["ship/nothing else"]).keys() == {"ship/nothing else"}
            assert one.vectors(["ship/nothing else"]) == one.token_vectors(["ship/nothing else"]) == {}
            assert one.inverse_document_frequency(["second"]) == {"second": pytest.approx(np.log(1 + 1.5 / 0.5))}
            with pytest.raises(LibraryError, match="RAG_WEAVIATE_TENANT"):
                WeaviateIndex.open_as_made(whole)
            remove(first)
            with pytest.raises(LibraryMissing):
                WeaviateIndex.open_as_made(first)
            assert found(two, "zeppelin") == {"a zeppelin of the second"}
    finally:
        remove(whole)


def test_a_tenant_of_a_library_without_tenants_is_refused(address: Address):
    from dataclasses import replace

    opened(address).close()
    with pytest.raises(LibraryError, match="not divided into tenants"):
        WeaviateIndex.open_as_made(replace(address, tenant="first"))


def test_a_document_of_many_pages_is_renamed_and_listed_whole(address: Address):
    """More chunks than one page of positions, of ids, and of a batch."""
    passages = [f"Station {place}" for place in range(1234)]
    with closing(opened(address)) as index:
        put(index, "line", passages)
        index.rename("line", Document("railway", "line", "sha"), lambda chunk: f"{chunk.document}-{chunk.position}")
        chunks = index.chunks("railway")
        assert [chunk.text for chunk in chunks] == passages
        assert index.chunks("line") == []
        assert len(index.vectors([chunk.id for chunk in chunks])) == len(index) == 1234


def test_two_writers_of_different_documents_do_not_disturb_each_other(address: Address):
    from concurrent.futures import ThreadPoolExecutor

    with closing(opened(address)) as one, closing(opened(address)) as two, ThreadPoolExecutor(2) as threads:
        jobs = [
            threads.submit(put, index, f"{name}{turn}", texts(f"{name}{turn}", 3))
            for turn in range(10)
            for name, index in (("one", one), ("two", two))
        ]
        for job in jobs:
            job.result()
        assert len(one) == len(two) == 60
        assert len(found(one, "zeppelin")) == 60
