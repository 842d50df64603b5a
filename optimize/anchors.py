"""Does every document find itself? Each is asked for by the first sentence of its abstract, or of its text where it has
none, without the words of its title; its place among the documents that come back is its rank. Where nothing is left of
the first sentence (it is the title, or a label such as "Background."), the next one is taken, and counted as such.

A library in which documents miss themselves will miss them for its users too: texts read in the wrong order, chunks
without content, or two documents that say the same.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from program.errors import LabelError
from program.ingest import FileReport, ingest
from program.params import Params
from program.retrieval.analysis import terms
from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.encoders import Encoder, passage_text
from program.retrieval.index import Index
from program.retrieval.retriever import Retriever
from program.sentences import split_sentences
from program.types import Hit, Query
from program.wording import counted
from program.words import content_words, coverage

#: Ranks that count as found.
HIT_AT = (1, 10)
#: Passages and abstracts searched for a document that misses, to say how far away it is.
DEEP = {"passages": 100, "abstracts": 25}
COLUMNS = ("document", "rank", "first was", "why", "asked by")
#: Fewest content words, the title's apart, of a sentence to ask by; and up to how many of them fit many documents.
LEAST, FEW = 2, 3

Step = Callable[[], None]
Progress = Callable[[float, int, str], None]

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Anchor:
    """How one document was asked for, and where it came.

    sentence: which of its sentences it was asked by, from 1. rank: its 1-based place among the documents that the
    program's search finds, 0 when it is not among them. deep_rank: for a miss, its place in a deeper search, 0 when it
    is not found there either. first: the document that came first, by name and title; both empty when nothing was
    found. why: what a look at the words says about a miss, or "".
    """

    document: str
    title: str
    asked: str
    sentence: int = 1
    rank: int = 0
    deep_rank: int = 0
    first: str = ""
    first_title: str = ""
    why: str = ""

    def hit(self, k: int) -> bool:
        return 0 < self.rank <= k


def find_anchors(retriever: Retriever, params: Params, step: Step = lambda: None) -> list[Anchor]:
    """Ask for every document of the index, in the order of their names. Raises LibraryError.

    The search is the program's own for a clear question, ranked as it ranks, but cut by no bar. A document that is not
    in the first ten is searched for again, deeper, only to say how far away it is.
    """
    anchors = []
    for document in retriever.index.documents():
        sentences = opening(retriever.index, document.name)
        left = [without_words_of(document.title, sentence) for sentence in sentences] or [""]
        number = next((n for n, words in enumerate(left, 1) if len(content_words(words)) >= LEAST), 1)
        anchors.append(_find(retriever, params, Anchor(document.name, document.title, left[number - 1], number)))
        step()
    return anchors


def hit_rate(anchors: Sequence[Anchor], k: int) -> float:
    """Share of the documents that are in the first k documents found for themselves; 0 without documents."""
    return sum(anchor.hit(k) for anchor in anchors) / max(len(anchors), 1)


def opening(index: Index, name: str) -> list[str]:
    """Sentences of the first chunk of the document's abstract, or of its text; none when the index holds no chunk."""
    chunks = sorted(index.chunks(name), key=lambda chunk: (chunk.kind != "abstract", chunk.position))
    return [sentence.text for sentence in split_sentences(chunks[0].text)] if chunks else []


def without_words_of(title: str, sentence: str) -> str:
    """The sentence without the title's words, in whatever case, number or compound they stand; the rest as it is."""
    known = set(terms(title))

    def kept(word: re.Match[str]) -> str:
        found = terms(word.group())
        return "" if found and known.issuperset(found) else word.group()

    # The whole title first: nothing marks the words of Chinese and Japanese text.
    phrase = re.sub(re.escape(title), " ", sentence, flags=re.IGNORECASE) if title else sentence
    return " ".join(_WORD.sub(kept, phrase).split())


def miss_rows(anchors: Sequence[Anchor]) -> list[tuple[str, ...]]:
    """The documents that are not in the first ten, as cells for `COLUMNS`."""
    return [
        (item.title or item.document, _place(item), item.first_title or item.first, item.why, item.asked)
        for item in anchors
        if not item.hit(HIT_AT[-1])
    ]


def index_set(
    folder: Path, place: Path, encoder: Encoder, limit: int = 0, seed: int = 0, on_progress: Progress | None = None
) -> list[FileReport]:
    """Make an index in the folder `place` with the texts of a public set, each a document.

    folder: holds corpus.jsonl or corpus.jsonl.gz, a line `{"id", "title", "text"}` for each text. limit: a sample of so
    many, drawn by `seed`; 0 takes all. Raises LabelError, LibraryError.
    """
    rows = list(_rows(folder))
    if 0 < limit < len(rows):
        rows = random.Random(seed).sample(rows, limit)
    with (
        TemporaryDirectory() as written,
        closing(EmbeddedIndex.open(place, encoder.fingerprint, encoder.dimensions, create=True)) as index,
    ):
        for number, (title, text) in enumerate(rows):
            (Path(written) / f"{number:06}.md").write_text(f"# {title}\n\n{text}\n", "utf-8", "surrogatepass")
        return ingest([Path(written)], index, encoder, on_progress=on_progress)


def _rows(folder: Path) -> Iterator[tuple[str, str]]:
    """Title, on one line, and text of every row."""
    path = next((p for p in (folder / "corpus.jsonl", folder / "corpus.jsonl.gz") if p.is_file()), None)
    if path is None:
        raise LabelError(f"There is neither corpus.jsonl nor corpus.jsonl.gz in {folder}.", "Name a set's folder.")
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    row = json.loads(line)
                    yield " ".join(row["title"].split()), row["text"] + ""
                except (ValueError, LookupError, TypeError, AttributeError) as error:
                    message = f'{path}:{number}: this is no line like {{"id": "...", "title": "...", "text": "..."}}.'
                    raise LabelError(message, "Correct or remove it.") from error
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise LabelError(f"{path} cannot be read ({error}).", "Check the file.") from error


def _find(retriever: Retriever, params: Params, anchor: Anchor) -> Anchor:
    if not content_words(anchor.asked):
        return replace(anchor, why="nothing is left without the title's words")
    every = params.model_copy(update={"top_bar": 0.0, "deep_bar": 0.0})
    search, query = params.search_for("clear"), [Query(anchor.asked, anchor.asked)]
    hits = retriever.retrieve(query, search, every).hits
    found = replace(anchor, rank=_rank(hits, anchor.document))
    if hits:
        found = replace(found, first=hits[0].chunk.document, first_title=hits[0].chunk.title)
    if found.hit(HIT_AT[-1]):
        return found
    deeper = retriever.retrieve(query, search.model_copy(update=DEEP), every).hits
    return replace(found, deep_rank=_rank(deeper, anchor.document), why=_why(anchor.asked, hits))


def _place(anchor: Anchor) -> str:
    if anchor.rank or not anchor.deep_rank:
        return str(anchor.rank or "not found")
    return f"not found, deeper {anchor.deep_rank}"


def _rank(hits: Sequence[Hit], name: str) -> int:
    """1-based place of the document among the documents of the hits; 0 when it is none of them."""
    documents = list(dict.fromkeys(hit.chunk.document for hit in hits))
    return documents.index(name) + 1 if name in documents else 0


def _why(asked: str, hits: Sequence[Hit]) -> str:
    if hits and coverage(asked, passage_text(hits[0].chunk)) == 1.0:
        return "the first has all these words too"
    left = len(content_words(asked))
    return f"only {counted(left, 'word')} left" if left <= FEW else ""
