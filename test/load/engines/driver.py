"""A Spark driver and its executors, which the load test kills."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet

from load.engines.stream import Stream

PATIENCE = 600  # maximum seconds for a batch, including the startup of Spark on a busy machine
# Spark waits 10 s for a Python worker to connect. This timeout is not configurable, and too short on a busy machine.
TOO_SLOW = b"Python worker failed to connect back"
EXECUTOR = b"CoarseGrainedExecutorBackend"


class Driver:
    def __init__(self, folder: Path, stream: Stream, *options: str) -> None:
        self.folder, self.log = folder, folder / "spark.log"
        self.command = [sys.executable, "-m", "load.engines.stream", str(folder), json.dumps(asdict(stream)), *options]
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start Spark with all its files in the folder, so that it leaves no files elsewhere when it is killed."""
        places = {"SPARK_LOCAL_DIRS": "local", "SPARK_WORKER_DIR": "work", "TMPDIR": ""}
        environment = os.environ | {name: str(self.folder / place) for name, place in places.items()}
        environment["PYTHONPATH"] = str(Path(__file__).parents[2])
        environment["JAVA_TOOL_OPTIONS"] = f"-Djava.io.tmpdir={self.folder}"
        with self.log.open("ab") as log:
            self.said = log.tell()
            return subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment
            )

    def again(self) -> bool:
        """Restart Spark if it gave up because Python was too slow. Return True if Spark was restarted."""
        if TOO_SLOW not in self.log.read_bytes()[self.said :]:
            return False
        print("Python did not start in 10 s, and Spark gave up: starting Spark again", file=sys.stderr)
        self.process = self.start()
        return True

    def kill(self) -> None:
        with suppress(ProcessLookupError):  # the process has ended, with all its children
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_executor(self, rng: random.Random) -> bool:
        executors = [pid for pid in processes_of(self.process.pid) if EXECUTOR in command_of(pid)]
        if executors:
            os.kill(rng.choice(executors), signal.SIGKILL)
        return bool(executors)


def processes_of(group: int) -> list[int]:
    processes = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(path.name)) == group:
                processes.append(int(path.name))
        except ProcessLookupError:
            continue
    return processes


def command_of(pid: int) -> bytes:
    """Return the command line of a process, or an empty string if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def batches(folder: Path) -> int:
    names = [path.name for path in (folder / "checkpoint" / "commits").glob("[0-9]*")]
    return max((int(name) + 1 for name in names if name.isdecimal()), default=0)


def await_batch(folder: Path, after: int, driver: Driver) -> None:
    deadline = time.monotonic() + PATIENCE
    while batches(folder) <= after:
        has_ended = driver.process.poll() is not None
        if (has_ended and not driver.again()) or time.monotonic() > deadline:
            raise RuntimeError(f"the stream makes no progress:\n{driver.log.read_text()[-5000:]}")
        time.sleep(0.1)


def read_to_the_end(folder: Path, stream: Stream) -> Counter[tuple[object, ...]]:
    driver = Driver(folder, stream, "--to-the-end")
    try:
        while (code := driver.process.wait(PATIENCE)) != 0 and driver.again():
            pass
    finally:
        if driver.process.poll() is None:
            driver.kill()
    if code != 0:
        raise RuntimeError(f"the stream failed:\n{driver.log.read_text()[-5000:]}")
    keys = pyarrow.parquet.read_table(folder / "found.parquet")
    return Counter(zip(*(keys[name].to_pylist() for name in stream.key), strict=True))
