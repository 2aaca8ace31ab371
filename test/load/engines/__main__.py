"""The command of the load: python -m load.engines."""

import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from inorder.connection.database import connect
from inorder.installations import find_installation
from inorder.lab.server.cluster import Cluster

from conftest import SETTINGS
from load.engines.driver import Driver, await_batch, batches, read_to_the_end
from load.engines.stream import Stream
from load.engines.writers import LARGE, TABLES, Writer, committed, write_large
from world.sql import run

WRITERS = 16
SCHEMA = "writer int, token bigint, body string"
OPTIONS: dict[str, object] = {"table": "events", "max_rows": 100_000, "parts": 2}


@contextmanager
def servers(count: int) -> Iterator[list[str]]:
    with ExitStack() as stack:
        dsns = []
        for place in range(count):
            cluster = stack.enter_context(Cluster(find_installation()))
            cluster.start(SETTINGS | {"shared_buffers": "128MB", "max_prepared_transactions": "500"})
            with connect(cluster.dsn) as connection:
                run(connection, "CREATE EXTENSION inorder", *TABLES[place], "SELECT feed_enable('events')")
            dsns.append(cluster.dsn)
        yield dsns


def kill_often(folder: Path, stream: Stream, kills: int, rng: random.Random) -> Counter[str]:
    done: Counter[str] = Counter()
    driver = Driver(folder, stream)
    try:
        while done.total() < kills:
            await_batch(folder, batches(folder), driver)
            time.sleep(rng.random() * 2)
            if done["drivers"] < done["executors"]:
                driver.kill()
                driver = Driver(folder, stream)
                done["drivers"] += 1
            elif driver.kill_executor(rng):
                done["executors"] += 1
            click.echo(f"{done.total()} killed, {batches(folder)} batches", err=True)
        await_batch(folder, batches(folder), driver)
    finally:
        driver.kill()
    return done


@click.command()
@click.option("--kills", default=10, show_default=True, type=click.IntRange(0, 1000), help="How often one is killed.")
@click.option("--seed", type=int, help="Of the randomness; by default another one each time.")
def main(kills: int, seed: int | None) -> None:
    """One query of three servers' streams under load, killed often. Exit code 1 if a row was lost or came twice."""
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    click.echo(f"seed {seed}", err=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers and folders are removed
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="inorder-engines-") as name, servers(len(TABLES)) as dsns:
        folder, stop = Path(name), threading.Event()
        stream = Stream([OPTIONS | {"dsn": dsn} for dsn in dsns], SCHEMA, ["writer", "token"])
        writers = [Writer(dsns[n % len(dsns)], n, rng.randrange(2**32), stop) for n in range(WRITERS)]
        large = threading.Thread(target=write_large, args=(dsns[0], WRITERS))
        for thread in (*writers, large):
            thread.start()
        try:
            done = kill_often(folder, stream, kills, rng)
        finally:
            stop.set()
            for thread in (*writers, large):
                thread.join()
        keys = read_to_the_end(folder, stream)
        there = set().union(*map(committed, dsns))
    errors = [f"{writer.name}: {writer.error}" for writer in writers if writer.error]
    counts = Counter({(int(str(writer)), int(str(token))): times for (writer, token), times in keys.items()})
    report(counts, there, done, errors)


def report(
    counts: Counter[tuple[int, int]], there: set[tuple[int, int]], done: Counter[str], errors: list[str]
) -> None:
    lost, phantom = there - counts.keys(), counts.keys() - there
    repeated = [row for row, times in counts.items() if times > 1]
    click.echo(f"killed {done['drivers']} drivers and {done['executors']} executors")
    click.echo(f"{len(there):,} rows committed, {LARGE:,} of them in one transaction")
    click.echo(f"{len(lost)} lost, {len(repeated)} repeated, {len(phantom)} phantom")
    click.echo("\n".join(errors), nl=bool(errors))
    sys.exit(1 if lost or phantom or repeated or errors or len(there) < LARGE else 0)


if __name__ == "__main__":
    main()
