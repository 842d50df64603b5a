"""The API's client against a server that speaks its format, and everything that can go wrong on the way."""

import email.utils
from collections.abc import Iterator
from itertools import islice

import httpx
import pytest

from program.errors import FetchError, ServerUnavailable
from program.ingest import polite
from program.ingest.arxiv import ArXiv, Malformed, Paper, parse_feed, words
from program.ingest.polite import PoliteClient
from program.settings import Settings
from tests.arxiv_server import ArXivServer, Fault, Listed, error_feed, feed

NOW = 1_800_000_000.0
ATTENTION = Listed("1706.03762", "Attention Is All You Need", version=7, categories=("cs.CL", "cs.LG"))
MANY = [Listed(f"2001.{n:05d}", f"Paper number {n}") for n in range(250)]


@pytest.fixture
def server() -> Iterator[ArXivServer]:
    results = {"all:attention": ["1706.03762"], "all:many": [paper.id for paper in MANY]}
    with ArXivServer([ATTENTION, *MANY], results) as server:
        yield server


@pytest.fixture
def sleeps() -> list[float]:
    return []


@pytest.fixture
def connect(server, tmp_path, sleeps):
    """An ArXiv on a fresh client; its sleeps are only written down."""
    clients = []

    def connect(*, refresh: bool = False, pause: float = 0.0, **changes: object) -> ArXiv:
        settings = Settings(arxiv_url=server.url, arxiv_pause=pause, cache=tmp_path, **changes)
        client = PoliteClient(settings, sleep=sleeps.append, clock=lambda: NOW, timeout=httpx.Timeout(0.2))
        clients.append(client)
        return ArXiv(client, settings, refresh=refresh)

    yield connect
    for client in clients:
        client.__exit__(None, None, None)


def test_an_entry_is_read_whole(server, connect):
    listed = Listed(
        "1706.03762",
        "Attention Is\n  All You Need",
        version=7,
        categories=("cs.CL", "cs.LG", "I.2.7"),
        abstract="The dominant models\nare <complex> & recurrent.",
        published="2017-06-12T17:57:34Z",
    )
    server.papers[listed.id] = listed
    assert connect().search("all:attention", 0).entries == (
        Paper(
            id="1706.03762",
            version=7,
            title="Attention Is All You Need",
            authors=("Ada Lovelace", "Alan Turing"),
            abstract="The dominant models are <complex> & recurrent.",
            categories=("cs.CL", "cs.LG"),
            year=2017,
        ),
    )


def test_results_come_in_pages_best_first(server, connect):
    arxiv = connect()
    pages = [arxiv.search("all:many", page) for page in range(3)]
    assert [entry.id for page in pages for entry in page.entries] == [paper.id for paper in MANY]
    assert {page.total for page in pages} == {250}
    assert all("sortBy=relevance" in path for path in server.asked)


def test_papers_are_found_by_id_and_unknown_ids_are_left_out(connect):
    found = connect().papers(["1706.03762v7", "9912.99999"])
    assert [entry.id for entry in found.entries] == ["1706.03762"]


def test_every_answer_is_kept_and_asked_for_again_only_on_request(server, connect):
    first = connect().search("all:attention", 0)
    assert connect().search("all:attention", 0) == first
    assert len(server.asked) == 1
    connect(refresh=True).search("all:attention", 0)
    assert len(server.asked) == 2


def test_a_damaged_answer_in_the_cache_is_asked_for_again(server, connect, tmp_path):
    first = connect().search("all:attention", 0)
    (kept,) = (tmp_path / "arxiv" / "answers").iterdir()
    kept.write_bytes(kept.read_bytes()[:-20])
    assert connect().search("all:attention", 0) == first
    assert len(server.asked) == 2
    assert connect().search("all:attention", 0) == first
    assert len(server.asked) == 2


def test_offline_answers_from_the_cache_alone(server, connect):
    first = connect().search("all:attention", 0)
    assert connect(offline=True).search("all:attention", 0) == first
    with pytest.raises(FetchError, match="RAG_OFFLINE"):
        connect(offline=True).search("all:many", 0)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=503),
        Fault(status=429),
        Fault(status=500, body=b"<html>oops</html>"),
        Fault(cut=100),
        Fault(hang=True),
        Fault(body=b"Rate exceeded.\n"),
        Fault(body=b"<html><body>Maintenance</body></html>"),
        Fault(body=feed(["<entry>"], 1)),
        Fault(body=b""),
    ],
    ids=["503", "429", "500", "cut", "hang", "rate", "html", "broken", "nothing"],
)
def test_what_may_pass_is_tried_again_and_never_kept(server, connect, sleeps, fault):
    server.faults.extend([fault, fault])
    assert connect(pause=3.0).search("all:attention", 0).entries
    assert [wait for wait in sleeps if wait != 3.0] == [6.0, 12.0]
    connect().search("all:attention", 0)
    assert len(server.asked) == 3


