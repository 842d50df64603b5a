"""The words of the program as plain, frozen types: what each part hands to the next.

A question flows through them in this order: Turn, Route, Query, Hit (of a Chunk), Evidence (of Sentences), Grade,
Claim, Citation, Answer. A Trace is the list of Events that happened on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

Strategy = Literal["no_retrieval", "single", "multi_hop", "web", "sql", "math"]
Transform = Literal["clear", "vague", "compound", "broad", "needs_context", "hyde"]
DecidedBy = Literal["head", "language_model", "fallback"]
Fusion = Literal["relative", "ranked"]
ChunkKind = Literal["passage", "abstract"]
SourceKind = Literal["passage", "calculation", "web", "sql"]
#: supported: by what it cites. recited: by another passage, which it now cites. unsupported: by nothing. quoted: a
#: passage's own sentence. plain: a reply that states nothing about the library.
ClaimStatus = Literal["supported", "recited", "unsupported", "quoted", "plain"]
Step = Literal["standalone", "route", "transform", "retrieve", "rank", "grade", "tool", "synthesize", "note"]

#: The ten classes the router chooses from: five transforms of `single`, then the other strategies.
ROUTE_LABELS: tuple[str, ...] = (
    "clear", "vague", "compound", "broad", "needs_context", "multi_hop", "no_retrieval", "web", "sql", "math",
)  # fmt: skip
STRATEGIES: tuple[str, ...] = get_args(Strategy)


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier exchange of the conversation."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Route:
    """What the router chose, who chose it, and how sure (`confidence` in [0, 1])."""

    strategy: Strategy
    transform: Transform
    decided_by: DecidedBy
    confidence: float

    @classmethod
    def from_label(cls, label: str, decided_by: DecidedBy, confidence: float) -> Route:
        """Route for one of `ROUTE_LABELS`; raises KeyError for any other text."""
        if label not in ROUTE_LABELS:
            raise KeyError(label)
        if label in STRATEGIES:
            return cls(label, "clear", decided_by, confidence)  # type: ignore[arg-type]
        return cls("single", label, decided_by, confidence)  # type: ignore[arg-type]

    @property
    def label(self) -> str:
        """The class in `ROUTE_LABELS` this route stands for (`hyde` reads as the transform itself)."""
        return self.transform if self.strategy == "single" else self.strategy


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of one document: `text` is `document_text[start:end]`, verbatim. `page` is where it starts."""

    id: str
    document: str
    title: str
    text: str
    kind: ChunkKind = "passage"
    heading: str = ""
    page: int | None = None
    start: int = 0
    end: int = 0
    position: int = 0
    field: str = ""
    year: int | None = None
    page_breaks: str = ""  # pages that begin inside it: `offset:page`, commas between, offsets in the document

    def page_at(self, offset: int) -> int | None:
        """The page that the document's text is on at `offset`, which is inside the chunk; None without pages."""
        page = self.page
        for entry in filter(None, self.page_breaks.split(",")):
            begins, _, number = entry.partition(":")
            if int(begins) <= offset:
                page = int(number)
        return page


@dataclass(frozen=True, slots=True)
class Query:
    """One search. Hits are ranked against `against`; queries with the same `against` share one pool.

    `dense` replaces `text` on the dense side only (a HyDE passage). itself: the question, beside what a transform made
    of it; it is searched where `SearchParams.question` says so.
    """

    text: str
    against: str
    dense: str | None = None
    itself: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk with the scores it was found with.

    dense: cosine in [-1, 1]. lexical: BM25, 0 when no word matches. dense_rank, lexical_rank: 1-based place in that
    leg, 0 when the leg did not return it. fused: fusion score, comparable within one pool only. score: the compiled
    ranker's probability that the chunk helps to answer, set by `rank`.
    """

    chunk: Chunk
    dense: float
    lexical: float
    dense_rank: int = 0
    lexical_rank: int = 0
    fused: float = 0.0
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its span in the text it was split from: `text == source[start:end]`."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """A numbered source as the synthesizer reads it: the sentences kept of one chunk (spans are in the document).

    A calculation, a query or a web result is evidence too (`kind`), with its text as its one sentence.
    """

    n: int
    chunk: Chunk
    sentences: tuple[Sentence, ...]
    score: float = 0.0
    kind: SourceKind = "passage"

    @property
    def text(self) -> str:
        return " ".join(sentence.text for sentence in self.sentences)


@dataclass(frozen=True, slots=True)
class Grade:
    """Is the evidence enough? `missing` says what is not there, and is the next thing to look for."""

    sufficient: bool
    missing: str
    decided_by: Literal["bars", "language_model", "fallback"]
    score: float


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence of an answer, after its check. `text` carries its checked `[n]` markers."""

    text: str
    citations: tuple[int, ...]
    support: float
    status: ClaimStatus


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a claim's support stands: `quote` is the document's text from `start` to `end`."""

    n: int
    quote: str
    document: str
    title: str
    page: int | None
    start: int
    end: int
    support: float
    kind: SourceKind = "passage"
    passage: str = ""
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Language-model use. `prompt_tokens` counts all of them, `cached_tokens` those read from the prefix cache."""

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
        )

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            self.calls - other.calls,
            self.prompt_tokens - other.prompt_tokens,
            self.cached_tokens - other.cached_tokens,
            self.completion_tokens - other.completion_tokens,
        )

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `summary` is a line for people; `detail` holds JSON-able values for machines."""

    step: Step
    summary: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = Usage()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything that happened on the way to one answer, in order."""

    events: tuple[Event, ...] = ()

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def of(self, step: Step) -> tuple[Event, ...]:
        return tuple(event for event in self.events if event.step == step)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question came to. `refused` answers carry no claims; `text` then says what is missing."""

    question: str
    text: str
    refused: bool
    route: Route
    claims: tuple[Claim, ...] = ()
    citations: tuple[Citation, ...] = ()
    contexts: tuple[str, ...] = ()
    trace: Trace = Trace()
    usage: Usage = Usage()
    seconds: float = 0.0
    first_token_seconds: float | None = None

    @property
    def calls(self) -> int:
        return self.usage.calls

    @property
    def tokens(self) -> int:
        return self.usage.tokens

    def to_dict(self) -> dict[str, Any]:
        """The object that `--json` and the HTTP interface give; the keys are part of the public contract."""
        return {
            "question": self.question,
            "text": self.text,
            "refused": self.refused,
            "route": asdict(self.route),
            "citations": [asdict(citation) for citation in self.citations],
            "claims": [asdict(claim) for claim in self.claims],
            "contexts": list(self.contexts),
            "calls": self.calls,
            "tokens": self.tokens,
            "usage": asdict(self.usage),
            "seconds": round(self.seconds, 3),
            "first_token_seconds": self.first_token_seconds and round(self.first_token_seconds, 3),
            "trace": [asdict(event) for event in self.trace],
        }


def contexts_of(evidence: Sequence[Evidence]) -> tuple[str, ...]:
    """The evidence as plain texts, in the order the synthesizer read it."""
    return tuple(item.text for item in evidence)
