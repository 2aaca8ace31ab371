"""A system clock that can be set while programs run.

The programs preload a library that reads the offset from a file.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")


class SetClock:
    """A system clock that can be set. Monotonic clocks and file times are not changed."""

    def __init__(self, folder: Path) -> None:
        """Build the library in a folder that the servers' accounts can read."""
        library, self.file = folder / "set_clock.so", folder / "clock"
        command = ["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
        subprocess.run(command, check=True)
        self.set(0)
        self.file.chmod(0o644)
        self.environment = {"LD_PRELOAD": str(library), "INORDER_TEST_CLOCK": str(self.file)}

    def set(self, seconds: int) -> None:
        """Set the offset of the clock. The offset takes effect at once, because programs have mapped the file."""
        with self.file.open("r+b" if self.file.exists() else "wb", buffering=0) as file:
            file.write(seconds.to_bytes(8, "little", signed=True))

    @contextmanager
    def for_children(self) -> Iterator[None]:
        """Set this clock for all processes that this process starts during the block, and for their children."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            yield


def can_set_clocks() -> bool:
    return shutil.which("cc") is not None


def set_clock(folder: Path) -> SetClock:
    if not can_set_clocks():
        pytest.skip("there is no C compiler")
    return SetClock(folder)