def test_a_server_that_stays_away_is_unavailable(server, connect):
    server.faults.extend([Fault(status=503)] * polite.ATTEMPTS)
    with pytest.raises(ServerUnavailable, match="answered 503, 5 times") as caught:
        connect().search("all:attention", 0)
    assert "later" in caught.value.hint
    assert len(server.asked) == polite.ATTEMPTS


def test_no_server_at_all_is_unavailable(tmp_path):
    with ArXivServer([]) as gone:
        settings = Settings(arxiv_url=gone.url, arxiv_pause=0, cache=tmp_path)
    client = PoliteClient(settings, sleep=lambda _: None)
    with client, pytest.raises(ServerUnavailable, match="cannot be reached"):
        ArXiv(client, settings).search("all:attention", 0)


@pytest.mark.parametrize("value", ["40", email.utils.formatdate(NOW + 40, usegmt=True)])
def test_retry_after_is_obeyed_as_seconds_and_as_a_date(server, connect, sleeps, value):
    server.faults.append(Fault(status=429, headers={"Retry-After": value}))
    connect().search("all:attention", 0)
    assert sleeps == [40.0]


@pytest.mark.parametrize("value", ["-5", "soon", "٣", "Wed, 99 Nov 2026 99:99:99 GMT"])
def test_a_retry_after_that_makes_no_sense_is_ignored(server, connect, sleeps, value):
    server.faults.append(Fault(status=429, headers={"Retry-After": value.encode().decode("latin-1")}))
    assert connect(pause=1.0).search("all:attention", 0).entries
    assert 2.0 in sleeps
    assert max(sleeps) == 2.0


def test_a_server_that_asks_for_an_hour_is_left_alone(server, connect, sleeps):
    server.faults.append(Fault(status=503, headers={"Retry-After": "3600"}))
    with pytest.raises(ServerUnavailable, match="60 minutes"):
        connect().search("all:attention", 0)
    assert sleeps == []
    assert len(server.asked) == 1


def test_requests_keep_their_distance_also_between_processes(connect, sleeps):
    connect(pause=3.0).search("all:attention", 0)
    assert sleeps == []  # the first one
    connect(pause=3.0).search("all:many", 0)  # another client, as another process has it
    assert sleeps == [3.0]


def test_the_user_agent_says_who_asks(server, connect):
    connect(contact="someone@example.org").search("all:attention", 0)
    agent = server.headers[0]["User-Agent"]
    assert agent.startswith("adaptive-rag/")
    assert "mailto:someone@example.org" in agent


@pytest.mark.parametrize("status", [200, 400])
def test_an_error_that_the_api_explains_is_not_tried_again(server, connect, status):
    server.faults.append(Fault(status=status, body=error_feed("start must be an integer")))
    with pytest.raises(FetchError, match="start must be an integer") as caught:
        connect().search("all:attention", 0)
    assert not isinstance(caught.value, ServerUnavailable)
    assert len(server.asked) == 1


def test_being_turned_away_is_told_at_once(server, connect):
    server.faults.append(Fault(status=403, body=b"Access denied"))
    with pytest.raises(ServerUnavailable, match="turns this program away"):
        connect().search("all:attention", 0)
    assert len(server.asked) == 1


def test_an_empty_page_in_the_middle_is_asked_for_again_and_then_taken_for_the_end(server, connect):
    empty = Fault(body=feed([], 250, 100))
    server.faults.append(empty)
    assert len(connect().search("all:many", 1).entries) == 100
    server.faults.extend([empty] * 3)
    assert connect(refresh=True).search("all:many", 1).entries == ()
    assert len(connect().search("all:many", 1).entries) == 100  # the end that may be none was not kept


