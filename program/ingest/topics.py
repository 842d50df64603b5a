"""The topics file: what a library should be about, in YAML. docs/manifest.md teaches the format.

categories: [cs.CL, cs.IR]
block_titles: [survey]
exclude: ["2301.00001"]
topics:
  - name: dense retrieval
    queries: ['ti:"dense retrieval"', contrastive passage encoder]
    papers:
      - {id: 2004.04906, title: Dense Passage Retrieval for Open-Domain Question Answering}
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from program.errors import ManifestError
from program.ingest.arxiv import VERSIONED, Paper, words

#: Bytes; a topics file is written by hand.
MOST_BYTES = 1_000_000

_FIELD = re.compile(r"\b(?:ti|au|abs|co|jr|cat|rn|id|all|submittedDate|lastUpdatedDate):")


def _id(text: str) -> str:
    text = re.sub(r"^(?:arxiv:|https?://(?:www\.|export\.)?arxiv\.org/(?:abs|pdf)/)", "", text, flags=re.IGNORECASE)
    if not VERSIONED.fullmatch(text):
        raise ValueError("is no arXiv id, such as 1706.03762 or hep-th/9901001")
    return text


def _pattern(text: str) -> str:
    if not re.fullmatch(r"[a-z-]+(?:\.(?:\*|[A-Za-z-]+))?", text):
        raise ValueError("is no arXiv category, such as cs.CL, or cs.* for all of an archive")
    return text


def _query(text: str) -> str:
    if not _FIELD.search(text) and re.search(r"\b(?:AND|OR|ANDNOT)\b", text):
        raise ValueError("joins words with AND, OR or ANDNOT, which takes fields: all:words AND ti:words")
    return _words(text)


def _words(text: str) -> str:
    if not words(text):
        raise ValueError("has no word in it")
    return text


Id = Annotated[str, AfterValidator(_id)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Query = Annotated[str, AfterValidator(_query)]
Words = Annotated[str, AfterValidator(_words)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HandPicked(_Model):
    """A paper that is wanted by its id; its title guards against a wrong digit."""

    id: Id
    title: Words


class Topic(_Model):
    """One topic. `categories` replaces the file's, `block_titles` adds to it; `share` weighs it against the others."""

    name: Words
    share: float = Field(1.0, gt=0, le=1000)
    queries: tuple[Query, ...] = ()
    categories: tuple[Pattern, ...] = ()
    block_titles: tuple[Words, ...] = ()
    papers: tuple[HandPicked, ...] = ()

    @model_validator(mode="after")
    def _asks_for_something(self) -> Topic:
        if not self.queries and not self.papers:
            raise ValueError("has neither queries nor papers")
        return self


class Topics(_Model):
    """A topics file. Categories and block_titles hold for every topic."""

    categories: tuple[Pattern, ...] = ()
    block_titles: tuple[Words, ...] = ()
    exclude: tuple[Id, ...] = ()
    topics: tuple[Topic, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Topics:
        names = [topic.name for topic in self.topics]
        picked = [bare(paper.id) for topic in self.topics for paper in topic.papers]
        for what, found in (("two topics are called", names), ("two topics pick", picked)):
            twice = sorted({item for item in found if found.count(item) > 1})
            if twice:
                raise ValueError(f"{what} {twice[0]}")
        both = sorted(set(picked) & set(map(bare, self.exclude)))
        if both:
            raise ValueError(f"{both[0]} is both picked and excluded")
        return self

    def objection(self, paper: Paper, topic: Topic) -> str:
        """Why the gates keep a paper out of a topic; empty when they do not."""
        if paper.id in map(bare, self.exclude):
            return "It is on the exclude list."
        if paper.withdrawn:
            return "It was withdrawn."
        wanted = topic.categories or self.categories
        if wanted and not any(fnmatchcase(category, pattern) for category in paper.categories for pattern in wanted):
            return f"None of its categories ({', '.join(paper.categories)}) is wanted ({', '.join(wanted)})."
        title = f" {words(paper.title)} "
        for phrase in (*self.block_titles, *topic.block_titles):
            if f" {words(phrase)} " in title:
                return f'Its title has "{phrase}", which is blocked.'
        return ""


def bare(id: str) -> str:
    """An id without its version."""
    return re.sub(r"v\d+$", "", id)


def query_text(query: str) -> str:
    """A query as the API reads it: one without any field (`ti:`, `abs:`, `cat:`, ...) asks for papers with all of its
    words and quoted phrases."""
    if _FIELD.search(query):
        return " ".join(query.split())
    return " AND ".join(f"all:{word}" for word in re.findall(r'"[^"]+"|[^\W_]+(?:-[^\W_]+)*', query))


def load_topics(file: Path) -> Topics:
    """Read and check a topics file. Raises ManifestError, which says where the first wrong value stands."""
    try:
        data = file.read_bytes()
        if len(data) > MOST_BYTES:
            raise ManifestError(f"{file} has {len(data) / 1e6:.0f} MB, which no topics file has.", "Check the name.")
        # The base loader takes every scalar as text: to YAML, 1706.03760 is a number that loses its last digit.
        content = yaml.load(data, Loader=yaml.BaseLoader)
    except OSError as error:
        raise ManifestError(f"{file} cannot be read ({error.strerror}).", "Check --topics.") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where else ""
        problem = getattr(error, "problem", None) or type(error).__name__
        hint = "Put queries and titles that have a colon, a comma or quotation marks in them in single quotes."
        raise ManifestError(f"{file}{line}: this is not YAML ({problem}).", hint) from error
    try:
        return Topics.model_validate(content)
    except ValidationError as error:
        raise ManifestError(f"{file}: {first_fault(error)}.", "docs/manifest.md shows the format.") from error


def first_fault(error: ValidationError) -> str:
    """Where the first wrong value stands, what it is, and what is wrong with it."""
    first = error.errors()[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        return f"{place} is no key that is known here"
    if first["type"] == "missing":
        return f"{place} is missing"
    given = f" ({str(first['input'])[:80]!r})" if isinstance(first["input"], str) else ""
    return f"{place or 'The file'}{given} {message[:1].lower() + message[1:]}"
