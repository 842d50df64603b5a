"""Tasks of the predictors that read evidence: the grader, the hops, the synthesizer."""

from __future__ import annotations

from collections.abc import Sequence

import dspy

from optimize.gold import gold_ranks, quotes_in, quotes_in_evidence, quotes_in_texts
from optimize.labels import QuestionLabel
from optimize.metrics import answer_is_right, recall_at_k
from optimize.task import Source, Task, probed
from program.attribution import Attribution
from program.evidence import assemble, render
from program.ingest.quotes import contains_quote
from program.sentences import split_sentences
from program.signatures import CANNOT_ANSWER
from program.synthesizer import is_refusal
from program.tokens import count_tokens
from program.types import Evidence, Query

DEMO_TOKENS, DEMO_CHUNKS = 130, 2  # evidence in an answering example: it is read at every cold start
LONGEST_QUERY = 300  # characters of the next question that the program reads


def evidence_tasks(source: Source) -> list[Task]:
    """The tasks that the labels allow. Inside a session of the language model."""
    return [_grade(source), _next_hop(source), _answer(source)]


def _grade(source: Source) -> Task:
    """Evidence with all gold is enough; the same without the gold chunks is not, nor is any for an unanswerable one."""
    examples: dict[str, list[dspy.Example]] = {"train": [], "dev": []}
    usable = [x for x in source.labels.questions if x.strategy == "single" and (x.quotes or not x.answerable)]
    for label in source.some(usable):
        for sufficient in (True, False) if label.answerable else (False,):
            left_out = range(0) if sufficient else range(len(label.quotes))
            passages = _grader_passages(source, label, left_out, "grader.grade")
            held = len(quotes_in_texts([passages], label))
            # The grader reads less than the synthesizer: where that cut a quote off, there is no telling.
            if passages and held == (len(label.quotes) if sufficient else 0):
                examples[label.part].append(_example(source, label, passages, sufficient))

    def metric(example: dspy.Example, prediction: dspy.Prediction) -> float:
        if bool(prediction.sufficient) != example.gold:
            return 0.0
        return 1.0 if bool(str(prediction.missing).strip()) != example.gold else 0.8

    train, val = _alternating(examples["train"]), _alternating(examples["dev"])
    return Task("grader.grade", metric, train[: source.sizes.train], val[: source.sizes.val])


def _next_hop(source: Source) -> Task:
    """With all gold there is nothing left to look up; without the last quote, the next question must find it."""
    program = source.program
    chosen = source.some([x for x in source.with_gold if x.strategy == "multi_hop" and len(x.quotes) > 1])
    by_id = {label.id: label for label in chosen}
    examples: dict[str, list[dspy.Example]] = {"train": [], "dev": []}
    for label in chosen:
        last = len(label.quotes) - 1
        for left_out in (range(0), range(last, last + 1)):
            passages = _grader_passages(source, label, left_out, "grader.next_hop")
            if len(quotes_in_texts([passages], label)) == len(label.quotes) - len(left_out):
                examples[label.part].append(_example(source, label, passages, not left_out))

    def metric(example: dspy.Example, prediction: dspy.Prediction) -> float:
        following = " ".join(str(prediction.next_question).split())[:LONGEST_QUERY]
        if (bool(prediction.complete) or not following) != example.gold:
            return 0.0
        if example.gold:
            return 1.0
        params = program.params
        found = program.retriever.retrieve([Query(following, following)], params.search_for("clear"), params)
        return 0.5 + 0.5 * recall_at_k(gold_ranks(found.hits, by_id[example.id])[-1:], params.evidence_chunks)

    train, val = _alternating(examples["train"]), _alternating(examples["dev"] or examples["train"])
    return Task("grader.next_hop", metric, train[: source.sizes.train], val[: source.sizes.val])


