"""arXiv's API: papers by query or by id, from Atom feeds, with every good answer kept on disk.

The format is described in the API's manual (info.arxiv.org/help/api/user-manual.html). Three of its habits need care:
an error may come as a normal answer with one entry called Error; a page inside a long result may come empty although
more follows; and "Rate exceeded." may come as plain text.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode
from xml.etree.ElementTree import Element, ParseError

import httpx
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from program.errors import FetchError
from program.ingest.documents import clean_text
from program.ingest.polite import PoliteClient, TryAgain, check, pieces
from program.settings import Settings

#: Results asked for at once.
PAGE = 100
#: Results of one query that the API gives at most.
MOST_RESULTS = 30_000
#: Bytes of one answer; a page of 100 papers has about 300 kB.
MOST_BYTES = 20_000_000
#: Times that an empty page is asked for before it is taken for the end.
EMPTY_TRIES = 3

#: An id without version: `1706.03762`, or of the years before 2007 `hep-th/9901001`, `math.GT/0309136`.
ID = r"(?:\d{4}\.\d{4,5}|[a-z]+(?:-[a-z]+)?(?:\.[A-Z]{2})?/\d{7})"
VERSIONED = re.compile(rf"({ID})(?:v([1-9]\d?))?")
CATEGORY = re.compile(r"[a-z]+(?:-[a-z]+)*(?:\.[A-Za-z]+(?:-[a-z]+)*)?")

_ATOM = "{http://www.w3.org/2005/Atom}"
_ARXIV = "{http://arxiv.org/schemas/atom}"
_OPENSEARCH = "{http://a9.com/-/spec/opensearch/1.1/}"
_WITHDRAWN = re.compile(r"\bwithdrawn\b", re.IGNORECASE)
_ABSTRACT_WITHDRAWN = re.compile(
    r"This (?:paper|article|submission|manuscript|work) (?:has been|is|was) withdrawn", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Paper:
    """What arXiv says of a paper. `id` has no version; the first of `categories` is the primary one; `year` is that of
    the first version."""

    id: str
    version: int | None
    title: str
    authors: tuple[str, ...]
    abstract: str
    categories: tuple[str, ...]
    year: int
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class Malformed:
    """An entry that is no paper: `problem` says what is wrong with it, the rest is as much as could be read."""

    id: str
    title: str
    problem: str


@dataclass(frozen=True, slots=True)
class Feed:
    """One answer: its entries in order, how many results there are in all, and the day the results are of."""

    entries: tuple[Paper | Malformed, ...]
    total: int
    updated: str


class ArXiv:
    """Asks the API through `client`, or answers from what it answered before. `refresh` asks again."""

    def __init__(self, client: PoliteClient, settings: Settings, *, refresh: bool = False) -> None:
        self._client, self._refresh = client, refresh
        self._url = f"{settings.arxiv_url.rstrip('/')}/api/query"
        self._cache = settings.cache / "arxiv" / "answers"

    def search(self, query: str, page: int) -> Feed:
        """Results PAGE x `page` and on, best first by arXiv's own relevance. Raises FetchError."""
        asked: dict[str, str | int] = {"search_query": query, "start": page * PAGE, "max_results": PAGE}
        return self._ask({**asked, "sortBy": "relevance", "sortOrder": "descending"}, start=page * PAGE)

    def papers(self, ids: Sequence[str]) -> Feed:
        """The papers with these ids (with or without version), in any order; ids that arXiv has not are left out.
        Raises FetchError."""
        return self._ask({"id_list": ",".join(ids), "max_results": len(ids)}, start=0)

    def _ask(self, parameters: dict[str, str | int], start: int) -> Feed:
        url = f"{self._url}?{urlencode(parameters)}"
        kept = self._cache / f"{hashlib.sha256(url.encode()).hexdigest()}.xml"
        if not self._refresh:
            try:
                return parse_feed(kept.read_bytes())
            except (OSError, ValueError, FetchError):  # never asked, or the file is damaged: ask
                pass
        empty = 0

        def read(response: httpx.Response) -> Feed:
            nonlocal empty
            if response.status_code != 400:  # the API explains what is wrong with a query in a feed of status 400
                check(response)
            data = b"".join(pieces(response, MOST_BYTES))
            try:
                feed = parse_feed(data)
            except ValueError as error:
                check(response)
                raise TryAgain(f"sent no Atom feed ({error})") from error
            if not feed.entries and start < min(feed.total, MOST_RESULTS):
                empty += 1
                if empty < EMPTY_TRIES:
                    raise TryAgain("sent an empty page")
                return feed
            _write(kept, data)
            return feed

        return self._client.fetch(url, read)


