"""The repository is a Hugging Face Space as it stands: its app file and its requirements fit the project."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

from ui import chat

ROOT = Path(__file__).resolve().parent.parent


def pins(name: str) -> dict[str, str]:
    """Versions by package; of several for several Pythons the oldest Python's, which the Space runs."""
    found = re.findall(r"^([\w.-]+)==([^ ;\n]+)", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    return {package.lower().replace("_", "-"): version for package, version in reversed(found)}


def test_the_space_installs_every_dependency_at_the_pinned_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.split(r"[^\w.-]", dependency)[0].lower() for dependency in project["dependencies"]}
    pinned = pins("constraints.txt")
    assert pins("requirements.txt") == {name: pinned[name] for name in names}


def test_the_app_file_starts_the_same_chat() -> None:
    assert runpy.run_path(str(ROOT / "app.py"))["run"] is chat.run
