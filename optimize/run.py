"""The whole run: head, retrieval, examples, bars, then before against after.

Choices are made on train and dev; the test part is asked once, at the end, and only reported.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import dspy
from threadpoolctl import threadpool_limits

from optimize import compile as compiling
from optimize import evaluate, thresholds, tune
from optimize.compile import OptimizerName
from optimize.evidence_tasks import evidence_tasks
from optimize.gold import Case, evidence_of, pool_score, quotes_in_evidence, retrieval_of, take_case
from optimize.head import HeadFit, fit_head, head_odds, score_head, standing_alone
from optimize.journal import Journal, fingerprint
from optimize.labels import Labels, QuestionLabel
from optimize.metrics import answer_is_right
from optimize.plan import Budget
from optimize.progress import Advance, Stages
from optimize.question_tasks import question_tasks
from optimize.rivals import Rivals, dev_score, library_of
from optimize.task import Source, Task
from program.artifact import Artifact, CompiledWith, state_of
from program.attribution import Attribution
from program.errors import LanguageModelError
from program.evidence import render
from program.lm import call, session
from program.params import Params
from program.pipeline import AdaptiveRAG
from program.sentences import split_sentences
from program.transforms import refers_back
from program.types import Evidence, Query

LIBRARIES = ("dspy", "gepa", "numpy", "optuna", "scikit-learn", "sentence-transformers", "torch", "xllamacpp")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished run. before, after: dev scores of the program to beat (`against`) and of the compiled one."""

    artifact: Artifact
    against: str
    before: float
    after: float

    @property
    def better(self) -> bool:
        return self.after > self.before


