"""Which embedded model should be the default: speed, memory, and a small check of quality, for both in one run.

    python bench/language_models.py

Each model runs in a process of its own with the program's own prompts. Under four minutes on two idle cores. The
quality check is small (10 routing questions with one example a class, 10 questions on short passages, of which two
cannot be answered from them): it tells a model that copes from one that does not, no more.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dspy
import psutil
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from program import lm as language_model
from program.errors import ProgramError
from program.settings import Settings
from program.signatures import CANNOT_ANSWER, AnswerFromEvidence, RouteQuestion
from program.weights import find_model

HINT = ""  # no head: the language model alone

ROUTE_EXAMPLES = [
    ("How many layers does the base Transformer's encoder have?", "clear"),
    ("that trick where nets forget some neurons, what's it do", "vague"),
    ("What is BLEU, and who introduced residual connections?", "compound"),
    ("Give me an overview of generative models.", "broad"),
    ("What does the beta in the VAE objective trade off?", "needs_context"),
    ("Which optimizer was used by the paper that introduced BERT's pre-training data?", "multi_hop"),
    ("hello!", "no_retrieval"),
    ("What did the newest model released this week score?", "web"),
    ("How many papers in the table are from 2017?", "sql"),
    ("What is 12% of 350?", "math"),
]

ROUTE_QUESTIONS = [
    ("What dropout rate did the base Transformer use?", "clear"),
    ("the thing where pictures get cut in squares for the transformer, how", "vague"),
    ("How does dropout work, and what is layer normalization?", "compound"),
    ("What are the main approaches to word embeddings?", "broad"),
    ("What does epsilon do in the Adam update?", "needs_context"),
    ("Who supervised the first author of the paper that introduced GANs?", "multi_hop"),
    ("thanks, that helped", "no_retrieval"),
    ("What is today's top story about AI?", "web"),
    ("What is the average number of parameters over all rows?", "sql"),
    ("Compute (17 + 5) * 3", "math"),
]

ANSWER_EXAMPLES = [
    (
        "[1] Lisbon: Lisbon is the capital of Portugal.\n[2] Porto: Porto is known for its wine.",
        "What is Porto known for?",
        "Porto is known for its wine [2].",
    ),
    ("[1] Rome: Rome lies on the Tiber.", "How many people live in Rome?", CANNOT_ANSWER),
]

#: passages, question, a word the right answer holds, the passage it must cite (0: cannot be answered)
ANSWER_QUESTIONS: list[tuple[list[str], str, str, int]] = [
    (
        ["Ships: The Vasa sank in 1628 after sailing about 1,300 metres.", "Ships: The Mary Rose was raised in 1982."],
        "When did the Vasa sink?",
        "1628",
        1,
    ),
    (
        ["Bridges: The Forth Bridge opened in 1890.", "Bridges: The Humber Bridge has a main span of 1,410 metres."],
        "How long is the main span of the Humber Bridge?",
        "1,410",
        2,
    ),
    (
        ["Planets: Mercury has no moons.", "Planets: Mars has two moons, Phobos and Deimos."],
        "What are the moons of Mars called?",
        "Deimos",
        2,
    ),
    (
        ["Optics: Snell's law relates the angles of incidence and refraction.", "Optics: A prism splits white light."],
        "What does Snell's law relate?",
        "refraction",
        1,
    ),
    (
        [
            "Bread: Rye dough is sour.",
            "Bread: A baguette is proofed for an hour.",
            "Bread: Pita is baked at 250 degrees.",
        ],
        "At what temperature is pita baked?",
        "250",
        3,
    ),
    (
        ["Chess: A bishop moves diagonally.", "Chess: Castling moves the king two squares."],
        "How far does the king move in castling?",
        "two",
        2,
    ),
    (
        [
            "Trees: The oldest bristlecone pines are over 4,800 years old.",
            "Trees: Baobabs store water in their trunks.",
        ],
        "Where do baobabs store water?",
        "trunk",
        2,
    ),
    (
        ["Metals: Gallium melts at 29.8 degrees Celsius.", "Metals: Tungsten melts at 3,422 degrees Celsius."],
        "Which metal melts at 29.8 degrees Celsius?",
        "Gallium",
        1,
    ),
    (
        ["Rivers: The Elbe flows through Dresden.", "Rivers: The Rhine is 1,230 km long."],
        "Who discovered radium?",
        "",
        0,
    ),
    (["Music: A fugue has a subject.", "Music: A sonata has several movements."], "How tall is Mont Blanc?", "", 0),
]


def measure(name: str) -> dict[str, Any]:
    """All figures of one model. Raises ProgramError."""
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        # The weights come from where they are; only the kept prompt states start from nothing.
        weights = find_model(name, Settings())
        settings = Settings(lm=f"embedded/{name}", weights=weights.parent, cache=Path(folder))
        before, clock = process.memory_info().rss, time.perf_counter()
        lm = language_model.connect(settings)
        figures: dict[str, Any] = {"start, s": time.perf_counter() - clock}

        server = language_model.embedded(lm)
        assert server is not None
        filler = " ".join(f"word{n}" for n in range(300))
        timings = server.post("/completion", {"prompt": filler, "n_predict": 48, "temperature": 0})["timings"]
        figures |= {
            "reads, tokens/s": timings["prompt_per_second"],
            "writes, tokens/s": timings["predicted_per_second"],
        }

        route, answer = dspy.Predict(RouteQuestion), dspy.Predict(AnswerFromEvidence)
        route.demos = [dspy.Example(question=q, hint=HINT, label=label) for q, label in ROUTE_EXAMPLES]
        answer.demos = [dspy.Example(passages=p, question=q, answer=a) for p, q, a in ANSWER_EXAMPLES]
        for when in ("warm-up, s", "warm-up from disk, s"):
            clock = time.perf_counter()
            language_model.warm_up(lm, [("route", route), ("answer", answer)])
            figures[when] = time.perf_counter() - clock
        figures |= _quality(lm, route, answer)
        figures["memory, MB"] = (process.memory_info().rss - before) / 1e6
    return figures


def _quality(lm: dspy.LM, route: dspy.Predict, answer: dspy.Predict) -> dict[str, Any]:
    right = facts = cited = 0
    with language_model.session(lm) as meter:
        clock = time.perf_counter()
        for question, label in ROUTE_QUESTIONS:
            right += language_model.call(route, question=question, hint=HINT).label == label
        route_seconds, route_usage = time.perf_counter() - clock, meter.usage
        first: list[float] = []
        clock = time.perf_counter()
        for passages, question, fact, number in ANSWER_QUESTIONS:
            numbered = "\n".join(f"[{n}] {passage}" for n, passage in enumerate(passages, start=1))
            asked, text = time.perf_counter(), ""
            for piece in language_model.stream_text(answer, passages=numbered, question=question):
                if not text:
                    first.append(time.perf_counter() - asked)
                text += piece
            refused = CANNOT_ANSWER in text
            facts += refused if number == 0 else fact in text
            cited += refused if number == 0 else f"[{number}]" in text
        answer_usage = meter.usage - route_usage
    return {
        "routes right, of 10": right,
        "facts right, of 10": facts,
        "citations right, of 10": cited,
        "a route, s": route_seconds / 10,
        "an answer's first token, s": sum(first) / len(first),
        "a whole answer, s": (time.perf_counter() - clock) / 10,
        "cached share of a route's prompt": route_usage.cached_tokens / route_usage.prompt_tokens,
        "cached share of an answer's prompt": answer_usage.cached_tokens / answer_usage.prompt_tokens,
    }


def main() -> int:
    if len(sys.argv) > 1:
        try:
            print(json.dumps(measure(sys.argv[1])))
        except ProgramError as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    results: dict[str, dict[str, Any]] = {}
    for name in ("0.5b", "1.5b"):
        print(f"Measuring {name} ...", file=sys.stderr)
        finished = subprocess.run([sys.executable, __file__, name], stdout=subprocess.PIPE, text=True, check=False)
        if finished.returncode:
            return finished.returncode
        results[name] = json.loads(finished.stdout)
    table = Table("", *results, title="Embedded language models")
    for figure in next(iter(results.values())):
        table.add_row(figure, *(f"{result[figure]:.3g}" for result in results.values()))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
