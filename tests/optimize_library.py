"""A library of a dozen one-fact documents with labels for it, and a language model that plays along."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from optimize.compile import Effort
from optimize.journal import Journal
from optimize.labels import Labels, read_labels
from optimize.plan import Budget
from optimize.progress import Stages
from optimize.run import Run
from optimize.task import Sizes
from program.pipeline import AdaptiveRAG
from program.retrieval.embedded import EmbeddedIndex
from program.retrieval.encoders import encode_passages
from program.retrieval.index import Document
from program.retrieval.retriever import Retriever
from program.types import Chunk
from tests.fakes import HashEncoder
from tests.scripted import Script

#: animal: (legs, food). Every document has one fact to ask and one that is never asked.
FACTS = {
    "badger": (41, "worms"), "heron": (22, "frogs"), "otter": (43, "trout"), "lynx": (44, "hares"),
    "beetle": (65, "leaves"), "crane": (26, "grain"), "marten": (47, "berries"), "spider": (88, "flies"),
    "vole": (49, "roots"), "stork": (20, "newts"), "weasel": (51, "mice"), "mantis": (62, "moths"),
}  # fmt: skip
BUDGET = Budget("tiny", 5, 3, Sizes(2, 3, 4), Effort(1, 1, 2), 2, 2, 2, 2, 20)


def sentence(animal: str) -> str:
    return f"The {animal} was counted with {FACTS[animal][0]} toes."


def labels(folder: Path) -> Labels:
    """QA: one clear question an animal, one of each other kind, some unanswerable; routing: three classes."""
    folder.mkdir(exist_ok=True)
    parts = ("train", "train", "dev", "test")
    qa: list[dict[str, Any]] = []
    for i, animal in enumerate(FACTS):
        kind = {1: "vague", 5: "compound", 9: "needs_context"}.get(i, "clear")
        hops = "multi_hop" if i in (4, 6) else "single"
        gold = [{"document": f"{animal}.md", "quote": sentence(animal)}]
        if hops == "multi_hop":
            gold.append({"document": "vole.md", "quote": sentence("vole")})
        qa.append(
            {
                "id": f"q{i}",
                "question": f"How many toes was the {animal} counted with?",
                "strategy": hops,
                "transform": "clear" if hops == "multi_hop" else kind,
                "answerable": True,
                "part": parts[i % 4],
                "answer": str(FACTS[animal][0]),
                "quotes": gold,
            }
        )
    for i, part in enumerate(("train", "dev", "test")):
        question = f"Which emperor owned the {list(FACTS)[i]}?"
        qa.append({"id": f"n{i}", "question": question, "strategy": "single", "answerable": False, "part": part})
    qa.append(
        qa[0]
        | {"id": "f0", "question": "And its toes?", "history": [{"question": "What is a badger?", "answer": "A."}]}
    )
    routing = [
        {
            "id": f"{label}{i}",
            "question": text.format(animal),
            "strategy": strategy,
            "transform": transform,
            "part": part,
        }
        for label, text, strategy, transform in (
            ("c", "How many toes was the {} counted with?", "single", "clear"),
            ("v", "so what about that {} thing", "single", "vague"),
            ("n", "hello my friend {}", "no_retrieval", "clear"),
        )
        for i, (animal, part) in enumerate(zip(FACTS, parts * 3, strict=False))
    ]
    for name, rows in (("qa", qa), ("routing", routing)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return read_labels(folder)


def retriever(folder: Path) -> Retriever:
    encoder = HashEncoder()
    index = EmbeddedIndex.open(folder, encoder.fingerprint, encoder.dimensions, create=True)
    for animal, (_, food) in FACTS.items():
        text = f"{sentence(animal)} It lives on {food} and sleeps all day."
        vectors, tokens = encode_passages(encoder, [f"{animal}\n{text}"])
        chunk = Chunk(f"id-{animal}", f"{animal}.md", animal, text, end=len(text))
        index.replace(Document(f"{animal}.md", animal, "0"), [chunk], vectors, tokens)
    return Retriever(index, encoder)


def script() -> Script:
    """Answers from the first passage that names the animal asked for; refuses about emperors."""

    def answer(user: str) -> str:
        question = user.rsplit("question: ", 1)[1]
        animal = next((name for name in FACTS if name in question), None)
        if "emperor" in question or animal is None:
            return "CANNOT ANSWER"
        return f"{sentence(animal)[:-1]} [1]."

    def question_of(user: str) -> str:
        return user.rsplit("question: ", 1)[1].splitlines()[0]

    return Script(
        RouteQuestion=lambda user: {"label": "no_retrieval" if "hello" in user else "clear"},
        RewriteQuestion=lambda user: {"rewritten": question_of(user)},
        DecomposeQuestion=lambda user: {"sub_questions": [question_of(user)]},
        VaryQuestion=lambda user: {"variants": [question_of(user)]},
        StepBackQuestion=lambda user: {"general_question": "What is a toe?"},
        MakeStandalone={"question": "How many toes was the badger counted with?"},
        GradeEvidence=lambda user: {
            "sufficient": "emperor" not in user,
            "missing": "emperor" if "emperor" in user else "",
        },
        NextHop={"complete": True, "next_question": ""},
        AnswerFromEvidence=answer,
        ReplyWithoutEvidence="Hello! Ask me about the library.",
    )


def run(folder: Path, lm: Script | None, **changes: Any) -> Run:
    found = retriever(folder / "index")
    settings: dict[str, Any] = {
        "make": lambda: AdaptiveRAG(found, lm=lm.lm if lm else None),
        "labels": labels(folder / "labels"),
        "budget": BUDGET,
        "journal": Journal(folder / "journal", "test"),
        "stages": Stages(),
        "only": ("head", "tune", "compile", "thresholds"),
        "language_model": "script/test" if lm else "none",
    }
    return Run(**{**settings, **changes})
