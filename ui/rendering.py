"""Turns what the program says into HTML for the chat: answers, sources, steps, problems.

Everything that comes from a document, a question or a model goes through `escape`, which leaves no character that HTML
or Markdown could read as markup, and no line break that could end the HTML block it stands in. Only the tags written
here reach the page.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from program.types import Answer, Citation, Claim, Event, Step, Usage

STEP_NAMES: dict[Step, str] = {
    "standalone": "Follow-up",
    "route": "Route",
    "transform": "Queries",
    "retrieve": "Search",
    "rank": "Ranking",
    "grade": "Evidence",
    "tool": "Tool",
    "synthesize": "Answer",
    "note": "Note",
}
#: What is under way once a step has been reported.
NEXT_ACTIVITY: dict[Step, str] = {
    "standalone": "Choosing how to answer",
    "route": "Looking for the answer",
    "transform": "Searching the library",
    "retrieve": "Ranking the passages",
    "rank": "Checking whether the passages are enough",
    "grade": "Reading the passages and writing",
    "tool": "Writing the answer",
    "synthesize": "Finishing the answer",
}
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MARKER = re.compile(r"\[(\d{1,3})\]")
#: A detail's name where the program's own would not be understood.
_NAMES = {
    "against": "ranked against", "claims": "sentences", "dense": "by meaning", "fused": "combined", "hits": "kept",
    "lexical": "by words", "n": "", "odds": "likeliest", "pool": "found", "queries": "searched for",
    "sufficient": "enough", "transform": "kind",
}  # fmt: skip
_SHARES = {"confidence", "odds", "support"}
_CODES = {"decided_by", "odds", "strategy", "status", "transform"}
#: Left out of the page: what the line above already says, and, in a table, what its title stands for.
_UNSAID = {"error", "tool", "result"}
_UNSAID_IN_TABLES = {"id", "document"}
_LONGEST_DETAIL = 400
_MOST_ROWS = 12


def escape(text: str) -> str:
    """Text that shows as itself: every ASCII punctuation mark becomes a character reference, every line break a `<br>`,
    control characters, direction changes and lone surrogates go."""
    text = _LINE_BREAK.sub("\n", text).replace("\t", " ")
    text = _PUNCTUATION.sub(lambda match: f"&#{ord(match.group())};", _CONTROL.sub("", text))
    return text.replace("\n", "<br>")


def plain(value: Answer) -> str:
    """An answer's text without its markers, as the next question's history carries it."""
    cited = {citation.n for citation in value.citations}
    return " ".join(_MARKER.sub(lambda match: "" if int(match[1]) in cited else match[0], value.text).split())


def question(text: str) -> str:
    return f'<div class="question">{escape(text)}</div>'


def claims_so_far(claims: Sequence[Claim]) -> str:
    """The sentences released up to now. Their sources come with the answer, so the markers are not links yet."""
    return f'<div class="answer"><p>{_claims(claims, {})}<span class="cursor"></span></p></div>'


def answer(value: Answer, uid: str) -> str:
    """The finished answer, what the reader should know about it, and its sources. `uid` keeps anchors apart."""
    anchors = {citation.n: f"source-{uid}-{citation.n}" for citation in value.citations}
    notes = "".join(f'<p class="note">{escape(event.summary)}</p>' for event in value.trace.of("note"))
    if value.refused:
        body = f'<p class="label">No answer in the library</p><p>{_marked(value.text, anchors, anchors)}</p>'
        hint = '<p class="hint">Try other words, name what you mean in full, or add a document that covers it.</p>'
        return f'<div class="answer refusal">{body}{hint}{notes}{_sources(value.citations, anchors)}</div>'
    body = _claims(value.claims, anchors) if value.claims else _marked(value.text, anchors, anchors)
    return f'<div class="answer"><p>{body}</p>{notes}{_sources(value.citations, anchors)}</div>'


def problem(text: str) -> str:
    """Something went wrong, in a sentence a person can act on."""
    return f'<div class="answer problem"><p class="label">That did not work</p><p>{escape(text)}</p></div>'


def stopped(claims: Sequence[Claim]) -> str:
    return f'<div class="answer"><p>{_claims(claims, {})}</p><p class="note">Stopped.</p></div>'


def steps(events: Iterable[Event]) -> str:
    """Every step with its summary, its cost, and, folded, its details."""
    return f'<ol class="steps">{"".join(_step(event) for event in events)}</ol>'


def cost(usage: Usage, seconds: float) -> str:
    """`2 calls · 812 tokens · 6.1 s`, without the parts that are nothing."""
    parts = []
    if usage.calls:
        parts.append(f"{usage.calls} call{'s' * (usage.calls != 1)}")
    if usage.tokens:
        parts.append(f"{usage.tokens:,} tokens")
    if seconds >= 0.05:
        parts.append(f"{seconds:.1f} s")
    return " · ".join(parts)


def _claims(claims: Sequence[Claim], anchors: Mapping[int, str]) -> str:
    return " ".join(_claim(claim, anchors) for claim in claims)


def _claim(claim: Claim, anchors: Mapping[int, str]) -> str:
    text = _marked(claim.text, claim.citations, anchors)
    if claim.status != "unsupported":
        return f'<span class="claim">{text}</span>'
    mark = '<span class="flag" title="No passage in the library supports this sentence">not supported</span>'
    return f'<span class="claim unsupported">{text} {mark}</span>'


def _marked(text: str, numbers: Collection[int], anchors: Mapping[int, str]) -> str:
    """Escaped text. Its markers among `numbers` are links to their sources, or plain numbers while there is none yet; a
    document's own `[7]` stays text."""
    parts = _MARKER.split(text)
    for position, part in enumerate(parts):
        if position % 2 == 0:
            # A number stays with the word before it, at the end of a line too.
            glued = position + 1 < len(parts) and int(parts[position + 1]) in numbers and part.endswith(" ")
            parts[position] = escape(part[:-1] + "\u00a0" if glued else part)
        elif (n := int(part)) not in numbers:
            parts[position] = escape(f"[{part}]")
        elif n in anchors:
            parts[position] = f'<a class="cite" href="#{anchors[n]}" title="Open source {n}">{n}</a>'
        else:
            parts[position] = f'<span class="cite">{n}</span>'
    return "".join(parts)