def parse_feed(data: bytes) -> Feed:
    """An Atom feed of the API, read without entities or document types. Raises ValueError for anything else, and
    FetchError for an error that the API explains."""
    if data[:200].strip().lower().startswith(b"rate exceeded"):
        raise ValueError("rate exceeded")
    try:
        root = fromstring(data, forbid_dtd=True)
    except (ParseError, DefusedXmlException, LookupError) as error:  # LookupError: an unknown encoding
        raise ValueError(str(error) or type(error).__name__) from error
    if root.tag != f"{_ATOM}feed":
        raise ValueError("another kind of document")
    entries = []
    for element in root.iterfind(f"{_ATOM}entry"):
        if "/api/errors" in _text(element, f"{_ATOM}id"):
            reason = _text(element, f"{_ATOM}summary")[:300]
            raise FetchError(f"arXiv refuses the request: {reason}.", "Correct the query or the id.")
        entries.append(_paper(element))
    total = _text(root, f"{_OPENSEARCH}totalResults")
    updated = _text(root, f"{_ATOM}updated")
    return Feed(tuple(entries), int(total) if re.fullmatch(r"\d{1,9}", total) else len(entries), updated[:10])


def words(title: str) -> str:
    """A title as its words alone, to compare titles by: without case, accents, punctuation or TeX's marks."""
    folded = unicodedata.normalize("NFKD", re.sub(r"[\\{}$\"'`^~’]", "", title)).casefold()
    return " ".join(re.findall(r"[^\W_]+", "".join(c for c in folded if not unicodedata.combining(c))))


def _paper(entry: Element) -> Paper | Malformed:
    address = _text(entry, f"{_ATOM}id")
    named = VERSIONED.fullmatch(address.rpartition("/abs/")[2])
    title, abstract = _text(entry, f"{_ATOM}title"), _text(entry, f"{_ATOM}summary")
    authors = tuple(filter(None, (_text(author, f"{_ATOM}name") for author in entry.iterfind(f"{_ATOM}author"))))
    published = _text(entry, f"{_ATOM}published")
    primary = [element.get("term", "") for element in entry.iterfind(f"{_ARXIV}primary_category")]
    others = [element.get("term", "") for element in entry.iterfind(f"{_ATOM}category")]
    categories = tuple(dict.fromkeys(term for term in primary + others if CATEGORY.fullmatch(term)))
    lacking = {
        "no arXiv id": not named,
        "no title": not words(title),
        "no abstract": not abstract,
        "no authors": not authors,
        "no category": not categories,
        "no date": not re.match(r"(?:19|20)\d\d-\d\d-\d\d", published),
    }
    if named is None or any(lacking.values()):
        problem = ", ".join(reason for reason, true in lacking.items() if true)
        return Malformed(named[1] if named else address[:100], title[:300], problem)
    return Paper(
        id=named[1],
        version=int(named[2]) if named[2] else None,
        title=title,
        authors=authors,
        abstract=abstract,
        categories=categories,
        year=int(published[:4]),
        withdrawn=bool(_WITHDRAWN.search(_text(entry, f"{_ARXIV}comment")) or _ABSTRACT_WITHDRAWN.match(abstract)),
    )


def _text(element: Element, name: str) -> str:
    """A child's text on one line; empty without it."""
    return " ".join(clean_text(element.findtext(name) or "").split())


def _write(file: Path, data: bytes) -> None:
    """Under its name only when it is complete."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(f".{os.getpid()}")
    fresh.write_bytes(data)
    fresh.replace(file)
