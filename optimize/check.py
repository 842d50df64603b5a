"""Whether label files are sound: schema, ids, parts, and gold that really stands in its document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from optimize.gold import same_document
from optimize.labels import QUESTIONS, ROUTING, Problem, QuestionLabel, RoutingLabel, scan
from optimize.metrics import words
from program.errors import LabelError, ReadError
from program.ingest.quotes import contains_quote
from program.ingest.readers import read_document
from program.types import ROUTE_LABELS
from program.words import numbers

SHORT_ANSWER = 8  # words up to which an answer's figures must stand in its quotes


def label_files(places: Sequence[Path]) -> list[Path]:
    """The label files among files and folders. Raises LabelError when there is none, or one does not exist."""
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            found += [p for p in sorted(place.iterdir()) if p.suffix.lower() in (".jsonl", ".csv")]
        elif place.is_file():
            found.append(place)
        else:
            raise LabelError(f"There is no file or folder {place}.", "Check the path.")
    if not found:
        raise LabelError(f"There is no JSONL or CSV file in {', '.join(map(str, places))}.")
    return found


def check(files: Sequence[Path], corpus: Path | None) -> tuple[list[Problem], dict[Path, list[RoutingLabel]]]:
    """All problems, and the labels that are sound in themselves, by file. corpus: a folder of documents, or None to
    leave the quotes unchecked."""
    problems: list[Problem] = []
    labels: dict[Path, list[RoutingLabel]] = {}
    documents = _Documents(corpus) if corpus else None
    for path in files:
        rows = _rows(path)
        labels[path] = [item for _, item in rows if not isinstance(item, Problem)]
        problems += [item for _, item in rows if isinstance(item, Problem)]
        problems += _repeated(path, rows)
        for line, label in rows:
            if isinstance(label, QuestionLabel):
                problems += _gold_problems(path, line, label, documents)
    return sorted(problems, key=lambda problem: (str(problem.path), problem.line)), labels


def balance(labels: Sequence[RoutingLabel]) -> list[tuple[str, ...]]:
    """Rows of class, train, dev, test and total; a last row sums up."""
    counts = Counter((label.label, label.part) for label in labels)
    rows = []
    for name in (*ROUTE_LABELS, "in all"):
        parts = [
            sum(n for (label, p), n in counts.items() if p == part and name in (label, "in all"))
            for part in ("train", "dev", "test")
        ]
        rows.append((name, *map(str, parts), str(sum(parts))))
    return rows


def _rows(path: Path) -> list[tuple[int, RoutingLabel | Problem]]:
    """A file with an `answerable` column holds QA labels, any other one routes."""
    kind = (
        QUESTIONS if path.stem == QUESTIONS or "answerable" in path.read_text("utf-8", "replace")[:20_000] else ROUTING
    )
    if path.stem == ROUTING:
        kind = ROUTING
    return list(scan(path, QuestionLabel if kind == QUESTIONS else RoutingLabel))


def _repeated(path: Path, rows: Sequence[tuple[int, RoutingLabel | Problem]]) -> Iterator[Problem]:
    """The same question twice; across parts it would let the test part leak into what is chosen."""
    seen: dict[tuple[str, ...], tuple[int, str]] = {}
    for line, label in rows:
        if isinstance(label, Problem):
            continue
        key = (*words(label.question), *(word for turn in label.history for word in words(turn.question)))
        if key in seen:
            first, part = seen[key]
            where = f"part {part}" if part != label.part else "the same part"
            yield Problem(path, line, f"column question: stands in line {first} too, in {where}.", "Keep one of them.")
        seen.setdefault(key, (line, label.part))


def _gold_problems(path: Path, line: int, label: QuestionLabel, documents: _Documents | None) -> Iterator[Problem]:
    for place, gold in enumerate(label.quotes):
        if documents is None:
            continue
        text = documents.text(gold.document)
        column = f"column quotes.{place}"
        if text is None:
            yield Problem(
                path, line, f"{column}: there is no document {gold.document!r}.", "Name a file of the corpus."
            )
        elif not contains_quote(text, gold.quote):
            shown = gold.quote[:60]
            yield Problem(path, line, f"{column}: {gold.document} does not hold {shown!r}.", "Copy it verbatim.")
    if label.quotes and len(label.answer.split()) <= SHORT_ANSWER:
        stated = numbers(" ".join(gold.quote for gold in label.quotes))
        if missing := sorted(numbers(label.answer) - stated):
            message = f"column answer: {', '.join(missing)} stands in no quote."
            yield Problem(path, line, message, "Correct the figure, or quote the sentence that has it.")


class _Documents:
    """The texts of a folder's documents, each read when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise LabelError(f"There is no folder {folder} with the documents.", "Name it with --corpus.")
        self._files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        self._folder = folder
        self._texts: dict[Path, str | None] = {}

    def text(self, name: str) -> str | None:
        path = next((p for p in self._files if same_document(p.relative_to(self._folder).as_posix(), name)), None)
        if path is None:
            return None
        if path not in self._texts:
            try:
                self._texts[path] = read_document(path.read_bytes(), path.name).text
            except ReadError:
                self._texts[path] = None
        return self._texts[path]
