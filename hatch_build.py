"""Build hook: puts the demo library, the labels and the compiled program into the wheel, under `program/bundled`.

A hook rather than a plain `force-include`, because an editable install reads those folders where they are, and because
a checkout whose program has not been compiled yet must still build.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHIPPED = ("artifacts/default", "data")


class BundleShippedFolders(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        for folder in SHIPPED:
            if (Path(self.root) / folder).is_dir():
                build_data["force_include"][folder] = f"program/bundled/{folder}"
