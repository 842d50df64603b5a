"""From ranked hits to what the synthesizer reads: numbered evidence, trimmed to the sentences that matter.

Contextual compression by extraction: sentences are scored against what was asked and picked until the token budget is
spent, so that a language model on two cores reads hundreds of tokens and not thousands. Nothing is reworded: every
sentence keeps its span in the document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from program.retrieval.encoders import Encoder
from program.retrieval.lexical import word_scores
from program.sentences import split_sentences
from program.tokens import count_tokens
from program.types import Evidence, Hit, Sentence
from program.words import coverage

_NEIGHBOUR = 0.15  # share of a neighbour's relevance a sentence inherits: an answer often stands beside its keyword
_PRIOR = 0.3  # weight of the passage's own rank score
_REFERENCE = re.compile(r"\s?\[\d+(?:\s?[,;–-]\s?\d+)*\]")


@dataclass(frozen=True, slots=True)
class _Candidate:
    hit: int
    sentence: Sentence
    cost: int


def assemble(
    hits: Sequence[Hit], asked: Sequence[str], encoder: Encoder, *, chunks: int, tokens: int
) -> tuple[Evidence, ...]:
    """Evidence from the first `chunks` hits, in their order, within `tokens` (cl100k tokens of titles and sentences).

    asked: the texts the hits were ranked against; each picks sentences in turn, so that every sub-question gets its
    share. A sentence that two overlapping chunks hold is kept once.
    """
    kept = list(hits[:chunks])
    candidates = _candidates(kept)
    if not candidates:
        return ()
    relevance = _relevance(candidates, asked, encoder, kept)
    chosen = _choose(candidates, relevance, kept, tokens)
    evidence: list[Evidence] = []
    for position, hit in enumerate(kept):
        sentences = tuple(candidates[i].sentence for i in sorted(chosen) if candidates[i].hit == position)
        if sentences:
            evidence.append(Evidence(len(evidence) + 1, hit.chunk, sentences, hit.score))
    return tuple(evidence)


def render(evidence: Sequence[Evidence], asked: str = "", tokens: int | None = None) -> str:
    """Evidence as the language model reads it, one passage a line: `[n] title: sentences`.

    A document's own reference marks (`[13]`) are left out: they would read as passage numbers. With `tokens`, only
    the sentences that share the most telling words with what was `asked` stay, as many as fit (BM25+ over them keeps
    75% of the labels' gold sentences in 150 tokens; the share of the question's words kept 70%).
    """
    if tokens is not None:
        evidence = _cut(evidence, asked, tokens)
    return "\n".join(f"[{item.n}] {_line(item.chunk.title)}: {_line(item.text)}" for item in evidence)


def best_sentences(asked: str, evidence: Sequence[Evidence], encoder: Encoder, k: int) -> list[tuple[Evidence, int]]:
    """The `k` sentences nearest to what was asked, as (evidence, index of the sentence), best first."""
    places = [(item, i) for item in evidence for i in range(len(item.sentences))]
    if not places:
        return []
    texts = [item.sentences[i].text for item, i in places]
    vectors = encoder.encode([asked, *texts])
    scores = vectors[1:] @ vectors[0] + np.array([coverage(asked, text) for text in texts])
    return [places[i] for i in np.argsort(-scores, kind="stable")[:k]]


def _line(text: str) -> str:
    return " ".join(_REFERENCE.sub("", text).split())


def _cut(evidence: Sequence[Evidence], asked: str, tokens: int) -> list[Evidence]:
    places = [(item.n, i, sentence.text) for item in evidence for i, sentence in enumerate(item.sentences)]
    kept: set[tuple[int, int]] = set()
    scores = word_scores(asked, [text for _, _, text in places])
    for place in np.argsort(-scores, kind="stable"):
        n, i, text = places[place]
        tokens -= count_tokens(text)
        if kept and tokens < 0:
            break
        kept.add((n, i))
    cut = (
        replace(item, sentences=tuple(s for i, s in enumerate(item.sentences) if (item.n, i) in kept))
        for item in evidence
    )
    return [item for item in cut if item.sentences]


def _candidates(hits: Sequence[Hit]) -> list[_Candidate]:
    seen: set[tuple[str, int]] = set()
    found = []
    for position, hit in enumerate(hits):
        for sentence in split_sentences(hit.chunk.text):
            start = hit.chunk.start + sentence.start
            if (hit.chunk.document, start) not in seen:
                seen.add((hit.chunk.document, start))
                span = Sentence(sentence.text, start, start + len(sentence.text))
                found.append(_Candidate(position, span, count_tokens(sentence.text)))
    return found


def _relevance(
    candidates: Sequence[_Candidate], asked: Sequence[str], encoder: Encoder, hits: Sequence[Hit]
) -> NDArray[np.float32]:
    """Score of each sentence for each asked text, float32 [asked, sentences]."""
    vectors = encoder.encode([*asked, *(candidate.sentence.text for candidate in candidates)])
    cosine = vectors[: len(asked)] @ vectors[len(asked) :].T
    found = np.array([[coverage(text, candidate.sentence.text) for candidate in candidates] for text in asked])
    own = cosine + found
    smoothed = own.copy()
    for i, j in zip(range(len(candidates) - 1), range(1, len(candidates)), strict=True):
        if candidates[i].hit == candidates[j].hit:
            smoothed[:, i] = np.maximum(smoothed[:, i], own[:, i] + _NEIGHBOUR * own[:, j])
            smoothed[:, j] = np.maximum(smoothed[:, j], own[:, j] + _NEIGHBOUR * own[:, i])
    prior = np.array([_PRIOR * hits[candidate.hit].score for candidate in candidates])
    return np.asarray(smoothed + prior, np.float32)


def _choose(
    candidates: Sequence[_Candidate], relevance: NDArray[np.float32], hits: Sequence[Hit], tokens: int
) -> set[int]:
    """Indices of the sentences that fit, the asked texts picking in turn."""
    chosen: set[int] = set()
    opened: set[int] = set()
    left = tokens
    for place in range(len(candidates)):
        for row in np.argsort(-relevance, axis=1, kind="stable"):
            i = int(row[place])
            if i in chosen:
                continue
            candidate = candidates[i]
            header = 0 if candidate.hit in opened else count_tokens(hits[candidate.hit].chunk.title) + 5
            if candidate.cost + header > left and chosen:
                continue
            chosen.add(i)
            opened.add(candidate.hit)
            left -= candidate.cost + header
    return chosen
