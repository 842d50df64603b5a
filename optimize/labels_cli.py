"""`python -m optimize labels`: check label files, and give questions their parts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optimize.shell import FAILED, JsonOption, LabelsOption, failures, labels_folder, print_json, say
from program.errors import LabelError, WeightsError

if TYPE_CHECKING:
    from optimize.gold import Documents
    from program.retrieval.encoders import Encoder

labels_app = typer.Typer(help="Check label files, and split them.", no_args_is_help=True, rich_markup_mode=None)

PlacesArgument = Annotated[list[Path] | None, typer.Argument(metavar="[DIR|FILES]", help="Else data/labeled.")]
CorpusOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The documents that quotes must stand in; else data/corpus.")
]


@labels_app.command("check")
def check_labels(
    places: PlacesArgument = None,
    corpus: CorpusOption = None,
    nearest: Annotated[
        int, typer.Option(min=0, help="Also list so many pairs of different parts that are most alike, to be read.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Check label files: columns, ids, quotes, figures, and that no part knows another one's questions.

    Every problem is one line: file, line, column, what is wrong, how to mend it. Exit code 1 when there is any.
    Two questions ask the same when the encoder finds them alike (cosine 0.8 with MiniLM) and neither or only one of
    them names something that the other does not.

    \b
    Examples:
      python -m optimize labels check
      python -m optimize labels check my/qa.csv --corpus my/documents
      python -m optimize labels check --nearest 40
    """
    with failures():
        from optimize import check, leakage
        from program import terminal

        files = check.label_files(places or [labels_folder(None)])
        documents, encoder = _documents(corpus), _encoder()
        sound, found = check.check(files, documents, encoder)
        problems = sorted({p for item in found for p in item.problems}, key=lambda p: (str(p.path), p.line))
        labels = {path: [row.label for row in sound if row.path == path] for path in files}
        advice = {path: check.thin(chosen) for path, chosen in labels.items()}
        pairs = leakage.nearest(sound, encoder, nearest) if encoder else []
        if as_json:
            print_json(
                {
                    "problems": [asdict(problem) | {"path": str(problem.path)} for problem in problems],
                    "checks": {item.check: {"tried": item.tried, "problems": len(item.problems)} for item in found},
                    "counts": {str(path): len(chosen) for path, chosen in labels.items()},
                    "advice": {str(path): lines for path, lines in advice.items()},
                    "nearest": [
                        {"likeness": tie.likeness, "ids": [sound[place].label.id for place in (tie.first, tie.second)]}
                        for tie in pairs
                    ],
                }
            )
        else:
            for path, chosen in labels.items():
                print(f"{terminal.plain(path)}: {len(chosen)} labels")
                terminal.print_table(("class", "train", "dev", "test", "in all"), check.balance(chosen))
                for line in advice[path]:
                    print(line)
            rows = [(item.check, str(item.tried), str(len(item.problems)), item.note) for item in found]
            terminal.print_table(("check", "tried", "problems", ""), rows)
            if pairs:
                both = [(tie.likeness or 0.0, sound[tie.first], sound[tie.second]) for tie in pairs]
                cells = [(f"{near:.2f}", *(f"{row.label.id} {row.asked}" for row in two)) for near, *two in both]
                terminal.print_table(("alike", "question", "question in another part"), cells)
            for problem in problems:
                print(terminal.plain(problem))
        say(f"{_counted(len(problems), 'problem')} in {_counted(len(files), 'file')}.")
        if problems:
            raise typer.Exit(FAILED)


@labels_app.command("split")
def split_labels(
    places: PlacesArgument = None,
    corpus: CorpusOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw.")] = 0,
) -> None:
    """Give every question that has no part one: train 50%, dev 20%, test 30% of every class.

    Questions that ask the same in other words, or whose gold is the same passage, come into one part, also across
    files. Parts that are there stay, and the files stay as they are apart from that column.

    \b
    Example:
      python -m optimize labels split my/labels --corpus my/documents
    """
    with failures():
        from optimize import check, split
        from optimize.leakage import same_gold, same_meaning, same_words
        from program import terminal

        files = check.label_files(places or [labels_folder(None)])
        rows, problems = check.read(files, part="train")
        if problems:
            raise LabelError(
                str(problems[0]), f"{_counted(len(problems), 'problem')} in all: run `python -m optimize labels check`."
            )
        standing = [part for path in files for part in split.standing_parts(path)]
        encoder = _encoder()
        ties = [*same_words(rows), *same_gold(rows, _documents(corpus))]
        ties += same_meaning(rows, encoder) if encoder else []
        parts = split.assign(rows, standing, ties, seed)
        for path in files:
            split.write_parts(path, [part for row, part in zip(rows, parts, strict=True) if row.path == path])
            chosen = [row.label for row in check.read([path])[0]]
            print(f"{terminal.plain(path)}: {len(chosen)} labels")
            terminal.print_table(("class", "train", "dev", "test", "in all"), check.balance(chosen))
        say(f"{_counted(standing.count(None), 'question')} got a part.")


@labels_app.command("agreement")
def show_agreement(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILES]", help="Else data/labeled/second_pass.")
    ] = None,
    labels: LabelsOption = None,
) -> None:
    """Compare a second labelling pass with the labels: share agreed, Cohen's kappa, and every disagreement.

    A second pass is JSONL or CSV with the columns id and label (one of the ten classes). Columns first and question may
    keep what the first pass said, for when it has changed since.

    \b
    Example:
      python -m optimize labels agreement my/second.csv --labels my/labels
    """
    with failures():
        from optimize import agreement, check
        from program import terminal

        folder = labels_folder(labels)
        read, _ = check.read(check.label_files([folder]))
        first = {row.label.id: (row.label.label, row.label.question) for row in read}
        for path in check.label_files(files or [folder / "second_pass"]):
            pairs = agreement.read_pairs(path, first)
            agreed, kappa = agreement.agreement(pairs), agreement.kappa(pairs)
            print(f"{terminal.plain(path)}: {len(pairs)} questions, agreed {agreed:.3f}, Cohen's kappa {kappa:.3f}")
            apart = [(pair.id, pair.first, pair.second, pair.question) for pair in pairs if pair.first != pair.second]
            if apart:
                terminal.print_table(("id", "first", "second", "question"), apart)


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _documents(corpus: Path | None) -> Documents:
    from optimize.gold import Documents
    from program.settings import shipped

    return Documents(corpus or shipped("data/corpus"))


def _encoder() -> Encoder | None:
    from program.retrieval.encoders import load_encoder
    from program.settings import settings_from

    try:
        return load_encoder(settings_from(None))
    except WeightsError as error:
        say(f"{error} Paraphrases are not looked for.")
        return None
