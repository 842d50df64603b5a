"""A cluster of three that loses a node, among queries and writes, and gets it back."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from program.retrieval.encoders import encode_passages
from program.retrieval.index import Document
from program.retrieval.weaviate import WeaviateIndex
from program.retrieval.weaviate_nodes import Address, Nodes
from program.retrieval.weaviate_read import census
from program.retrieval.weaviate_schema import library
from program.settings import Settings
from program.types import Chunk
from tests.fakes import HashEncoder
from tests.weaviate_server import Server, cluster

ENCODER = HashEncoder()
PASSAGES = 20
#: Seconds within which a node that came back is to have caught up.
PATIENCE = 150.0
#: Weaviate compares replicas every half minute, and leaves young objects for another.
EAGER = {"ASYNC_REPLICATION_FREQUENCY": "3s", "ASYNC_REPLICATION_PROPAGATION_DELAY": "2s"}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with cluster(tmp_path_factory.mktemp("cluster"), environment=EAGER) as servers:
        yield servers


def address_of(servers: list[Server]) -> Address:
    urls, ports = ",".join(server.url for server in servers), ",".join(server.grpc for server in servers)
    name = f"Cluster_{uuid.uuid4().hex}"
    return Address.from_settings(
        Settings(_env_file=None, weaviate_url=urls, weaviate_grpc=ports, weaviate_collection=name)
    )


def put(index: WeaviateIndex, name: str) -> None:
    texts = [f"{name} carries parcel {place} of {name}" for place in range(PASSAGES)]
    chunks = [Chunk(f"{name}-{place:02}", name, "", text, position=place) for place, text in enumerate(texts)]
    index.replace(Document(name, "", name), chunks, *encode_passages(ENCODER, texts))


def census_of(alone: Address) -> tuple[int, ...]:
    """What one node says that it has."""
    with closing(Nodes(alone, lambda _: ())) as nodes:
        return nodes.run(lambda client: census(library(client, alone)))


def right(index: WeaviateIndex, name: str) -> bool:
    """Whether the best answers to a question about one document are that document's."""
    text = f"{name} parcel"
    hits = index.search(text, ENCODER.encode([text])[0], k=10, alpha=0.5, fusion="ranked")
    return [hit.chunk.document for hit in hits] == [name] * 10


def whole(index: WeaviateIndex, name: str) -> bool:
    """Whether words and vectors both find every passage of a document."""
    text = f"{name} parcel"
    legs = (
        index.search(text, ENCODER.encode([text])[0], k=2 * PASSAGES, alpha=alpha, fusion="ranked")
        for alpha in (0.0, 1.0)
    )
    return all(sum(hit.chunk.document == name for hit in leg) == PASSAGES for leg in legs)


def test_a_node_dies_and_comes_back(nodes: list[Server]):
    """Nothing is lost, queries go on, and the node is used again when it has caught up, deletions included."""
    address = address_of(nodes)
    alone = [replace(address, endpoints=(endpoint,)) for endpoint in address.endpoints]
    early, late = [f"barge{n}" for n in range(10)], [f"ferry{n}" for n in range(10)]
    with closing(WeaviateIndex.open(address, ENCODER.fingerprint, ENCODER.dimensions, create=True)) as index:
        config = index._nodes.run(lambda client: client.collections.get(address.collection).config.get())
        assert config.replication_config.factor == 3
        assert config.sharding_config.actual_count == 3
        for name in early:
            put(index, name)
        assert all(right(index, name) for name in early)

        answers: list[bool] = []
        failures: list[BaseException] = []
        stop, killed = threading.Event(), threading.Event()

        def ask() -> None:
            try:
                with closing(WeaviateIndex.open_as_made(address)) as reader:
                    while not stop.is_set():
                        answers.extend(right(reader, name) for name in early[3:])
            except BaseException as error:
                failures.append(error)

        def write() -> None:
            try:
                with closing(WeaviateIndex.open_as_made(address)) as writer:
                    for place, name in enumerate(late):
                        if place == 3:
                            killed.wait()
                        put(writer, name)
                    for name in early[:3]:
                        writer.delete(name)
            except BaseException as error:
                failures.append(error)

        asking, writing = threading.Thread(target=ask), threading.Thread(target=write)
        asking.start()
        writing.start()
        in_use = next(server for server in nodes if server.url == str(index._nodes._current))
        while not answers:
            time.sleep(0.05)
        in_use.kill()
        killed.set()
        before = len(answers)
        while len(answers) < before + 20 and not failures:
            time.sleep(0.05)
        writing.join()
        stop.set()
        asking.join()
        assert not failures
        assert all(answers)

        kept = early[3:] + late
        assert [document.name for document in index.documents()] == sorted(kept)
        assert all(whole(index, name) for name in kept)
        assert len(index) == len(kept) * PASSAGES

        place = nodes.index(in_use)
        in_use.start()
        in_use.wait()
        # It answers at once, from what it had; whoever opens the library now is not to notice.
        with closing(WeaviateIndex.open_as_made(address)) as after:
            assert all(right(after, name) for name in kept)
            assert len(after) == len(kept) * PASSAGES
            assert after._nodes._current != address.endpoints[place]
        end = time.monotonic() + PATIENCE
        while len({census_of(one) for one in alone}) > 1:
            assert time.monotonic() < end, "the node did not catch up"
            time.sleep(1)
        with closing(WeaviateIndex.open_as_made(alone[place])) as returned:
            assert all(whole(returned, name) for name in kept)
            assert len(returned) == len(kept) * PASSAGES
            assert [document.name for document in returned.documents()] == sorted(kept)


def test_a_node_that_is_behind_is_left_alone_until_it_is_in_step(nodes: list[Server]):
    """The choice itself, with what the nodes say of themselves replaced."""
    address = address_of(nodes)
    with closing(WeaviateIndex.open(address, ENCODER.fingerprint, ENCODER.dimensions, create=True)) as index:
        first, second, third = address.endpoints
        # Different only in the last number: what the objects' marks add up to.
        said = {first: (1, 5, 50), second: (2, 6, 60), third: (2, 6, 60)}
        talk = index._nodes
        asked = iter([first, second, third] * 10)
        talk._census = lambda client: said[next(asked)]
        talk._current = None
        talk.run(lambda client: None)
        assert talk._current == second
        said[second] = (2, 6, 59)
        said[third] = (3, 6, 60)  # all different: the newest
        talk._current = None
        talk.run(lambda client: None)
        assert talk._current == third
