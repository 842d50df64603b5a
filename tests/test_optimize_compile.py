"""Each of DSPy's optimizers really compiles a predictor; a scripted language model does better with examples."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.lm15 import Message, Request, Response, Usage

from optimize.compile import Compiled, Effort, OptimizerName, Student, compile_task, most_calls
from optimize.task import TRIED, TRIED_LEAST, Sizes, Source, Task
from program.errors import LanguageModelError
from program.lm import session
from program.pipeline import AdaptiveRAG
from program.signatures import RewriteQuestion, RouteQuestion
from tests.optimize_library import labels, retriever

EFFORT = Effort(candidates=1, draws=2, trials=3)


class Learner:
    """Rewrites badly until its prompt holds an example, or the word `precisely`; proposes instructions when asked."""

    def __init__(self) -> None:
        self.calls = 0
        self.prompts: list[str] = []

    def complete(self, request: Request) -> Response:
        system = str(request.system)
        user = str(request.messages[-1].text)
        if "new_instruction" in system:
            text = json.dumps({"new_instruction": "Rewrite precisely."})
        elif "[[ ##" in system or "[[ ##" in user or "```" in user:
            fields = re.findall(r"\[\[ ## (\w+) ## \]\]", user + system)
            wanted = dict.fromkeys([*fields, "completed"])
            text = "\n".join(f"[[ ## {name} ## ]]\n```\nRewrite precisely.\n```" for name in wanted)
        else:
            self.calls += 1
            self.prompts.append(system)
            good = len(request.messages) > 1 or "precisely" in system or "frogs" in user
            text = json.dumps({"rewritten": f"precise {user}" if good else "no", "label": "clear" if good else "math"})
        return Response(None, request.model, Message.assistant(text), "stop", Usage(input_tokens=1, output_tokens=1))

    def lm(self) -> dspy.LM:
        return dspy.LM("script/learner", engine=self, cache=False, num_retries=0)


def questions(*words: str) -> list[dspy.Example]:
    return [dspy.Example(id=word, question=f"what about {word}").with_inputs("question") for word in words]


def rewriting(**changes: Any) -> Task:
    def metric(example: dspy.Example, prediction: dspy.Prediction) -> float:
        return float(example.id in prediction.rewritten and "precise" in prediction.rewritten)

    train, val = questions("frogs", "owls"), questions("frogs", "newts", "bats")
    return replace(Task("transforms.vague.rewrite", metric, train, val), **changes)


def compiled(task: Task, optimizer: OptimizerName, engine: Any = None) -> Compiled:
    signature = RouteQuestion if task.labelled else RewriteQuestion
    with session((engine or Learner()).lm()):
        return compile_task(task, dspy.Predict(signature), EFFORT, optimizer=optimizer, seed=0, step=lambda: None)


def test_bootstrapped_examples_are_kept_when_they_help() -> None:
    made = compiled(rewriting(), "bootstrap")
    assert made.before == pytest.approx(1 / 3, abs=0.01)
    assert made.after > made.before
    assert made.demos >= 1
    assert made.demo_tokens > 0
    (demo, *_) = made.state["demos"]
    assert demo == {"question": "what about frogs", "rewritten": "precise question: what about frogs"}
    assert made.state["lm"] is None


def test_a_tie_goes_to_the_shorter_prompt() -> None:
    def metric(_: dspy.Example, __: dspy.Prediction) -> float:
        return 1.0

    made = compiled(rewriting(metric=metric), "bootstrap")
    assert (made.before, made.after, made.demos) == (1.0, 1.0, 0)


def test_a_fixed_example_is_part_of_what_is_kept() -> None:
    fixed = [dspy.Example(question="what about moths", rewritten="precise moths", gold=True)]
    made = compiled(rewriting(train=[], fixed=fixed), "bootstrap")
    assert made.state["demos"] == [{"question": "what about moths", "rewritten": "precise moths"}]
    assert made.after == 1.0


def test_the_router_learns_from_labelled_examples() -> None:
    def metric(example: dspy.Example, prediction: dspy.Prediction) -> float:
        return float(example.label == prediction.label)

    def labelled(question: str, label: str) -> dspy.Example:
        return dspy.Example(question=question, hint="none", label=label).with_inputs("question", "hint")

    train = [labelled("how many", "clear"), labelled("hello", "no_retrieval"), labelled("2+2", "math")]
    task = Task("router.decide", metric, train, [labelled("which one", "clear")], labelled=True)
    made = compiled(task, "bootstrap")
    assert (made.before, made.after) == (0.0, 1.0)
    assert sorted(demo["label"] for demo in made.state["demos"]) == ["clear", "math", "no_retrieval"]


def test_an_example_does_not_answer_itself() -> None:
    engine = Learner()
    student = Student(dspy.Predict(RewriteQuestion))
    student.predict.demos = [dspy.Example(question="what about bats", rewritten="precise bats")]
    with session(engine.lm()):
        assert student(question="what about bats").rewritten == "no"
        assert student(question="what about owls").rewritten != "no"


@pytest.mark.filterwarnings("default")  # the optimizers' own, none of them ours
@pytest.mark.parametrize("optimizer", ["miprov2", "gepa"])
def test_instructions_are_compiled_too(optimizer: OptimizerName) -> None:
    engine = Learner()
    made = compiled(rewriting(train=questions("owls", "newts")), optimizer, engine)
    assert made.after > made.before
    assert "precisely" in made.state["signature"]["instructions"]
    assert made.state["lm"] is None


def test_calls_stay_under_what_the_plan_says() -> None:
    engine, task = Learner(), rewriting()
    compiled(task, "bootstrap", engine)
    most = most_calls(len(task.train), len(task.val), EFFORT, fixed=False, labelled=False, optimizer="bootstrap")
    assert 0 < engine.calls <= most


def test_a_language_model_that_is_down_stops_compiling() -> None:
    class Down(Learner):
        def complete(self, request: Request) -> Response:
            raise dspy.LMTransportError("refused", model="x")

    with pytest.raises(LanguageModelError):
        compiled(rewriting(), "bootstrap", Down())


def test_a_task_looks_at_a_stratified_share_of_many_labels_and_never_at_the_test_part(tmp_path: Path) -> None:
    few = labels(tmp_path)
    many = [
        label.model_copy(update={"id": f"{label.id}-{copy}"}) for label in few.questions for copy in range(TRIED_LEAST)
    ]
    program = AdaptiveRAG(retriever(tmp_path / "index"))
    source = Source(program, few, {}, {}, Sizes(train=1, val=TRIED_LEAST, router_val=1))
    chosen = source.some(many)
    parts = [label.part for label in chosen]
    assert parts.count("train") == TRIED_LEAST
    assert parts.count("dev") == min(TRIED * TRIED_LEAST, sum(label.part == "dev" for label in many))
    assert parts.count("test") == 0
    assert {label.label for label in chosen if label.part == "train"} == {x.label for x in many if x.part == "train"}
    assert source.some(many) == chosen