def test_redirects_are_followed_but_not_in_a_circle(server, connect):
    server.faults.append(
        Fault(status=301, headers={"Location": "/api/query?search_query=all%3Amany&start=0&max_results=1"})
    )
    assert connect().search("all:attention", 0).total == 250
    server.faults.extend([Fault(status=301, headers={"Location": "/again"})] * 10)
    with pytest.raises(FetchError, match="cannot be asked for"):
        connect(refresh=True).search("all:attention", 0)


def test_an_answer_without_end_is_given_up(server, connect, monkeypatch):
    monkeypatch.setattr("program.ingest.arxiv.MOST_BYTES", 1000)
    with pytest.raises(FetchError, match="larger than"):
        connect().search("all:many", 0)


def test_an_answer_that_drips_is_given_up(server, connect, monkeypatch):
    monkeypatch.setattr(polite, "DEADLINE", -1.0)
    with pytest.raises(ServerUnavailable, match="too slowly"):
        connect().search("all:many", 0)


def test_a_cache_that_cannot_be_written_is_a_typed_error(server, tmp_path):
    (tmp_path / "cache").write_text("a file")
    settings = Settings(arxiv_url=server.url, arxiv_pause=0, cache=tmp_path / "cache")
    with PoliteClient(settings) as client, pytest.raises(FetchError, match="cannot be read or written"):
        ArXiv(client, settings).search("all:attention", 0)


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        (Listed("1706.03762", "T", drop=["id"]), "no arXiv id"),
        (Listed("../../etc/passwd", "T"), "no arXiv id"),
        (Listed("1706.03762/../../x", "T"), "no arXiv id"),
        (Listed("1706.03762", " "), "no title"),
        (Listed("1706.03762", "T", drop=["summary"]), "no abstract"),
        (Listed("1706.03762", "T", authors=()), "no authors"),
        (Listed("1706.03762", "T", categories=("I.2.7",)), "no category"),
        (Listed("1706.03762", "T", published="yesterday"), "no date"),
        (Listed("1706.03762", "T", drop=["published", "summary"]), "no abstract, no date"),
    ],
)
def test_a_malformed_entry_spoils_only_itself(listed, problem):
    before, wrong, after = parse_feed(feed([MANY[0].entry(), listed.entry(), MANY[1].entry()], 3)).entries
    assert isinstance(wrong, Malformed)
    assert wrong.problem == problem
    assert isinstance(before, Paper)
    assert isinstance(after, Paper)


@pytest.mark.parametrize(
    ("listed", "withdrawn"),
    [
        (Listed("1", "T", comment="This paper has been withdrawn by the author"), True),
        (Listed("1", "T", abstract="This paper has been withdrawn due to an error."), True),
        (Listed("1", "T", abstract="We study why articles are withdrawn.", comment="12 pages"), False),
    ],
)
def test_withdrawn_papers_are_told_by_their_comment_or_abstract(listed, withdrawn):
    listed = Listed("1706.03762", listed.title, abstract=listed.abstract, comment=listed.comment)
    (paper,) = parse_feed(feed([listed.entry()], 1)).entries
    assert isinstance(paper, Paper)
    assert paper.withdrawn is withdrawn


def test_an_old_id_and_an_id_without_version():
    old = Listed("hep-th/9901001", "T").entry().replace("v1</id>", "</id>")
    (paper,) = parse_feed(feed([old], 1)).entries
    assert isinstance(paper, Paper)
    assert (paper.id, paper.version) == ("hep-th/9901001", None)


def test_entities_and_document_types_are_refused():
    bomb = b'<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><feed xmlns="http://www.w3.org/2005/Atom">&b;</feed>'
    with pytest.raises(ValueError, match="DTDForbidden"):
        parse_feed(bomb)


def test_no_mutation_of_a_feed_raises_anything_but_what_is_promised():
    good = feed([ATTENTION.entry()], 1)
    survived = 0
    for place in range(0, len(good), 3):
        for replaced in (b"", b"\x00", b"<", b"&#xD800;", b"\xff"):
            try:
                parse_feed(good[:place] + replaced + good[place + 1 :])
                survived += 1
            except (ValueError, FetchError):
                pass
    assert survived  # some bytes do not matter


def test_titles_are_compared_by_their_words():
    same = ["Schr\\\"odinger's {BERT}: a Test", "Schrödinger’s  BERT -- A test", "SCHRODINGERS bert, a test!"]
    assert len(set(map(words, same))) == 1
    assert words("Attention is all you need") != words("Attention is not all you need")
    assert list(islice(words("$O(n)$-time").split(), 5)) == ["o", "n", "time"]