def _sources(citations: Sequence[Citation], anchors: Mapping[int, str]) -> str:
    if not citations:
        return ""
    ordered = sorted(citations, key=lambda citation: citation.n)
    cards = (_source(list(same), anchors[n]) for n, same in groupby(ordered, key=lambda citation: citation.n))
    return f'<div class="sources"><p class="label">Sources</p>{"".join(cards)}</div>'


def _source(citations: Sequence[Citation], anchor: str) -> str:
    """One numbered source, folded; open, its passage with the supporting quotes highlighted."""
    first = citations[0]
    kind = {"passage": "", "calculation": "Calculation", "web": "Web page", "sql": "Query"}[first.kind]
    place = [kind, first.heading, f"page {first.page}" if first.page is not None else ""]
    where = " · ".join(escape(part) for part in place if part)
    support = max(citation.support for citation in citations)
    foot = f"{escape(first.document)} · {support:.0%} support for the sentence that cites it"
    return (
        f'<details class="source" id="{anchor}"><summary><span class="number">{first.n}</span>'
        f'<span class="title">{escape(first.title or first.document)}</span>'
        f'<span class="place">{where}</span></summary>'
        f'<div class="passage"><p>{_highlighted(citations)}</p><p class="foot">{foot}</p></div></details>'
    )


def _highlighted(citations: Sequence[Citation]) -> str:
    """The passage with every quote marked. A quote that is not in it verbatim stands before it."""
    passage = next((citation.passage for citation in citations if citation.passage), "")
    quotes = [citation.quote for citation in citations if citation.quote]
    marked = [False] * len(passage)
    for quote in quotes:
        start = passage.find(quote)
        if start >= 0:
            marked[start : start + len(quote)] = [True] * len(quote)
    outside = "".join(f"<mark>{escape(quote)}</mark><br>" for quote in dict.fromkeys(quotes) if quote not in passage)
    runs = groupby(zip(passage, marked, strict=True), key=lambda pair: pair[1])
    pieces = ((inside, escape("".join(character for character, _ in run))) for inside, run in runs)
    return outside + "".join(f"<mark>{piece}</mark>" if inside else piece for inside, piece in pieces)


def _step(event: Event) -> str:
    summary = escape(event.summary)
    if detail := {key: value for key, value in event.detail.items() if key not in _UNSAID}:
        summary = f'<details class="more"><summary>{summary}</summary>{_value(detail)}</details>'
    spent = cost(event.usage, event.seconds)
    return (
        f'<li><span class="step">{STEP_NAMES[event.step]}</span>'
        f'<span class="what">{summary}</span><span class="cost">{spent}</span></li>'
    )


def _value(value: Any) -> str:
    """A JSON-able value as named lines, a list or a small table."""
    if isinstance(value, Mapping):
        lines = (
            f'<div><span class="name">{_name(key)}</span> {_named(key, item)}</div>' for key, item in value.items()
        )
        return f'<div class="values">{"".join(lines)}</div>'
    if isinstance(value, Sequence) and not isinstance(value, str):
        shown = list(value[:_MOST_ROWS])
        left = f'<p class="left">and {len(value) - len(shown)} more</p>' if len(value) > len(shown) else ""
        if shown and all(isinstance(item, Mapping) for item in shown):
            return _table(shown) + left
        return f"<ul>{''.join(f'<li>{_value(item)}</li>' for item in shown)}</ul>{left}" if shown else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value) if value not in (None, "") else "–"
    return escape(text if len(text) <= _LONGEST_DETAIL else text[:_LONGEST_DETAIL] + "…")


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in _UNSAID_IN_TABLES]
    names = [name for name in names if any(row.get(name) != 0 for row in rows)]  # such as scores before the ranking
    numeric = {name for name in names if all(isinstance(row.get(name), int | float | None) for row in rows)}
    kinds = {name: ' class="figure"' if name in numeric else "" for name in names}
    head = "".join(f"<th{kinds[name]}>{_name(name)}</th>" for name in names)
    cells = ("".join(f"<td{kinds[name]}>{_named(name, row.get(name))}</td>" for name in names) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _named(key: str, value: Any) -> str:
    """A value as its name wants it read: shares as percentages, the program's labels as words."""
    if key in _SHARES and isinstance(value, float):
        return f"{value:.0%}"
    if key == "odds" and isinstance(value, Mapping):
        return ", ".join(f"{_name(label)} {_named(key, share)}" for label, share in value.items())
    if key in _CODES and isinstance(value, str):
        return escape({"head": "router", "bars": "scores"}.get(value, value.replace("_", " ")))
    return _value(value)


def _name(key: object) -> str:
    return escape(_NAMES.get(str(key), str(key).replace("_", " ")))


def status(phase: str, message: str, share: float | None) -> str:
    """The page's status line: a dot, a sentence, and a bar while something loads."""
    width = f' style="width:{share:.0%}"' if share is not None else ' class="unknown"'
    bar = f'<span class="bar"><span{width}></span></span>' if phase == "loading" else ""
    return (
        f'<div class="brand">Adaptive RAG</div>'
        f'<div class="status {phase}" role="status"><span class="dot"></span><span>{escape(message)}</span>{bar}</div>'
    )
