"""Runs of ``inorder tail`` that write to a file and are killed repeatedly. Each row must be in the file once."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from load.stress.delivery import Event, Reader
from world.world import World

PIECES = ("100", "10000")
LEAST_SECONDS, MOST_SECONDS = 0.5, 3.0
PASSES = 1  # exit code of temporary failures, after which the command can be repeated
ENDING_TRIES = 100


class Tail(Reader):
    def __init__(self, world: World, server: str, table: str) -> None:
        super().__init__(world, f"tail of {table}, {server}")
        self.server, self.table = server, table
        self.delivery.tables = (table,)
        self.folder = Path(tempfile.mkdtemp(prefix="inorder-stress-"))
        self.accept_origin = False

    def make_feeds(self, _: object) -> None:
        """Create no feeds: the tool stores the position in a file."""

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    def process(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "inorder", "tail", self.table, "--position", "position"]
        command += ["--dsn", getattr(self.world, self.server), "--batch-rows", self.rng.choice(PIECES), *options]
        command += ["--accept-origin"] if self.accept_origin else []
        with (self.folder / "rows").open("ab") as rows, (self.folder / "errors").open("ab") as errors:
            return subprocess.Popen(
                command, cwd=self.folder, stdout=rows, stderr=errors, stdin=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},  # has set_clock.so
            )  # fmt: skip

    def work(self) -> None:
        while not self.world.settled.is_set():
            process = self.process("--follow", "--interval", "50ms")
            self.world.settled.wait(self.rng.uniform(LEAST_SECONDS, MOST_SECONDS))
            process.kill()
            self.judge(process.wait())
            self.delivery.polls += 1
        self.drain()
        self.drained.set()
        self.world.released.wait()
        self.drain()

    def judge(self, code: int) -> None:
        """Count the end of a process. Raise an error unless it was killed, ended normally, or failed as documented."""
        if code == -9:
            self.delivery.retries["kill -9"] += 1
        elif code == PASSES:
            self.delivery.retries["exit 1"] += 1
            time.sleep(0.2)
        elif code == 2 and "another server or timeline" in self.errors() and self.world.was_promoted:
            self.refused_here()
        elif code != 0:
            raise AssertionError(f"{self.kind} ended with {code}: {self.errors()}")

    def refused_here(self) -> None:
        """Continue after the promotion. A reader on a server other than the promoted standby begins again."""
        self.delivery.retries["origin"] += 1
        self.accept_origin = True
        if self.server != "standby":
            self.delivery.events.clear()
            for name in ("rows", "position"):
                with suppress(FileNotFoundError):
                    (self.folder / name).rename(self.folder / f"{name}.old")

    def errors(self) -> str:
        lines = (self.folder / "errors").read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-6:])

    def drain(self) -> None:
        for _ in range(ENDING_TRIES):
            code = self.process().wait()
            if code == 0:
                break
            self.judge(code)
        else:
            raise AssertionError(f"{self.kind} does not end: {self.errors()}")
        tokens = [int(json.loads(line)["token"]) for line in (self.folder / "rows").open("rb")]
        self.delivery.events = [Event(self.name, None, self.table, tokens)]
        self.accept_origin = False