@dataclass
class Run:
    """One run of the optimizer.

    make: gives a fresh uncompiled program over the library. only: the stages to do; where one is left out, the
    incumbent's result stands in, or the uncompiled program's. language_model: what RAG_LM names; none for none.
    incumbent: what stands at the artifact's place and is to be beaten. report: grows as stages finish.
    """

    make: Callable[[], AdaptiveRAG]
    labels: Labels
    budget: Budget
    journal: Journal
    stages: Stages
    only: Sequence[str]
    language_model: str
    optimizer: OptimizerName = "bootstrap"
    seed: int = 0
    incumbent: Artifact | None = None
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def speaks(self) -> bool:
        return self.language_model != "none"

    def __call__(self, name: str) -> Outcome:
        """Do everything but saving. Raises LabelError, LanguageModelError, LibraryError."""
        program = self._standing()
        fit = self._head(program) if "head" in self.only else None
        asked, cases = self._cases(program) if set(self.only) - {"head"} else ({}, [])
        if "tune" in self.only:
            program.params = self._tune(program, cases)
        if "compile" in self.only and self.speaks:
            self._compile(program, Source(program, self.labels, self._odds(program, fit), asked, self.budget.sizes))
        if "thresholds" in self.only:
            self._bars(program, cases)
        return self._compare(program, name)

    def _standing(self) -> AdaptiveRAG:
        """A program as the incumbent has it, or an uncompiled one."""
        program = self.make()
        if self.incumbent is not None:
            self.incumbent.apply(program)
        return program

    def _head(self, program: AdaptiveRAG) -> HeadFit:
        encoder = program.retriever.encoder
        parts = {part: [x for x in self.labels.routing if x.part == part] for part in ("train", "dev", "test")}
        with self.stages.stage("Router head", 1), threadpool_limits(1):
            fit = fit_head(parts["train"], encoder, self.seed)
            scores = {part: score_head(fit.head, parts[part], encoder) for part in ("dev", "test")}
        program.head = fit.head
        self.report["router"] = {part: asdict(score) for part, score in scores.items()} | {"C": fit.strength}
        dev = scores["dev"]
        self.stages.say(f"  head: accuracy {dev.accuracy:.2f}, macro F1 {dev.macro_f1:.2f} on {dev.n} dev questions")
        return fit

    def _cases(self, program: AdaptiveRAG) -> tuple[dict[str, str], list[Case]]:
        """Every train and dev question with its queries: the language model's within the budget, else itself."""
        chosen = [x for x in self.labels.questions if x.part != "test"]
        tried = (*tune.TITLE_WEIGHTS, Params().title_weight) if "tune" in self.only else ()
        weights = {*tried, program.params.title_weight}
        asked: dict[str, str] = {}
        cases: list[Case] = []
        library = library_of(program)
        wordy = [x for x in chosen if x.history or x.label in ("vague", "compound", "broad", "needs_context")]
        written = evaluate.sample(wordy, self.budget.queries if self.speaks else 0, self.seed)
        ids = {label.id for label in written}
        with self.stages.stage("Queries and candidates", len(chosen)) as step:
            for label in chosen:
                question, queries = label.question, [Query(label.question, label.question)]
                if label.id in ids:
                    question, queries = self._written(label, library)
                asked[label.id] = question
                if label.strategy in ("single", "multi_hop"):
                    cases.append(take_case(program.retriever, label, question, queries, sorted(weights)))
                step()
        return asked, cases

    def _written(self, label: QuestionLabel, library: str) -> tuple[str, list[Query]]:
        """The question folded and transformed by the uncompiled program, so that tuning depends on no later stage."""

        def work() -> dict[str, Any]:
            program, question = self.make(), label.question
            with session(program.language_model()):
                try:
                    if label.history and refers_back(question):
                        question = program.standalone(question, label.turns)
                    made = program.transforms(
                        label.transform, question, program.params.max_queries, program.headings(question)
                    )
                except LanguageModelError:
                    made = [Query(question, question)]
            return {"asked": question, "queries": [[q.text, q.against, q.dense, q.itself] for q in made]}

        inputs = [label.question, label.transform, label.model_dump()["history"], library]
        found = self.journal.once("queries", inputs, work)
        return found["asked"], [Query(*query) for query in found["queries"]]

    def _tune(self, program: AdaptiveRAG, cases: Sequence[Case]) -> Params:
        gold = [case for case in cases if case.label.quotes]
        train = [case for case in gold if case.label.part == "train"]
        dev = [case for case in gold if case.label.part == "dev"] or train
        trials, default = self.budget.trials, Params()
        with self.stages.stage("Retrieval and ranking", tune.studies(gold) * trials) as step, threadpool_limits(1):
            params = tune.keep_better_ranker(train, dev, default)
            params = tune.tune_search(gold, params, trials=trials, seed=self.seed, step=step)
            params = tune.keep_better_ranker(train, dev, params)
            params = tune.tune_cuts(gold, params, trials=trials, seed=self.seed, step=step)
            before, after = tune.found(dev, default), tune.found(dev, params)
            whole = [self._evidence_share(program, dev, numbers) for numbers in (default, params)]
        kept = (whole[1], after.objective) >= (whole[0], before.objective)
        self.report["retrieval"] = {
            "part": "dev",
            "before": asdict(before) | {"gold_in_evidence": whole[0]},
            "after": asdict(after) | {"gold_in_evidence": whole[1]},
            "kept": kept,
        }
        self.stages.say(
            f"  retrieval on {before.n} dev questions: gold in the evidence {whole[0]:.2f} -> {whole[1]:.2f}, "
            f"MRR {before.mrr:.2f} -> {after.mrr:.2f}" + ("" if kept else "; the defaults stay")
        )
        return params if kept else default

    def _evidence_share(self, program: AdaptiveRAG, cases: Sequence[Case], params: Params) -> float:
        """Share of gold in what the program would really read, sentences trimmed as for an answer."""
        before, program.params = program.params, params
        try:
            held = [len(quotes_in_evidence(_evidence(program, case), case.label)) for case in cases]
        finally:
            program.params = before
        shares = [n / len(case.label.quotes) for n, case in zip(held, cases, strict=True)]
        return sum(shares) / max(len(shares), 1)

    def _compile(self, program: AdaptiveRAG, source: Source) -> None:
        predictors = dict(program.named_predictors())
        with session(program.language_model()):
            with self.stages.stage("Making examples", 1):
                made = [*question_tasks(source), *evidence_tasks(source)]
            todo = [task for task in made if task.val and (task.train or task.fixed)]
            done = [self._compile_one(task, predictors[task.name], library_of(program)) for task in todo]
        for result in done:
            predictors[result["name"]].load_state(result["state"])
        left = sorted(set(predictors) - {result["name"] for result in done})
        self.report["predictors"] = [{k: v for k, v in result.items() if k != "state"} for result in done]
        self.report["not_compiled"] = left
        if left:
            self.stages.say(f"  no labels to compile {', '.join(left)} with: they stay as they are")

    def _compile_one(self, task: Task, predictor: dspy.Predict, library: str) -> dict[str, Any]:
        effort, how = self.budget.effort, self.optimizer
        examples = [example.toDict() for example in (*task.train, *task.val, *task.fixed)]
        inputs = [task.name, examples, how, asdict(effort), self.seed, predictor.signature.instructions, library]
        shape = {"fixed": bool(task.fixed), "labelled": task.labelled}
        most = compiling.most_calls(len(task.train), len(task.val), effort, **shape, optimizer=how)
        with self.stages.stage(f"Examples of {task.name}", most) as step:

            def work() -> dict[str, Any]:
                return asdict(compiling.compile_task(task, predictor, effort, optimizer=how, seed=self.seed, step=step))

            result: dict[str, Any] = self.journal.once("compile", inputs, work)
        scores = f"{result['before']:.2f} -> {result['after']:.2f} on {result['n']}"
        self.stages.say(f"  {task.name}: {scores}, {result['demos']} examples")
        return result

    def _bars(self, program: AdaptiveRAG, cases: Sequence[Case]) -> None:
        numbers: dict[str, float] = {}
        with self.stages.stage("Bars", self.budget.router_calls + self.budget.claims) as step:
            scored = [_scored(program, case) for case in cases]
            standing = program.params.accept_bar, program.params.reject_bar
            numbers["accept_bar"], numbers["reject_bar"] = thresholds.grade_bars(scored, *standing)
            if not self.speaks:
                numbers["router_bar"] = 0.0  # there is nobody else to ask
            else:
                with session(program.language_model()):
                    if program.head is not None:
                        numbers["router_bar"] = self._router_bar(program, step)
                    numbers["support_bar"] = self._support_bar(program, cases, step)
        program.params = program.params.model_copy(update=numbers)
        clear = [item.score >= numbers["accept_bar"] for item in scored if item.clear and item.found]
        self.report["bars"] = numbers | {"clear_answerable": len(clear), "clear_answerable_that_pass": sum(clear)}
        self.stages.say("  " + ", ".join(f"{name} {value:.3f}" for name, value in numbers.items()))

    def _odds(self, program: AdaptiveRAG, fit: HeadFit | None) -> Mapping[str, list[tuple[str, float]]]:
        """The head's view of train and dev questions; of training ones, by a head that has not seen them."""
        encoder = program.retriever.encoder
        known = standing_alone([x for x in self.labels.routing if x.part != "test"])
        if program.head is None:
            flat = program.router.by_head(None, "", encoder.encode(["?"])[0])
            return {label.id: flat for label in known}
        return head_odds(program.head, known, encoder) | (fit.odds if fit else {})

    def _router_bar(self, program: AdaptiveRAG, step: Advance) -> float:
        odds = self._odds(program, None)
        dev = {x.id: x for x in standing_alone(self.labels.routing) if x.part == "dev"}
        unsure = sorted(dev, key=lambda id: odds[id][0][1])[: self.budget.router_calls]
        state, said = fingerprint(state_of(program)["router.decide"]), {}
        for id in unsure:

            def work(id: str = id) -> str:
                return str(program.router(dev[id].question, odds[id]).label)

            said[id] = self.journal.once("route", [state, dev[id].question, odds[id]], work)
            step()
        return thresholds.router_bar({id: odds[id] for id in dev}, {id: x.label for id, x in dev.items()}, said)

    def _support_bar(self, program: AdaptiveRAG, cases: Sequence[Case], step: Advance) -> float:
        """From the program's own right sentences, and from the same with a figure or a name changed."""
        right: list[float] = []
        wrong: list[float] = []
        usable = sorted((case for case in cases if case.label.quotes), key=lambda case: case.label.part != "dev")
        others = [case.label.quotes[0].quote for case in usable]
        state = fingerprint(state_of(program)["synthesizer.answer"])
        for case in usable[: self.budget.claims]:
            evidence = _evidence(program, case)
            given = {"passages": render(evidence), "question": case.asked}

            def work(given: dict[str, str] = given) -> str:
                return str(call(program.synthesizer.answer, **given).answer)

            check = Attribution(case.asked, evidence, program.retriever.encoder, 0.0)
            for sentence in split_sentences(self.journal.once("answer", [state, given], work)):
                if answer_is_right(sentence.text, case.label.answers):
                    right.append(check.check(sentence.text).support)
                    wrong += [check.check(text).support for text in thresholds.spoilt(sentence.text, others)]
            step()
        return thresholds.support_bar(right, wrong)

    def _compare(self, program: AdaptiveRAG, name: str) -> Outcome:
        """The compiled program against the one to beat on dev, and against the uncompiled one on test."""
        rivals = Rivals(self.journal, self.stages, self.speaks)
        against = f"the artifact {self.incumbent.name}" if self.incumbent else "the uncompiled program"
        parts = {part: [x for x in self.labels.questions if x.part == part] for part in ("dev", "test")}
        dev = evaluate.sample(parts["dev"], self.budget.dev, self.seed)
        test = evaluate.sample(parts["test"], self.budget.test, self.seed)
        before = dev_score(rivals.ask(self._standing(), dev, f"{against}, dev"))
        after = dev_score(rivals.ask(program, dev, "the compiled program, dev"))
        records = {
            "uncompiled": rivals.ask(self.make(), test, "the uncompiled program, test"),
            "compiled": rivals.ask(program, test, "the compiled program, test"),
        }
        self.report |= {
            "dev": {"against": against, "questions": len(dev), "before": before, "after": after},
            "part": "test",
            "sample": f"all {len(test)}"
            if test == parts["test"]
            else f"{len(test)} of {len(parts['test'])}, stratified",
            **{which: evaluate.summary(found, self.seed) for which, found in records.items()},
            "cost_per_route": {which: evaluate.cost_per_route(found) for which, found in records.items()},
        }
        made_with = self._made_with(program)
        made = Artifact(name, made_with, program.params, program.head, state_of(program), self.report)
        return Outcome(made, against, before, after)

    def _made_with(self, program: AdaptiveRAG) -> CompiledWith:
        installed = {d.metadata["Name"].lower() for d in metadata.distributions()}
        versions = {library: metadata.version(library) for library in LIBRARIES if library in installed}
        return CompiledWith(
            language_model=self.language_model,
            encoder=program.retriever.encoder.fingerprint,
            reranker=program.retriever.ranker,
            versions={"python": platform.python_version(), **versions},
            labels=self.labels.hashes,
            seed=self.seed,
            budget=self.budget.name,
        )


def journal_for(folder: Path, language_model: str, encoder: str, reranker: str, *, fresh: bool) -> Journal:
    """The journal of runs with these models."""
    return Journal(folder / "optimize", [language_model, encoder, reranker, metadata.version("dspy")], fresh=fresh)


def _evidence(program: AdaptiveRAG, case: Case) -> tuple[Evidence, ...]:
    """What the program would read for a case after one retrieval."""
    return evidence_of(program, case.label, case.asked, retrieval_of(case, program.params))


def _scored(program: AdaptiveRAG, case: Case) -> thresholds.Scored:
    held = quotes_in_evidence(_evidence(program, case), case.label)
    score = pool_score(retrieval_of(case, program.params), hops=case.label.strategy == "multi_hop")
    found = case.label.answerable and len(held) == len(case.label.quotes)
    return thresholds.Scored(score, found, case.label.label == "clear")
