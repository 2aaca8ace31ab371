"""Command line of the Spark load test: ``python -m load.engines``."""

import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import click
from inorder.connection.database import connect
from inorder.installations import find_installation
from inorder.lab.server.cluster import Cluster

from conftest import SETTINGS
from load.engines.driver import Driver, await_batch, batches, read_to_the_end
from load.engines.stream import Stream
from world.sql import run
from world.tables import BLOCKS, table
from world.world import World, fill
from world.writers import WRITERS, Writer, finish_all

# The form of the table on each server, and any additional column, which no writer sets.
FORMS = {"uuid": "", "number": ", more int", "hashed": ""}
BODY = ", body text DEFAULT 'row'"
LANES = 1 << 20  # number of lanes that are reserved for the writers and prepared transactions of one server
LARGE = 1_000_000
SCHEMA = "region int, token bigint, body string"
OPTIONS: dict[str, object] = {"table": "events", "max_rows": 100_000, "parts": 2}


class Crowd(Writer):
    tables = calm = ("events",)
    most_rows, counting = 300, 0.0

    def kinds(self) -> list[Callable[[], None]]:
        return [kind for kind in super().kinds() if kind != self.stream]


@contextmanager
def servers(seed: int) -> Iterator[list[World]]:
    with ExitStack() as stack:
        worlds = []
        for place, (form, more) in enumerate(FORMS.items()):
            cluster = stack.enter_context(Cluster(find_installation()))
            cluster.start(SETTINGS | {"shared_buffers": "128MB", "max_prepared_transactions": "500"})
            worlds.append(World(cluster.dsn, seed + place, lanes=count(1 + place * LANES)))
            with connect(cluster.dsn) as connection:
                events = table(form, "events", BODY + more)
                run(connection, "CREATE EXTENSION inorder", events, BLOCKS, "SELECT feed_enable('events')")
        yield worlds


@contextmanager
def written(worlds: Sequence[World]) -> Iterator[None]:
    """Run writers on each server during the block, and insert a million rows in one transaction on the first server."""
    writers = [Crowd(worlds[number % len(worlds)], number) for number in range(WRITERS)]
    with ThreadPoolExecutor(1) as pool, connect(worlds[0].primary) as connection:
        large = pool.submit(fill, worlds[0], connection, LARGE, ("events",))
        for writer in writers:
            writer.start()
        try:
            yield
        finally:
            for world in worlds:
                world.end()
            for writer in writers:
                writer.join()
            large.result()
            for world in worlds:
                finish_all(world)


def kill_often(folder: Path, stream: Stream, kills: int, rng: random.Random) -> Counter[str]:
    killed: Counter[str] = Counter()
    driver = Driver(folder, stream)
    try:
        while killed.total() < kills:
            await_batch(folder, batches(folder), driver)
            time.sleep(rng.random() * 2)
            if killed["drivers"] < killed["executors"]:
                driver.kill()
                driver = Driver(folder, stream)
                killed["drivers"] += 1
            elif driver.kill_executor(rng):
                killed["executors"] += 1
            click.echo(f"{killed.total()} killed, {batches(folder)} batches", err=True)
        await_batch(folder, batches(folder), driver)
    finally:
        driver.kill()
    return killed


@click.command()
@click.option(
    "--kills", default=10, show_default=True, type=click.IntRange(0, 1000), help="Number of processes to kill."
)
@click.option("--seed", type=int, help="Seed of all random choices.  [default: random]")
def main(kills: int, seed: int | None) -> None:
    """Run one query over streams of three servers, and kill its processes. Exit code 1 if a row is lost or repeated."""
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    click.echo(f"seed {seed}", err=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers and folders are removed
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="inorder-engines-") as name, servers(seed) as worlds:
        folder = Path(name)
        stream = Stream([OPTIONS | {"dsn": world.primary} for world in worlds], SCHEMA, ["token"])
        with written(worlds):
            done = kill_often(folder, stream, kills, rng)
        keys = read_to_the_end(folder, stream)
    report(Counter({int(str(token)): times for (token,), times in keys.items()}), worlds, done)


def report(counts: Counter[int], worlds: Sequence[World], done: Counter[str]) -> None:
    due = set().union(*(world.ledger.due("events") for world in worlds))  # tokens that the Parquet files must contain
    lost, phantom = due - counts.keys(), counts.keys() - due
    repeated = [row for row, times in counts.items() if times > 1]
    problems = [problem for world in worlds for problem in world.problems]
    click.echo(f"killed {done['drivers']} drivers and {done['executors']} executors")
    click.echo(f"{len(due):,} rows committed, {LARGE:,} of them in one transaction")
    click.echo(f"{len(lost)} lost, {len(repeated)} repeated, {len(phantom)} phantom")
    click.echo("\n".join(problems), nl=bool(problems))
    sys.exit(1 if lost or phantom or repeated or problems or len(due) < LARGE else 0)


if __name__ == "__main__":
    main()
