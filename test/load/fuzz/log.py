"""Findings in the server log: crashes, leaks, and roles that ran mallory's functions."""

import re
from dataclasses import dataclass
from pathlib import Path

from load.fuzz.evil import MARK

PREFIX = "\x01%p|%u|"
LINE = re.compile("\x01(\\d*)\\|([^|\x01]*)\\|(\\w+):  ([^\x01]*)")
RAN = re.compile(rf"{MARK} (.*?) for (.*?): (.*)", re.S)
LEAK = re.compile(
    r"leak|left non-empty|was not closed|not owned by|you don't own a lock|problem in alloc|detected write "
    r"past|still referenced",
    re.I,
)
# A parallel worker that exits with code 1 did not crash: its leader was canceled.
CRASH = re.compile(r"terminated by (?:signal|exception)|server process .* exited|all server processes terminated")


@dataclass(frozen=True)
class Run:
    pid: int
    role: str
    session: str
    function: str


class Log:
    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, 0
        self.rest = ""

    def read(self) -> tuple[list[Run], list[str]]:
        """Return other roles' runs of mallory's functions since the last call, and messages about crashes and leaks."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read()
        self.offset += len(data)
        text = self.rest + data.decode(errors="replace")
        # The last line may be incomplete.
        text, self.rest = text[: text.rfind("\n") + 1], text[text.rfind("\n") + 1 :]
        return self.parse(text)

    def parse(self, text: str) -> tuple[list[Run], list[str]]:
        runs, complaints = [], []
        for pid, user, severity, message in LINE.findall(text):
            if match := RAN.match(message):
                runs.append(Run(int(pid), match[1], match[2], match[3].strip()))
            elif severity == "PANIC" or (severity == "LOG" and not user and CRASH.search(message)):
                complaints.append(f"{severity}: {message.strip()}")
            elif severity == "WARNING" and LEAK.search(message):
                complaints.append(f"{severity} in {pid}: {message.strip()}")
            elif severity == "LOG" and message.startswith("fuzz: internal error"):
                complaints.append(f"internal error that was caught in {pid}: {message.strip()}")
        complaints += re.findall(r"^TRAP: .*", text, re.M)
        return runs, complaints
