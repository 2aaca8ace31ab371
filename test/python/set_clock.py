"""A clock of the system that can be set while programs run: libfaketime, and a file that says how far it is off."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PLACES = ("/usr/lib", "/usr/lib64", "/usr/local/lib")


class SetClock:
    """Monotonic clocks and the times of files stay as they are."""

    def __init__(self, library: Path, file: Path) -> None:
        self.file = file
        self.set("+0")
        file.chmod(0o644)
        self.environment = {
            "LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1", "FAKETIME_DONT_RESET": "1",
        }  # fmt: skip

    def set(self, offset: str) -> None:
        """By a new file in the place of the old one: who reads it meanwhile reads one of both."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{offset}\n")
        new.chmod(0o644)
        new.replace(self.file)

    @contextmanager
    def for_children(self) -> Iterator[None]:
        """Processes that are started have this clock, and so have theirs."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            yield


def libraries() -> list[Path]:
    return [path for place in PLACES if os.path.isdir(place) for path in Path(place).rglob("libfaketime.so.1")]


def set_clock(folder: Path) -> SetClock:
    if not (found := libraries()):
        pytest.skip("this system has no libfaketime")
    return SetClock(found[0], folder / "clock")
