"""Which files there are to read, and by what names the index knows them."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Control characters, and marks that reorder text.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


@dataclass(frozen=True, slots=True)
class Found:
    """A file to read. `name` is distinct in one call; `real` is its path without links; `problem` says why it cannot be
    read, if so."""

    path: Path
    name: str
    real: Path
    problem: str = ""


def find_files(paths: Sequence[Path], names: Mapping[Path, str] | None = None) -> list[Found]:
    """Files given, all in folders given, and all that patterns given match (`**` is any folders); sorted; each once.
    Hidden ones in folders and of patterns are skipped.

    A name is the path inside the given folder, or the name of a file given itself or matched by a pattern. Where
    another file has that name, one found earlier or one in `names` (real path to name), it gets enough of its folders
    before it. A file in `names` keeps its name. Links in a folder are followed to files inside that folder only.
    """
    names = names or {}
    found: list[Found] = []
    taken: set[str] = set(names.values())
    seen: set[Path] = set()
    for given in paths:
        for path, relative, problem in _expand(Path(given)):
            real = Path(os.path.realpath(path))
            if real in seen:
                continue
            seen.add(real)
            name = names.get(real) or _distinct(relative, real, taken)
            taken.add(name)
            found.append(Found(path, name, real, problem))
    return found


def _expand(given: Path) -> Iterator[tuple[Path, str, str]]:
    """(path, name, problem) of every file that a path or a pattern stands for."""
    if os.path.lexists(given) or not glob.has_magic(str(given)):
        yield from _walk(given)
        return
    matches = sorted(glob.glob(str(given), recursive=True))  # noqa: PTH207 (pathlib's own matches hidden files)
    if not matches:
        yield given, str(given), "No file matches this pattern."
    for match in matches:
        # `**` matches folders beside the files in them.
        if "**" not in given.parts or not Path(match).is_dir():
            yield from _walk(Path(match))


def _walk(given: Path) -> Iterator[tuple[Path, str, str]]:
    """(path, name, problem) of every file at or under a path."""
    if not given.is_dir():
        problem = (
            "" if given.is_file() else "There is no file here." if not given.exists() else "This is no plain file."
        )
        yield given, given.name or str(given), problem
        return
    root = Path(os.path.realpath(given))
    unreadable: list[OSError] = []
    for folder, folders, names in os.walk(root, onerror=unreadable.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if not Path(os.path.realpath(path)).is_relative_to(root):
                yield path, relative, "This is a link out of the folder."
            elif path.is_file():
                yield path, relative, ""
    for error in unreadable:
        path = Path(error.filename)
        yield path, path.relative_to(root).as_posix(), f"The folder cannot be read ({error.strerror})."


def _distinct(relative: str, real: Path, taken: set[str]) -> str:
    name = _printable(relative)
    depth = len(Path(relative).parts)
    while name in taken and depth < len(real.parts):
        depth += 1
        name = _printable("/".join(real.parts[-depth:]).lstrip("/"))
    while name in taken:  # names that differ only in bytes that are no text
        name += "'"
    return name


def _printable(name: str) -> str:
    """A name as people see it, and can type it where they want the document forgotten."""
    return _UNSEEN.sub(" ", os.fsencode(name).decode("utf-8", errors="replace"))
