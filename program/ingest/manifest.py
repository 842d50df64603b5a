"""The manifest: which papers a library is made of and why, as JSON that a person reads before anything is downloaded.

`select_papers` (program/ingest/selection.py) writes it, `program ingest --manifest` follows it. Entries may be taken
out or added by hand.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from program.errors import ManifestError
from program.ingest.arxiv import ID
from program.ingest.topics import first_fault


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Entry(_Model):
    """A paper to download. Without `version`, the newest one."""

    id: Annotated[str, StringConstraints(pattern=rf"^{ID}$")]
    version: int | None = Field(None, ge=1, le=99)
    title: str
    authors: tuple[str, ...] = ()
    year: int | None = None
    categories: tuple[str, ...] = ()
    topic: str = ""
    why: str = ""
    hand_picked: bool = False
    abstract: str = ""


class Rejected(_Model):
    """A paper that was found and is not wanted. `id` may be wrong or empty when the entry was malformed."""

    id: str
    title: str
    topic: str
    why: str
    hand_picked: bool = False


class QueryRecord(_Model):
    """A query as it was sent, how many papers arXiv has for it, how many of them were read, and as of which day."""

    query: str
    found: int
    read: int
    as_of: str


class TopicRecord(_Model):
    """What became of a topic. `spare` passed every gate and was not needed."""

    name: str
    selected: int
    hand_picked: int
    rejected: int
    spare: int
    queries: tuple[QueryRecord, ...]


class Manifest(_Model):
    """The whole file; another `format` is refused. `papers` stand in the order in which they were chosen, so that the
    first n of them are the smaller library."""

    format: Literal[1] = 1
    source: Literal["arxiv"] = "arxiv"
    size: int = Field(ge=1)
    topics: tuple[TopicRecord, ...] = ()
    papers: tuple[Entry, ...]
    rejected: tuple[Rejected, ...] = ()

    @property
    def unverified(self) -> tuple[Rejected, ...]:
        """The papers that were picked by hand and are not what they were taken for."""
        return tuple(rejected for rejected in self.rejected if rejected.hand_picked)

    @model_validator(mode="after")
    def _each_once(self) -> Manifest:
        twice = [id for id, times in Counter(paper.id for paper in self.papers).items() if times > 1]
        if twice:
            raise ValueError(f"lists {twice[0]} twice")
        return self

    def to_json(self) -> str:
        return self.model_dump_json(indent=2) + "\n"


def load_manifest(file: Path) -> Manifest:
    """Read and check a manifest. Raises ManifestError, which says where the first wrong value stands."""
    try:
        return Manifest.model_validate_json(file.read_bytes())
    except OSError as error:
        raise ManifestError(f"{file} cannot be read ({error.strerror}).", "Check --manifest.") from error
    except ValidationError as error:
        hint = "`python -m program manifest arxiv` writes one; docs/manifest.md describes it."
        raise ManifestError(f"{file}: {first_fault(error)}.", hint) from error


def save_manifest(manifest: Manifest, file: Path) -> None:
    """Write a manifest, in one step. Raises ManifestError."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        fresh.write_text(manifest.to_json(), encoding="utf-8")
        fresh.replace(file)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise ManifestError(f"{file} cannot be written ({error.strerror}).", "Check --out.") from error
