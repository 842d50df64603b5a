"""The whole flow of one question. `AdaptiveRAG.forward` is the algorithm; the methods under it are its steps.

The language model may fail at any step: the step then does without (`Run.attempt`), the trace says so, and an answer
that cannot be written is quoted from the evidence.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from queue import SimpleQueue
from threading import Event as Flag
from threading import Lock, Thread

import dspy

from program import lm as language_model
from program import tools, wording
from program.attribution import Attribution, strip_marks
from program.errors import LanguageModelError, NotConfigured, QuestionError, WeightsError
from program.evidence import assemble, best_sentences
from program.grader import Grader
from program.params import Params
from program.retrieval.retriever import Retrieval, Retriever
from program.router import Router, RouterHead
from program.run import Run
from program.signatures import ExtractExpression
from program.synthesizer import Synthesizer
from program.tracing import Listener, Recorder
from program.transforms import READS_HEADINGS, Standalone, Transforms, headings_of, plain, refers_back
from program.types import (
    Answer,
    Claim,
    Event,
    Evidence,
    Grade,
    Hit,
    Query,
    Route,
    Transform,
    Turn,
    Usage,
)

_ALWAYS_NEEDED = "synthesizer.answer"
MOST_WORDS = 500
MOST_CHARACTERS = 6000


class AdaptiveRAG(dspy.Module):
    """Answers questions over one index, spending on each only what it needs.

    retriever: searches and ranks. params: every tunable number. head: the learned router, or None (then the language
    model routes). lm: gives the language model when it is first needed, or None to answer by quotation alone.
    warnings: what the reader of every trace should know, such as another language model than the one compiled for.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        params: Params | None = None,
        head: RouterHead | None = None,
        lm: Callable[[], dspy.LM] | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.retriever = retriever
        self.params = params or Params()
        self.head = head
        self.warnings = tuple(warnings)
        self._connect = lm
        self._lm: dspy.LM | None = None
        self._lock = Lock()
        self.standalone = Standalone()
        self.router = Router()
        self.transforms = Transforms()
        self.calculation = dspy.Predict(ExtractExpression)
        self.grader = Grader()
        self.synthesizer = Synthesizer()

    def forward(
        self,
        question: str,
        history: Sequence[Turn] = (),
        *,
        on_event: Listener | None = None,
        cancelled: Flag | None = None,
    ) -> Answer:
        """Answer a question. `on_event` hears every Event, and every Claim as it is released.

        Raises QuestionError for a question that is empty or too long, LibraryError when the index cannot be read,
        Cancelled when `cancelled` was set. A language model that fails ends in an answer that says so.
        """
        question = _checked(question)
        with self._run(question, on_event, cancelled) as run:
            asked = self._stand_alone(run, question, history)
            run.route = route = self._route(run, asked)
            if route.strategy == "no_retrieval" and run.speaks:
                return self._reply(run, question)
            if route.strategy in ("math", "web", "sql") and (result := self._use_tool(run, asked)):
                return self._quote(run, asked, [result])
            queries = self._queries(run, asked, route.transform)
            found: list[Retrieval] = []
            for last in self._bound(route):
                found.append(self._retrieve(run, queries, route.transform))
                evidence = self.gather(asked, found, route)
                grade = self._grade(run, asked, evidence, found, last)
                if grade.sufficient:
                    return self._synthesize(run, asked, evidence)
                queries = [] if last else self._correct(run, asked, grade)
                if not queries:
                    break
            return self._refuse(run, grade.missing, evidence)

    def stream(self, question: str, history: Sequence[Turn] = ()) -> Iterator[Event | Claim | Answer]:
        """Events as they happen, every checked sentence as it is released, and the Answer last.

        Closing the iterator cancels the question. Raises as `forward` does.
        """
        items: SimpleQueue[Event | Claim | Answer | BaseException] = SimpleQueue()
        cancelled = Flag()

        def work() -> None:
            try:
                items.put(self(question, history, on_event=items.put, cancelled=cancelled))
            except BaseException as error:  # handed to the caller's thread, which raises it
                items.put(error)

        # A raw thread would not inherit DSPy's context.
        Thread(target=contextvars.copy_context().run, args=(work,), name="question", daemon=True).start()
        try:
            while True:
                item = items.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
                if isinstance(item, Answer):
                    return
        finally:
            cancelled.set()

    def warm_up(self, on_progress: Callable[[int, int, str], None] | None = None) -> None:
        """Read every predictor's static prompt into the language model's prefix cache, the likeliest needed first.

        Raises LanguageModelError when there is no language model.
        """
        language_model.warm_up(self.language_model(), self._by_need(), on_progress)

    def _by_need(self) -> list[tuple[str, dspy.Predict]]:
        return sorted(self.named_predictors(), key=lambda pair: pair[0] not in (_ALWAYS_NEEDED, "router.decide"))

    @property
    def speaks(self) -> bool:
        """Whether there is a language model to ask; it may still fail."""
        return self._connect is not None

    def language_model(self) -> dspy.LM:
        """The language model, connected at the first call. Raises LanguageModelError or WeightsError."""
        if self._connect is None:
            raise LanguageModelError(
                "No language model is set (RAG_LM=none).", "Set RAG_LM, or unset it for the embedded one."
            )
        with self._lock:
            if self._lm is None:
                lm = self._connect()
                # What an earlier process has read is loaded in a moment; one prompt nearly every question needs.
                language_model.warm_up(lm, self._by_need(), read=_ALWAYS_NEEDED.__eq__)
                self._lm = lm
            return self._lm

    # The steps, in the order of `forward`.

    def _stand_alone(self, run: Run, question: str, history: Sequence[Turn]) -> str:
        if not history or not run.speaks or not refers_back(question):
            return question
        with run.recorder.step("standalone") as done:
            asked = run.attempt(lambda: self.standalone(question, history), question)
            done(f"Read as: {asked}", question=asked)
        return asked

    def _route(self, run: Run, asked: str) -> Route:
        with run.recorder.step("route") as done:
            odds = self.router.by_head(self.head, asked, self.retriever.encoder.encode([asked])[0])
            by_head = _head_choice(self.head, odds)
            sure = self.head is not None and by_head.confidence >= self.params.router_bar
            route = by_head if sure else run.attempt(lambda: self.router(asked, odds), by_head)
            if route.label == "clear" and self.params.hyde and run.speaks:
                route = Route("single", "hyde", route.decided_by, route.confidence)
            done(
                f"{wording.KINDS[route.label]}; {wording.decision(route)}",
                strategy=route.strategy,
                transform=route.transform,
                decided_by=route.decided_by,
                confidence=round(route.confidence, 4),
                odds={label: round(share, 4) for label, share in odds[:3]},
            )
        return route

    def _reply(self, run: Run, question: str) -> Answer:
        with run.recorder.step("synthesize") as done:
            claims: list[Claim] = []
            for sentence in run.sentences(self.synthesizer.greet(question)):
                # Nothing is cited here, so a mark would be of a citation that does not exist.
                claims.append(Claim(strip_marks(sentence)[0], (), 1.0, "plain"))
                run.recorder.release(claims[-1])
            if not claims:
                claims = [Claim("Ask me anything about the documents in the library.", (), 1.0, "plain")]
                run.recorder.release(claims[0])
            done("Replied without the library", sentences=len(claims))
        return run.answer(claims)

    def _use_tool(self, run: Run, asked: str) -> Evidence | None:
        """What the tool found, or None: then the library is asked, and the trace says why."""
        strategy = run.route.strategy
        with run.recorder.step("tool") as done:
            try:
                if strategy == "math":
                    expression = tools.plain_arithmetic(asked) or run.attempt(
                        lambda: str(language_model.call(self.calculation, question=asked).expression), asked
                    )
                    result = tools.calculate(expression)
                else:
                    result = tools.search_web(asked) if strategy == "web" else tools.query_sql(asked)
                done(result.text, tool=strategy, result=result.text)
                return result
            except (NotConfigured, QuestionError) as error:
                done(str(error), tool=strategy, error=type(error).__name__)
        return None

    def _queries(self, run: Run, asked: str, transform: Transform) -> list[Query]:
        if transform == "clear" or not run.speaks:
            return plain(asked)
        with run.recorder.step("transform") as done:
            near = self.headings(asked) if transform in READS_HEADINGS else ""
            most = self.params.max_queries
            queries = run.attempt(lambda: self.transforms(transform, asked, most, near), plain(asked))
            done(
                f"{wording.FIXES[transform]}: " + " | ".join(query.dense or query.text for query in queries),
                transform=transform,
                queries=[query.text for query in queries],
                against=list(dict.fromkeys(query.against for query in queries)),
            )
        return queries

    def headings(self, question: str) -> str:
        """What the library has near a question, for the transforms that word their queries after it."""
        return headings_of(self.retriever.retrieve(plain(question), self.params.search_for("clear"), self.params).hits)

    def _bound(self, route: Route) -> Iterator[bool]:
        """The one bounded loop: yields whether this retrieval is the last."""
        most = self.params.max_retrievals if route.strategy == "multi_hop" else 1 + self.params.max_corrections
        yield from (step == most - 1 for step in range(most))

    def _retrieve(self, run: Run, queries: Sequence[Query], transform: Transform) -> Retrieval:
        with run.recorder.step("retrieve") as done:
            retrieval = self.retriever.retrieve(queries, self.params.search_for(transform), self.params)
            pool = sum(len(item.hits) for item in retrieval.pools)
            done(
                f"{wording.counted(pool, 'passage')} found for {wording.counted(len(queries), 'query', 'queries')}",
                queries=[query.text for query in queries],
                engine=self.retriever.index.engine,
                pool=[_shown(hit) for item in retrieval.pools for hit in item.hits],
            )
        with run.recorder.step("rank") as done:
            best = retrieval.hits[0] if retrieval.hits else None
            done(
                f"Kept {len(retrieval.hits)}, top score {best.score:.2f} ({best.chunk.title})" if best else "Kept none",
                ranker=self.retriever.ranker,
                hits=[_shown(hit) for hit in retrieval.hits],
            )
        for note in retrieval.notes:
            run.recorder.note(note)
        return retrieval

    def gather(self, asked: str, found: Sequence[Retrieval], route: Route) -> tuple[Evidence, ...]:
        against = list(dict.fromkeys([pool.against for item in found for pool in item.pools]))
        return assemble(
            _joined([item.hits for item in found], in_turn=route.strategy == "multi_hop"),
            [asked, *against] if route.strategy == "multi_hop" else against,
            self.retriever.encoder,
            chunks=self.params.evidence_chunks,
            tokens=self.params.evidence_tokens if route.label == "clear" else self.params.evidence_tokens_many,
        )

    def _grade(
        self, run: Run, asked: str, evidence: Sequence[Evidence], found: Sequence[Retrieval], last: bool
    ) -> Grade:
        with run.recorder.step("grade") as done:
            scores = [max((hit.score for hit in item), default=0.0) for item in found[-1].ranked]
            hops = run.route.strategy == "multi_hop"
            if hops:
                scores = [max(scores, default=0.0)]
            score = min(scores, default=0.0)
            grade = self.grader.by_bars(scores, self.params)
            # Hops go on until the language model has what it needs; the last evidence is what there is.
            fallback = Grade(bool(evidence) and score >= self.params.reject_bar, "", "fallback", score)
            if not evidence:
                grade = Grade(False, "", "bars", score)
            elif hops and not last:
                grade = run.attempt(lambda: self.grader.hop(asked, evidence, score), fallback)
            elif grade is None:
                grade = fallback if hops else run.attempt(lambda: self.grader(asked, evidence, score), fallback)
            done(
                ("Enough" if grade.sufficient else f"Not enough; missing: {grade.missing or 'anything close'}")
                + f" ({wording.JUDGES[grade.decided_by]}, best score {score:.2f})",
                sufficient=grade.sufficient,
                missing=grade.missing,
                decided_by=grade.decided_by,
                score=round(score, 4),
                evidence=[{"n": item.n, "title": item.chunk.title, "text": item.text} for item in evidence],
            )
        return grade

    def _correct(self, run: Run, asked: str, grade: Grade) -> list[Query]:
        """The next queries, towards what is missing; none when there is no way to reformulate."""
        if grade.missing:
            against = grade.missing if run.route.strategy == "multi_hop" else asked
            return [Query(grade.missing, against=against)]
        if not run.speaks:
            return []
        with run.recorder.step("transform") as done:
            queries: list[Query] = run.attempt(lambda: self.transforms("vague", asked, 1, self.headings(asked)), [])
            done(
                "Searching again: " + (" | ".join(query.text for query in queries) or "no other wording was found"),
                transform="vague",
                queries=[query.text for query in queries],
            )
        return [query for query in queries if query.text != asked]

    def _synthesize(self, run: Run, asked: str, evidence: Sequence[Evidence]) -> Answer:
        if not run.speaks:
            return self._quote(run, asked, evidence)
        claims: list[Claim] = []
        dropped = 0
        with run.recorder.step("synthesize") as done:
            check = Attribution(asked, evidence, self.retriever.encoder, self.params.support_bar)
            for sentence in run.sentences(self.synthesizer.write(asked, evidence)):
                claim = check.check(sentence)
                if claim.status == "unsupported" and self.params.drop_unsupported:
                    run.recorder.check()
                    dropped += 1
                    continue
                claims.append(claim)
                run.recorder.release(claim)
            done(
                wording.checks(claims, dropped),
                claims=[{"text": c.text, "support": round(c.support, 4), "status": c.status} for c in claims],
                dropped=dropped,
            )
        if claims:
            return run.answer(claims, check.citations, evidence)
        if not run.speaks:
            return self._quote(run, asked, evidence)
        return self._refuse(run, "", evidence, drafted=dropped > 0)

    def _quote(self, run: Run, asked: str, evidence: Sequence[Evidence]) -> Answer:
        """The best supporting sentences, quoted: what is left when no language model can write."""
        with run.recorder.step("synthesize") as done:
            check = Attribution(asked, evidence, self.retriever.encoder, self.params.support_bar)
            best = best_sentences(asked, evidence, self.retriever.encoder, self.params.max_queries)
            claims = [check.quote(item, position) for item, position in best]
            for claim in claims:
                run.recorder.release(claim)
            quoted = [{"text": c.text, "status": c.status} for c in claims]
            done(f"Quoted {wording.counted(len(quoted), 'sentence')}", claims=quoted)
        return run.answer(claims, check.citations, evidence)

    def _refuse(self, run: Run, missing: str, evidence: Sequence[Evidence], drafted: bool = False) -> Answer:
        text = "I could not find the answer to this in the library."
        if drafted:
            text = "I found related passages, but could not verify an answer against them."
        if missing:
            text += f" What is missing: {strip_marks(missing)[0].rstrip('.')}."
        titles = list(dict.fromkeys(item.chunk.title for item in evidence))[:3]
        if titles:
            text += f" The closest documents are: {'; '.join(titles)}."
        return run.answer([], evidence=evidence, refusal=text)

    @contextmanager
    def _run(self, question: str, listener: Listener | None, cancelled: Flag | None) -> Iterator[Run]:
        """Everything one question needs, with the language model where there is one."""
        try:
            lm = self.language_model()
        except (LanguageModelError, WeightsError) as error:
            yield self._begin(Run(question, Recorder(listener, Usage, cancelled), speaks=False), str(error))
            return
        with language_model.session(lm) as meter:
            yield self._begin(Run(question, Recorder(listener, lambda: meter.usage, cancelled), speaks=True))

    def _begin(self, run: Run, *notes: str) -> Run:
        for note in (*self.warnings, *notes):
            run.recorder.note(note)
        return run


