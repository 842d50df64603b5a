"""Which papers a manifest lists, and why, with an arXiv that answers from a table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from program.errors import FetchError, ManifestError
from program.ingest.arxiv import PAGE, ArXiv
from program.ingest.manifest import Manifest, load_manifest, save_manifest
from program.ingest.polite import PoliteClient
from program.ingest.selection import BARREN_ROUNDS, select_papers
from program.ingest.topics import Topics
from program.settings import Settings
from tests.arxiv_server import ArXivServer, Listed

Select = Callable[..., Manifest]


def papers(prefix: int, count: int, **fields: Any) -> list[Listed]:
    return [Listed(f"{prefix}.{n:05d}", f"Title {prefix} {n}", **fields) for n in range(count)]


def ids(found: Sequence[Any]) -> list[str]:
    return [paper.id for paper in found]


@pytest.fixture
def select(tmp_path):
    servers = []

    def select(listed: Sequence[Listed], results: Mapping[str, Sequence[str]], size: int, **topics: Any) -> Manifest:
        with ArXivServer(listed, results) as server:
            servers.append(server)
            settings = Settings(arxiv_url=server.url, arxiv_pause=0, cache=tmp_path)
            with PoliteClient(settings, sleep=lambda _: None) as client:
                return select_papers(Topics.model_validate(topics), size, ArXiv(client, settings))

    select.servers = servers
    return select


def test_the_best_papers_of_a_query_are_taken_with_all_that_is_asked_for(select):
    listed = papers(2001, 5)
    manifest = select(listed, {"ti:x": ids(listed)}, 3, topics=[{"name": "a", "queries": ["ti:x"]}])
    assert ids(manifest.papers) == ["2001.00000", "2001.00001", "2001.00002"]
    first = manifest.papers[0]
    assert (first.title, first.year, first.categories, first.topic) == ("Title 2001 0", 2020, ("cs.CL",), "a")
    assert first.authors == ("Ada Lovelace", "Alan Turing")
    assert first.abstract.startswith("We study")
    assert first.why == "Found by ti:x (rank 1 of 5)."
    (topic,) = manifest.topics
    assert (topic.selected, topic.hand_picked, topic.rejected, topic.spare) == (3, 0, 0, 2)
    (query,) = topic.queries
    assert (query.query, query.found, query.read, query.as_of) == ("ti:x", 5, 5, "2026-11-30")


def test_a_paper_that_several_queries_find_goes_before_one_that_a_single_query_finds(select):
    listed = papers(2001, 6)
    a, b, c, d, e, _ = ids(listed)
    manifest = select(
        listed, {"ti:x": [a, b, c], "ti:y": [d, c, e]}, 6, topics=[{"name": "t", "queries": ["ti:x", "ti:y"]}]
    )
    assert ids(manifest.papers) == [c, a, d, b, e]
    assert manifest.papers[0].why == "Found by ti:x (rank 3 of 3); ti:y (rank 2 of 3)."


def test_equals_are_ordered_by_id(select):
    listed = papers(2001, 2)
    a, b = ids(listed)
    manifest = select(listed, {"ti:x": [b], "ti:y": [a]}, 2, topics=[{"name": "t", "queries": ["ti:x", "ti:y"]}])
    assert ids(manifest.papers) == [a, b]


def test_topics_take_turns_by_their_share_and_a_dry_topic_leaves_its_turns_to_the_others(select):
    one, two, three = papers(2001, 50), papers(2002, 50), papers(2003, 2)
    results = {"ti:a": ids(one), "ti:b": ids(two), "ti:c": ids(three)}
    manifest = select(
        [*one, *two, *three],
        results,
        26,
        topics=[
            {"name": "a", "queries": ["ti:a"], "share": 2},
            {"name": "b", "queries": ["ti:b"]},
            {"name": "c", "queries": ["ti:c"]},
        ],
    )
    assert [topic.selected for topic in manifest.topics] == [16, 8, 2]


def test_hand_picked_papers_come_first_pass_no_gate_and_count_for_their_topic(select):
    listed = [Listed("1706.03762", "Attention Is All You Need", 7, categories=("math.CO",)), *papers(2001, 5)]
    manifest = select(
        listed,
        {"ti:x": ids(listed), "ti:y": ids(listed)},
        4,
        categories=["cs.*"],
        block_titles=["attention"],
        topics=[
            {"name": "a", "queries": ["ti:x"]},
            {"name": "b", "queries": ["ti:y"], "papers": [{"id": "1706.03762", "title": "Attention is all you need."}]},
        ],
    )
    assert ids(manifest.papers)[0] == "1706.03762"
    assert manifest.papers[0].hand_picked
    assert manifest.papers[0].version == 7
    assert [(topic.selected, topic.hand_picked) for topic in manifest.topics] == [(2, 0), (2, 1)]
    assert manifest.rejected == ()


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        (
            Listed("1706.03762", "Attention is not all you need"),
            'the title of this id is "Attention is not all you need"',
        ),
        (Listed("1706.03763", "Attention is all you need"), "arXiv has no such paper"),
        (Listed("1706.03762", "Attention is all you need", drop=["summary"]), "malformed: no abstract"),
        (Listed("1706.03762", "Attention is all you need", comment="Withdrawn."), "it was withdrawn"),
    ],
)
def test_a_hand_picked_paper_that_is_not_what_it_was_taken_for_is_left_out_and_told(select, listed, why):
    pick = {"id": "1706.03762", "title": "Attention is all you need"}
    other = Listed("2001.00001", "Other")
    topics = [{"name": "a", "queries": ["ti:x"], "papers": [pick]}, {"name": "b", "queries": ["ti:x"]}]
    manifest = select([listed, other], {"ti:x": [listed.id, other.id]}, 5, topics=topics)
    (unverified,) = manifest.unverified
    assert unverified.id == "1706.03762"
    assert why in unverified.why
    assert not any(paper.hand_picked for paper in manifest.papers)
    assert all(paper.topic == "b" for paper in manifest.papers if paper.id == unverified.id)  # the gates' own business


def test_many_hand_picked_papers_are_looked_up_a_few_at_a_time(select):
    listed = papers(2001, 120)
    picks = [{"id": paper.id, "title": paper.title} for paper in listed]
    manifest = select(listed, {}, 120, topics=[{"name": "a", "papers": picks}])
    assert ids(manifest.papers) == ids(listed)
    assert len(select.servers[0].asked) == 3


def test_more_hand_picked_papers_than_there_is_room_for(select):
    picks = [{"id": paper.id, "title": paper.title} for paper in papers(2001, 3)]
    with pytest.raises(ManifestError, match="3 papers are picked by hand, but the size is 2"):
        select([], {}, 2, topics=[{"name": "a", "papers": picks}])


def test_what_the_gates_reject_is_listed_with_the_reason(select):
    listed = [
        Listed("2001.00001", "A Survey of Things"),
        Listed("2001.00002", "Sums", categories=("math.CO",)),
        Listed("2001.00003", "Excluded"),
        Listed("2001.00004", "Gone", comment="withdrawn"),
        Listed("2001.00005", "Broken", drop=["summary"]),
        Listed("2001.00006", "Good"),
        Listed("2001.00007", "GOOD!"),
    ]
    manifest = select(
        listed,
        {"ti:x": ids(listed), "ti:y": ids(listed)},
        10,
        categories=["cs.*"],
        block_titles=["survey"],
        exclude=["2001.00003"],
        topics=[{"name": "a", "queries": ["ti:x", "ti:y"]}],
    )
    assert ids(manifest.papers) == ["2001.00006"]
    reasons = {rejected.id: rejected.why for rejected in manifest.rejected}
    assert len(manifest.rejected) == 6
    assert "blocked" in reasons["2001.00001"]
    assert "math.CO" in reasons["2001.00002"]
    assert "exclude list" in reasons["2001.00003"]
    assert "withdrawn" in reasons["2001.00004"]
    assert "no abstract" in reasons["2001.00005"]
    assert "2001.00006 has the same title" in reasons["2001.00007"]
    assert manifest.topics[0].rejected == 6


def test_what_one_topic_rejects_another_may_take(select):
    listed = [Listed("2001.00001", "Sums", categories=("math.CO",))]
    topics = [
        {"name": "a", "queries": ["ti:x"], "categories": ["cs.*"]},
        {"name": "b", "queries": ["ti:x"], "categories": ["math.*"]},
    ]
    manifest = select(listed, {"ti:x": ids(listed)}, 2, topics=topics)
    assert [(paper.id, paper.topic) for paper in manifest.papers] == [("2001.00001", "b")]
    assert manifest.rejected == ()


def test_versions_of_a_paper_count_once(select):
    manifest = select(
        [Listed("2001.00001", "One", version=2), Listed("2001.00002", "Two")],
        {"ti:x": ["2001.00001", "2001.00001", "2001.00002"]},
        5,
        topics=[{"name": "a", "queries": ["ti:x"]}],
    )
    assert [(paper.id, paper.version) for paper in manifest.papers] == [("2001.00001", 2), ("2001.00002", 1)]
    assert manifest.papers[0].why == "Found by ti:x (rank 1 of 3)."


def test_no_more_pages_are_read_than_needed(select):
    listed = papers(2001, 3 * PAGE)
    topics = [{"name": "a", "queries": ["ti:x"]}]
    assert len(select(listed, {"ti:x": ids(listed)}, PAGE, topics=topics).papers) == PAGE
    assert len(select.servers[-1].asked) == 1
    assert ids(select(listed, {"ti:x": ids(listed)}, PAGE + 1, topics=topics).papers)[-1] == listed[PAGE].id


def test_a_topic_whose_gates_let_nothing_through_is_given_up(select):
    listed = papers(2001, (BARREN_ROUNDS + 2) * PAGE)
    manifest = select(
        listed, {"ti:x": ids(listed)}, 5, categories=["math.CO"], topics=[{"name": "a", "queries": ["ti:x"]}]
    )
    assert manifest.papers == ()
    assert manifest.topics[0].queries[0].read == BARREN_ROUNDS * PAGE


def test_the_same_answers_give_the_same_manifest_byte_for_byte(select, tmp_path):
    one, two = papers(2001, 150), papers(2002, 80, categories=("math.CO", "cs.LG"))
    results = {"ti:x": ids([*one, *two]), "ti:y": ids([*two, *one[40:]])}
    topics = [{"name": "a", "queries": ["ti:x", "ti:y"]}, {"name": "b", "queries": ["ti:y"], "categories": ["cs.LG"]}]
    first = select([*one, *two], results, 120, topics=topics).to_json()
    for answer in (tmp_path / "arxiv" / "answers").iterdir():  # the next server has another port
        answer.unlink()
    assert select([*one, *two], results, 120, topics=topics).to_json() == first


def test_a_query_that_arxiv_refuses_is_named(select):
    with pytest.raises(FetchError, match=r'Topic "a", query ti:\(x: arXiv refuses the request: unbalanced'):
        select([], {}, 2, topics=[{"name": "a", "queries": ["ti:(x"]}])


def test_a_manifest_survives_its_file_and_may_be_shortened_by_hand(select, tmp_path):
    listed = papers(2001, 3)
    manifest = select(listed, {"ti:x": ids(listed)}, 3, topics=[{"name": "a", "queries": ["ti:x"]}])
    file = tmp_path / "papers.json"
    save_manifest(manifest, file)
    assert load_manifest(file) == manifest
    file.write_text('{"size": 1, "papers": [{"id": "1706.03762", "title": "Attention Is All You Need"}]}')
    assert load_manifest(file).papers[0].version is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "The file"),
        ('{"papers": []}', "size is missing"),
        ('{"size": 1, "format": 2, "papers": []}', "format"),
        ('{"size": 1, "papers": [{"id": "../../etc/passwd", "title": "T"}]}', "papers[0].id ('../../etc/passwd')"),
        ('{"size": 1, "papers": [{"id": "1706.03762\\n", "title": "T"}]}', "papers[0].id"),
        ('{"size": 1, "papers": [{"id": "1706.03762", "title": "T", "url": "file:///etc"}]}', "papers[0].url"),
        ('{"size": 1, "papers": [{"id": "1706.03762", "title": "T"}, {"id": "1706.03762", "title": "T"}]}', "twice"),
    ],
)
def test_a_wrong_manifest_is_refused_with_the_place_of_the_fault(tmp_path, text, said):
    file = tmp_path / "papers.json"
    file.write_text(text)
    with pytest.raises(ManifestError) as caught:
        load_manifest(file)
    assert said in str(caught.value.args[0])


def test_a_manifest_that_cannot_be_written_is_a_typed_error(tmp_path):
    with pytest.raises(ManifestError, match="cannot be written"):
        save_manifest(Manifest(size=1, papers=()), tmp_path / "no" / "papers.json")
