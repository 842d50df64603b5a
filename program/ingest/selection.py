"""Choosing papers for a manifest: hand-picked ones first, then turn by turn the best one of each topic.

The same answers give the same manifest, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from program.errors import FetchError, ManifestError
from program.ingest.arxiv import MOST_RESULTS, PAGE, ArXiv, Malformed, Paper, words
from program.ingest.manifest import Entry, Manifest, QueryRecord, Rejected, TopicRecord
from program.ingest.topics import Topic, Topics, bare, query_text
from program.retrieval.fusion import RRF_K

#: (papers chosen, papers wanted, what is being done)
Progress = Callable[[int, int, str], None]

#: Hand-picked ids looked up at once: the address stays under 1,000 characters.
LOOKED_UP = 50
#: Rounds of pages without one acceptable paper after which a topic is given up.
BARREN_ROUNDS = 5


def select_papers(topics: Topics, size: int, arxiv: ArXiv, on_progress: Progress | None = None) -> Manifest:
    """A manifest of `size` papers, or of as many as there are.

    Hand-picked papers whose title is the one given come first; gates do not concern them. Then the topic that is
    furthest behind its share (fewest papers per `share`) adds its best paper that passes the gates, until `size` is
    reached or no topic has any left. A topic's papers are ordered by reciprocal rank fusion (Cormack, Clarke, Buettcher
    2009) of its queries' results, one page of each query at a time; ties by id.

    Raises ManifestError when more papers are picked by hand than `size` has room for, FetchError.
    """
    picked = sum(len(topic.papers) for topic in topics.topics)
    if picked > size:
        raise ManifestError(f"{picked} papers are picked by hand, but the size is {size}.", "Raise --size.")
    report = on_progress or (lambda _done, _total, _what: None)
    chosen = _Chosen()
    stocks = [
        _Stock(topics, topic, arxiv, chosen, lambda what: report(len(chosen.entries), size, what))
        for topic in topics.topics
    ]
    report(0, size, "Looking up the papers picked by hand")
    for stock in stocks:
        stock.take_hand_picked()
    hungry = list(stocks)
    while hungry and len(chosen.entries) < size:
        stock = min(hungry, key=lambda stock: (stock.taken + 1) / stock.topic.share)  # ties: the file's order
        if not stock.take_next():
            hungry.remove(stock)
    report(len(chosen.entries), len(chosen.entries), f"{len(chosen.entries)} papers chosen")
    return Manifest(
        size=size,
        topics=tuple(stock.record() for stock in stocks),
        papers=tuple(chosen.entries.values()),
        rejected=tuple(rejected for stock in stocks for rejected in stock.still_rejected()),
    )


@dataclass
class _Chosen:
    """What was chosen so far, by id; and the titles, as words, with the id that has each."""

    entries: dict[str, Entry] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)

    def add(self, paper: Paper, topic: str, why: str, hand_picked: bool) -> None:
        self.titles[words(paper.title)] = paper.id
        self.entries[paper.id] = Entry(
            id=paper.id,
            version=paper.version,
            title=paper.title,
            authors=paper.authors,
            year=paper.year,
            categories=paper.categories,
            topic=topic,
            why=why,
            hand_picked=hand_picked,
            abstract=paper.abstract,
        )


@dataclass
class _Query:
    """A query, and how far its results were read."""

    text: str
    found: int = 0
    read: int = 0
    as_of: str = ""
    ended: bool = False


class _Stock:
    """One topic's papers, best first, asked for as they are needed."""

    def __init__(self, topics: Topics, topic: Topic, arxiv: ArXiv, chosen: _Chosen, say: Callable[[str], None]) -> None:
        self.topic, self.taken = topic, 0
        self._topics, self._arxiv, self._chosen, self._say = topics, arxiv, chosen, say
        self._queries = [_Query(text) for text in dict.fromkeys(map(query_text, topic.queries))]
        self._round = 0
        self._looked_up: set[str] = set()
        self._waiting: list[tuple[Paper, str]] = []  # with the reason why each was found; the best is the last
        self._rejected: dict[tuple[str, str], Rejected] = {}  # by id and title: queries find the same paper

    def take_hand_picked(self) -> None:
        """Choose every hand-picked paper that is what its title says."""
        wanted = {bare(paper.id): paper for paper in self.topic.papers}
        ids = [paper.id for paper in self.topic.papers]
        found: dict[str, Paper | Malformed] = {}
        for begin in range(0, len(ids), LOOKED_UP):
            feed = self._arxiv.papers(ids[begin : begin + LOOKED_UP])
            found |= {entry.id: entry for entry in feed.entries}
        for id, given in wanted.items():
            paper = found.get(id)
            if paper is None:
                self._reject(id, given.title, "Picked by hand, but arXiv has no such paper.", hand_picked=True)
            elif isinstance(paper, Malformed):
                self._reject(
                    id, given.title, f"Picked by hand, but its entry is malformed: {paper.problem}.", hand_picked=True
                )
            elif words(paper.title) != words(given.title):
                self._reject(
                    id, given.title, f'Picked by hand, but the title of this id is "{paper.title}".', hand_picked=True
                )
            elif paper.withdrawn:
                self._reject(id, given.title, "Picked by hand, but it was withdrawn.", hand_picked=True)
            elif words(paper.title) in self._chosen.titles:
                twin = self._chosen.titles[words(paper.title)]
                self._reject(id, given.title, f"Picked by hand, but {twin} has the same title.", hand_picked=True)
            else:
                self._take(paper, "Picked by hand; arXiv has it under this title.", hand_picked=True)
            self._looked_up.add(id)

    def take_next(self) -> bool:
        """Choose the best paper left; False when there is none."""
        barren = 0
        while True:
            while self._waiting:
                paper, why = self._waiting.pop()
                if paper.id in self._chosen.entries:  # by another topic
                    continue
                twin = self._chosen.titles.get(words(paper.title))
                if twin:
                    self._reject(paper.id, paper.title, f"{twin} has the same title.")
                    continue
                self._take(paper, why)
                return True
            if barren == BARREN_ROUNDS or all(query.ended for query in self._queries):
                return False
            self._next_round()
            barren += not self._waiting

    def record(self) -> TopicRecord:
        entries = [entry for entry in self._chosen.entries.values() if entry.topic == self.topic.name]
        spare = [paper for paper, _ in self._waiting if paper.id not in self._chosen.entries]
        return TopicRecord(
            name=self.topic.name,
            selected=len(entries),
            hand_picked=sum(entry.hand_picked for entry in entries),
            rejected=len(list(self.still_rejected())),
            spare=len(spare),
            queries=tuple(
                QueryRecord(query=query.text, found=query.found, read=query.read, as_of=query.as_of)
                for query in self._queries
            ),
        )

    def still_rejected(self) -> Iterable[Rejected]:
        """What this topic rejected and no topic chose; hand-picked papers always."""
        chosen = self._chosen.entries
        return (rejected for rejected in self._rejected.values() if rejected.hand_picked or rejected.id not in chosen)

    def _next_round(self) -> None:
        """Read the next page of every query; what passes the gates waits in order."""
        scores: dict[str, float] = {}
        papers: dict[str, Paper] = {}
        found_by: dict[str, list[str]] = {}
        for query in self._queries:
            if query.ended:
                continue
            self._say(f"{self.topic.name}: {query.text}")
            try:
                feed = self._arxiv.search(query.text, self._round)
            except FetchError as error:
                message = f'Topic "{self.topic.name}", query {query.text}: {error.args[0]}'
                raise type(error)(message, error.hint) from error
            query.found, query.as_of = feed.total, feed.updated or query.as_of
            first, of_query = self._round * PAGE + 1, set[str]()
            for rank, entry in enumerate(feed.entries, first):
                if isinstance(entry, Malformed):
                    self._reject(entry.id, entry.title, f"Its entry is malformed: {entry.problem}.")
                elif entry.id not in self._looked_up and entry.id not in of_query:  # another version may follow
                    of_query.add(entry.id)
                    papers.setdefault(entry.id, entry)
                    scores[entry.id] = scores.get(entry.id, 0.0) + 1 / (RRF_K + rank)
                    found_by.setdefault(entry.id, []).append(f"{query.text} (rank {rank} of {feed.total})")
            query.read += len(feed.entries)
            query.ended = not feed.entries or first - 1 + PAGE >= min(feed.total, MOST_RESULTS)
        self._round += 1
        for id in sorted(papers, key=lambda id: (-scores[id], id)):
            paper = papers[id]
            objection = self._topics.objection(paper, self.topic)
            if objection:
                self._reject(id, paper.title, objection)
            else:
                self._waiting.append((paper, f"Found by {'; '.join(found_by[id])}."))
        self._waiting.reverse()

    def _take(self, paper: Paper, why: str, *, hand_picked: bool = False) -> None:
        self._chosen.add(paper, self.topic.name, why, hand_picked)
        self.taken += 1

    def _reject(self, id: str, title: str, why: str, *, hand_picked: bool = False) -> None:
        rejected = Rejected(id=id, title=title, topic=self.topic.name, why=why, hand_picked=hand_picked)
        self._rejected.setdefault((id, title), rejected)
