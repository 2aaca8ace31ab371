"""Files that hatchling adds to the wheel: sources of the extension, and the finished files of the SQL edition.

``inorder extension build`` compiles the sources, and ``inorder install`` reads the others.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = ("Makefile", "inorder.control", "src/**/*.[ch]", "sql/**/*.sql")


class Hook(BuildHookInterface):
    """Runs before and after a build. An editable installation uses the sources next to it, and generates the files."""

    made: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generate the files, and list every file that is added, with its place in the wheel."""
        if version != "standard":
            return
        root, self.made = Path(self.root), TemporaryDirectory()
        subprocess.run([sys.executable, root / "script" / "sql-edition", "--files", self.made.name], check=True)
        found = (path.relative_to(root) for pattern in SOURCES for path in sorted(root.glob(pattern)))
        build_data["force_include"] |= {str(root / path): f"inorder/extension/source/{path}" for path in found}
        finished = sorted(Path(self.made.name).iterdir())
        build_data["force_include"] |= {str(path): f"inorder/install/sql/{path.name}" for path in finished}

    def finalize(self, *_: object) -> None:
        """Remove the generated files."""
        if self.made is not None:
            self.made.cleanup()
