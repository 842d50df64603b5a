import pytest

from program.errors import ManifestError
from program.ingest.arxiv import Paper
from program.ingest.topics import Topics, load_topics, query_text

PAPER = Paper("2005.11401", 4, "A Long-Range Survey: Retrieval for QA", ("A. Author",), "We.", ("cs.CL", "cs.LG"), 2020)


@pytest.fixture
def load(tmp_path):
    def load(text: str) -> Topics:
        file = tmp_path / "topics.yaml"
        file.write_text(text)
        return load_topics(file)

    return load


def objection(paper: Paper = PAPER, **gates: object) -> str:
    topics = Topics.model_validate({"topics": [{"name": "a", "queries": ["x"]}], **gates})
    return topics.objection(paper, topics.topics[0])


def test_an_id_keeps_its_last_zero_and_loses_what_stands_around_it(load):
    topics = load(
        "topics:\n- name: a\n  papers:\n"
        "  - {id: 1706.03760, title: One}\n  - {id: 'arXiv:1706.03761v2', title: Two}\n"
        "  - {id: 'https://arxiv.org/abs/hep-th/9901001', title: Three}\n"
    )
    assert [paper.id for paper in topics.topics[0].papers] == ["1706.03760", "1706.03761v2", "hep-th/9901001"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("topics: []", "topics"),
        ("[1, 2]", "The file"),
        ("", "The file"),
        ("topics:\n- name: a", "topics[0] has neither queries nor papers"),
        ("topics:\n- queries: [x]", "topics[0].name is missing"),
        ("topics:\n- {name: a, querys: [x]}", "topics[0].querys is no key"),
        ("topics:\n- {name: a, queries: [x], share: 0}", "topics[0].share"),
        ("topics:\n- {name: a, queries: ['!']}", "topics[0].queries[0] ('!') has no word"),
        ("topics:\n- {name: a, queries: [x OR y]}", "takes fields"),
        ("topics:\n- {name: a, papers: [{id: 17.03, title: T}]}", "topics[0].papers[0].id ('17.03') is no arXiv id"),
        ("topics:\n- {name: a, papers: [{id: 1706.03762}]}", "topics[0].papers[0].title is missing"),
        ("categories: [computer science]\ntopics:\n- {name: a, queries: [x]}", "is no arXiv category"),
        ("topics:\n- {name: a, queries: [x]}\n- {name: a, queries: [y]}", "two topics are called a"),
        ("exclude: [1706.03762v2]\ntopics:\n- {name: a, papers: [{id: 1706.03762, title: T}]}", "picked and excluded"),
        ("topics:\n- {name: a: b}", "line 2: this is not YAML"),
        ("topics: !!python/object/apply:os.getcwd []", "topics"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place_of_the_fault(load, text, said):
    with pytest.raises(ManifestError) as caught:
        load(text)
    assert said in str(caught.value.args[0])
    assert caught.value.hint


def test_a_paper_may_not_be_picked_by_two_topics(load):
    pick = "papers: [{id: 1706.03762, title: T}]"
    with pytest.raises(ManifestError, match=r"two topics pick 1706\.03762"):
        load(f"topics:\n- {{name: a, {pick}}}\n- {{name: b, {pick.replace('03762', '03762v3')}}}")


def test_a_missing_file_is_a_typed_error(tmp_path):
    with pytest.raises(ManifestError, match="cannot be read"):
        load_topics(tmp_path / "none.yaml")


def test_plain_words_must_all_occur_and_fields_are_left_alone():
    assert query_text("dense  retrieval") == "all:dense AND all:retrieval"
    assert query_text('long-range "state space"') == 'all:long-range AND all:"state space"'
    assert query_text('ti:"dense retrieval"  AND cat:cs.IR') == 'ti:"dense retrieval" AND cat:cs.IR'


def test_categories_match_exactly_or_by_archive():
    assert objection(categories=["cs.LG"]) == ""
    assert objection(categories=["cs.*"]) == ""
    assert "cs.CL, cs.LG" in objection(categories=["cs.L"])
    assert objection(categories=["math.*", "stat.ML"])


def test_a_topics_own_categories_replace_those_of_the_file_and_its_blocked_titles_add_to_them():
    own = {"name": "a", "queries": ["x"], "categories": ["math.*"]}
    topics = Topics.model_validate({"categories": ["cs.CL"], "topics": [own]})
    assert topics.objection(PAPER, topics.topics[0])
    own = {"name": "a", "queries": ["x"], "block_titles": ["nothing"]}
    topics = Topics.model_validate({"block_titles": ["survey"], "topics": [own, {**own, "name": "b"}]})
    assert topics.objection(PAPER, topics.topics[0])
    own = {"name": "a", "queries": ["x"], "block_titles": ["survey"]}
    topics = Topics.model_validate({"block_titles": ["nothing"], "topics": [own]})
    assert topics.objection(PAPER, topics.topics[0])
    topics = Topics.model_validate(
        {"categories": ["math.*"], "topics": [{"name": "a", "queries": ["x"], "categories": ["cs.CL"]}]}
    )
    assert topics.objection(PAPER, topics.topics[0]) == ""


def test_blocked_titles_match_whole_words_whatever_their_case_and_hyphens():
    assert "survey" in objection(block_titles=["survey"])
    assert objection(block_titles=["LONG range"])
    assert objection(block_titles=["sur", "range retrieval"]) == ""


def test_excluded_in_any_version_and_withdrawn():
    assert "exclude list" in objection(exclude=["2005.11401v1"])
    withdrawn = Paper("1", None, "T", ("A",), "x", ("cs.CL",), 2020, withdrawn=True)
    assert objection(withdrawn) == "It was withdrawn."
