"""Files that hatchling adds to the wheel: sources of the extension, which ``inorder extension build`` compiles."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = ("Makefile", "inorder.control", "src/**/*.[ch]", "sql/**/*.sql")


class Hook(BuildHookInterface):
    """Called before a build. An editable installation uses the sources next to it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files to add, and their places in the wheel."""
        if version == "standard":
            root = Path(self.root)
            found = (path.relative_to(root) for pattern in SOURCES for path in sorted(root.glob(pattern)))
            build_data["force_include"] |= {str(root / path): f"inorder/extension/source/{path}" for path in found}
