"""The command of the load: python -m engines.load."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
import pyarrow.parquet
from inorder.database import connect
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.servers import find_server

from conftest import SETTINGS
from engines.writers import LARGE, TABLES, Writer, committed, write_large

WRITERS = 16
PATIENCE = 600  # seconds, for a batch, with the start of Spark on a busy machine
EXECUTOR = b"CoarseGrainedExecutorBackend"


class Driver:
    """The process with the driver of Spark, which starts executors."""

    def __init__(self, folder: Path, dsns: Sequence[str], *options: str) -> None:
        command = [sys.executable, "-m", "engines.stream", str(folder), *dsns, *options]
        # Nothing of a killed Spark stays: it writes below the folder only.
        places = {"SPARK_LOCAL_DIRS": folder / "local", "SPARK_WORKER_DIR": folder / "work", "TMPDIR": folder}
        environment = os.environ | {name: str(place) for name, place in places.items()}
        environment["JAVA_TOOL_OPTIONS"] = f"-Djava.io.tmpdir={folder}"
        self.log = (folder / "spark.log").open("ab")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
            env=environment,
        )

    def kill(self) -> None:
        """All of it: driver, executors and their workers."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_executor(self, rng: random.Random) -> bool:
        """One executor; whether there was one."""
        executors = [pid for pid in processes_of(self.process.pid) if EXECUTOR in command_of(pid)]
        if executors:
            os.kill(rng.choice(executors), signal.SIGKILL)
        return bool(executors)


def processes_of(group: int) -> list[int]:
    """The processes of a group."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(path.name)) == group:
                found.append(int(path.name))
        except ProcessLookupError:
            continue
    return found


def command_of(pid: int) -> bytes:
    """The arguments of a process; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextmanager
def servers(count: int) -> Iterator[list[str]]:
    """Servers of their own, each with the table in another form."""
    with ExitStack() as stack:
        dsns = []
        for place in range(count):
            cluster = stack.enter_context(Cluster(find_server()))
            cluster.start(SETTINGS | {"shared_buffers": "128MB", "max_prepared_transactions": "500"})
            with connect(cluster.dsn) as connection:
                connection.execute("CREATE EXTENSION inorder")
                for statement in TABLES[place]:
                    connection.execute(statement.encode())
                connection.execute("SELECT feed_enable('events')")
            dsns.append(cluster.dsn)
        yield dsns


def batches(folder: Path) -> int:
    """How many batches are committed."""
    names = [path.name for path in (folder / "checkpoint" / "commits").glob("[0-9]*")]
    return max((int(name) + 1 for name in names if name.isdecimal()), default=0)


def await_batch(folder: Path, after: int, driver: Driver) -> None:
    """Wait until one more is committed."""
    deadline = time.monotonic() + PATIENCE
    while batches(folder) <= after:
        if driver.process.poll() is not None or time.monotonic() > deadline:
            driver.log.flush()
            raise SystemExit(f"the stream stands still:\n{(folder / 'spark.log').read_text()[-5000:]}")
        time.sleep(0.1)


def kill_often(folder: Path, dsns: list[str], kills: int, rng: random.Random) -> Counter[str]:
    """Kill the driver and executors in turn, each time after a batch, at any moment of the next."""
    done: Counter[str] = Counter()
    driver = Driver(folder, dsns)
    try:
        while done.total() < kills:
            await_batch(folder, batches(folder), driver)
            time.sleep(rng.random() * 2)
            if done["drivers"] < done["executors"]:
                driver.kill()
                driver = Driver(folder, dsns)
                done["drivers"] += 1
            elif driver.kill_executor(rng):
                done["executors"] += 1
            click.echo(f"{done.total()} killed, {batches(folder)} batches", err=True)
        await_batch(folder, batches(folder), driver)
    finally:
        driver.kill()
    return done


def read_to_the_end(folder: Path, dsns: list[str]) -> Counter[tuple[int, int]]:
    """What is in Parquet once the stream has read everything, and how often."""
    driver = Driver(folder, dsns, "--to-the-end")
    try:
        code = driver.process.wait(PATIENCE)
    finally:
        if driver.process.poll() is None:
            driver.kill()
    if code != 0:
        raise SystemExit(f"the stream failed:\n{(folder / 'spark.log').read_text()[-5000:]}")
    found = pyarrow.parquet.read_table(folder / "found.parquet")
    return Counter(zip(found["writer"].to_pylist(), found["token"].to_pylist(), strict=True))


@click.command()
@click.option("--kills", default=10, show_default=True, type=click.IntRange(0, 1000), help="How often one is killed.")
@click.option("--seed", type=int, help="Of the randomness; by default another one each time.")
def main(kills: int, seed: int | None) -> None:
    """One stream of three servers under load, killed often. Exit code 1 if a row was lost or came twice."""
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    click.echo(f"seed {seed}", err=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing stays
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="inorder-engines-") as name, servers(len(TABLES)) as dsns:
        folder, stop = Path(name), threading.Event()
        writers = [Writer(dsns[n % len(dsns)], n, rng.randrange(2**32), stop) for n in range(WRITERS)]
        large = threading.Thread(target=write_large, args=(dsns[0], WRITERS))
        for thread in (*writers, large):
            thread.start()
        try:
            done = kill_often(folder, dsns, kills, rng)
        finally:
            stop.set()
            for thread in (*writers, large):
                thread.join()
        found = read_to_the_end(folder, dsns)
        there = set().union(*map(committed, dsns))
    errors = [f"{writer.name}: {writer.error}" for writer in writers if writer.error]
    report(found, there, done, errors)


def report(found: Counter[tuple[int, int]], there: set[tuple[int, int]], done: Counter[str], errors: list[str]) -> None:
    """What was found; exit code 1 if it is not what is there."""
    lost, phantom = there - found.keys(), found.keys() - there
    repeated = [row for row, times in found.items() if times > 1]
    click.echo(f"killed {done['drivers']} drivers and {done['executors']} executors")
    click.echo(f"{len(there):,} rows committed, {LARGE:,} of them in one transaction")
    click.echo(f"{len(lost)} lost, {len(repeated)} repeated, {len(phantom)} phantom")
    for error in errors:
        click.echo(error)
    sys.exit(1 if lost or phantom or repeated or errors or len(there) < LARGE else 0)


if __name__ == "__main__":
    main()