def _answer(source: Source) -> Task:
    """Right and cited to what supports it, or refused where the passages do not hold the answer."""
    by_id = {label.id: label for label in source.labels.questions}
    evidence_of: dict[tuple[str, bool], tuple[Evidence, ...]] = {}

    def example(label: QuestionLabel, short: bool) -> dspy.Example | None:
        evidence = evidence_of[label.id, short] = read_evidence(source, label, short=short)
        if not evidence or len(quotes_in_evidence(evidence, label)) < len(label.quotes):
            return None
        return _example(source, label, render(evidence), label.answerable).copy(short=short)

    def metric(example: dspy.Example, prediction: dspy.Prediction) -> float:
        label = by_id[example.id]
        sentences = [sentence.text for sentence in split_sentences(str(prediction.answer or ""))]
        refused = not sentences or is_refusal(sentences[0])
        if not label.answerable or refused:
            return float(refused and not label.answerable)
        program, evidence = source.program, evidence_of[label.id, example.short]
        check = Attribution(example.question, evidence, program.retriever.encoder, program.params.support_bar)
        claims = [check.check(sentence) for sentence in sentences if not is_refusal(sentence)]
        kept = " ".join(claim.text for claim in claims if claim.status != "unsupported")
        if not answer_is_right(kept, label.answers):
            return 0.0
        cited = sum(claim.status == "supported" for claim in claims) / len(claims)
        return 0.7 + 0.2 * cited + 0.1 * (len(claims) <= 3)

    usable = [x for x in source.labels.questions if x.strategy in ("single", "multi_hop")]
    usable = source.some([x for x in usable if x.quotes or not x.answerable])
    made = {
        part: [made for x in usable if x.part == part and (made := example(x, part == "train"))]
        for part in ("train", "dev")
    }
    by_length = sorted(made["train"], key=lambda x: count_tokens(f"{x.passages} {x.question}"))
    # What is right is known for some: the refusal's words, and the gold sentences themselves, cited. They need no
    # bootstrapping, and show a small model the form.
    fixed = [x.copy(answer=CANNOT_ANSWER) for x in by_length if not x.gold][:1]
    for kind in ("compound", "clear"):
        fits = (x for x in by_length if x.gold and by_id[x.id].label == kind and not by_id[x.id].history)
        fixed += [x.copy(answer=_quoted(by_id[x.id], evidence_of[x.id, True])) for x in fits][:1]
    shown = {x.id for x in fixed}
    train = [x for x in by_length if x.gold and x.id not in shown][: source.sizes.train]
    # Twice the usual number to choose by: no other predictor matters as much.
    val = _alternating(made["dev"], share=3)[: 2 * source.sizes.val]
    return Task("synthesizer.answer", metric, train, val, fixed=fixed)


def _quoted(label: QuestionLabel, evidence: Sequence[Evidence]) -> str:
    """The label's gold sentences as an answer, each with the number of the passage that holds it."""
    numbered = []
    for gold in label.quotes:
        n = next(item.n for item in evidence if contains_quote(item.text, gold.quote))
        numbered.append(f"{gold.quote.strip().rstrip('.')} [{n}].")
    return " ".join(numbered)


def read_evidence(
    source: Source, label: QuestionLabel, *, short: bool = False, left_out: Sequence[int] = ()
) -> tuple[Evidence, ...]:
    """What the program would read for a question, with its gold searched for where one plain search might not do. With
    `short`, what an example can carry, gold first. Chunks that hold a quote in `left_out` are left out."""
    program, asked = source.program, source.asked[label.id]
    params = program.params
    queries = [Query(asked, asked)]
    if label.label != "clear":
        queries += [Query(gold.quote, asked) for gold in label.quotes]
    found = program.retriever.retrieve(queries, params.search_for(label.transform), params)
    hits = [hit for hit in found.hits if not quotes_in(hit.chunk, label) & set(left_out)]
    first = sorted(hits, key=lambda hit: not quotes_in(hit.chunk, label))
    kept = first[:DEMO_CHUNKS] if short else sorted(first[: params.evidence_chunks], key=lambda hit: -hit.score)
    whole = (
        params.evidence_tokens if label.label in ("clear", "vague", "needs_context") else params.evidence_tokens_many
    )
    tokens = DEMO_TOKENS if short else whole
    return assemble(kept, [asked], program.retriever.encoder, chunks=max(len(kept), 1), tokens=tokens)


def _grader_passages(source: Source, label: QuestionLabel, left_out: Sequence[int], name: str) -> str:
    """What the grader would really be sent, cut as it cuts."""
    grader, probe = probed(source.program, name)
    evidence = read_evidence(source, label, left_out=left_out)
    (grader.hop if name == "grader.next_hop" else grader)(source.asked[label.id], evidence, 0.0)
    return str(probe.given["passages"])


def _example(source: Source, label: QuestionLabel, passages: str, gold: bool) -> dspy.Example:
    given = {"passages": passages, "question": source.asked[label.id]}
    return dspy.Example(id=label.id, gold=gold, **given).with_inputs(*given)


def _alternating(examples: Sequence[dspy.Example], share: int = 1) -> list[dspy.Example]:
    """`share` examples with gold True, then one with False, and so on, so that any beginning is balanced."""
    yes, no = [x for x in examples if x.gold], [x for x in examples if not x.gold]
    mixed = []
    while yes or no:
        mixed += yes[:share] + no[:1]
        yes, no = yes[share:], no[1:]
    return mixed