def _checked(question: str) -> str:
    question = question.encode("utf-8", "replace").decode().strip()  # no tokenizer takes lone surrogates
    if not question:
        raise QuestionError("The question is empty.", "Type a question about the documents.")
    words = len(question.split())
    if words > MOST_WORDS or len(question) > MOST_CHARACTERS:
        raise QuestionError(
            f"The question is too long ({words:,} words, {len(question):,} characters).",
            f"Ask in at most {MOST_WORDS} words; long texts can be added to the library as documents.",
        )
    return question


def _head_choice(head: RouterHead | None, odds: Sequence[tuple[str, float]]) -> Route:
    """The head's likeliest class; without a head, the plainest route."""
    if head is None:
        return Route.from_label("clear", "fallback", 0.0)
    label, share = odds[0]
    return Route.from_label(label, "head", share)


def _joined(rankings: Sequence[Sequence[Hit]], *, in_turn: bool) -> list[Hit]:
    """Hits of several retrievals, each chunk once: hops in turn, since each looked for something else; a correction by
    score, so that it cannot crowd out what was found before it."""
    merged: dict[str, Hit] = {}
    for place in zip_longest(*rankings):
        for hit in place:
            if hit is not None:
                merged.setdefault(hit.chunk.id, hit)
    if in_turn or len(rankings) == 1:
        return list(merged.values())
    return sorted(merged.values(), key=lambda hit: (-hit.score, hit.chunk.id))


def _shown(hit: Hit) -> dict[str, object]:
    return {
        "id": hit.chunk.id,
        "document": hit.chunk.document,
        "title": hit.chunk.title,
        "score": round(hit.score, 4),
        "dense": round(hit.dense, 4),
        "lexical": round(hit.lexical, 4),
        "fused": round(hit.fused, 6),
    }
