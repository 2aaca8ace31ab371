"""Counts by group under load. In each snapshot, the views must equal the results of GROUP BY.

A run has the writers of ``changing``, an owner who alters the table, a session that folds, and readers at each
isolation level and on a standby. Sessions and the server are killed.
"""

import random
from contextlib import ExitStack, suppress
from functools import partial

import psycopg
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from counted_groups import difference
from load.stress.changing import SETTINGS, Run, Work, kill, opened, own, write
from world.edition import EDITIONS, STANDBY, Edition
from world.server import Standby, kill_all

# For each view: the columns by which it counts, and the query whose result it must equal.
SETS = {
    "t_by_area_note": ("{area,note}", "SELECT area, note, count(*) FROM t GROUP BY area, note"),
    "t_by_owner": ("{owner}", "SELECT owner, count(*) FROM t GROUP BY owner"),
    "t_count": ("{}", "SELECT count(*) FROM t"),
}
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
LATER = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable)
FOLD = "SELECT exact_count_fold('t')"
CYCLE_SECONDS = 3
# Sessions that may be killed. If a session were killed between the two phases of a commit, all others would wait.
ANY = "backend_type = 'client backend' AND query !~ 'PREPARE'"


def compare(run: Run, rng: random.Random, standby: str = "") -> None:
    with connect(standby or run.dsn) as connection:
        while not run.stop.is_set():
            level = rng.choice(LEVELS[:2] if standby else LEVELS)
            connection.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
            with suppress(*LATER):
                for _ in range(rng.choice([1, 1, 4])):
                    check(connection, level)
                    run.note("compared on the standby" if standby else f"compared in {level}")
                    run.stop.wait(rng.choice([0, 0, rng.random() * 0.1]))
                connection.execute("COMMIT")
            connection.execute("ROLLBACK")


def check(connection: Connection, where: str) -> None:
    for view, (_, groups) in SETS.items():
        differences = difference(connection, view, groups)
        assert differences == [], f"{view}, {where}: {differences[:5]}"


def fold(run: Run, rng: random.Random) -> None:
    with connect(run.dsn) as connection:
        while not run.stop.wait(rng.random() * 0.2):
            # A fold is refused while a new partition lacks its triggers.
            with suppress(*LATER, psycopg.errors.ObjectNotInPrerequisiteState):
                connection.execute(FOLD.encode())
                run.note("folded")


def repair(connection: Connection) -> None:
    while True:
        with suppress(*LATER, psycopg.errors.ObjectNotInPrerequisiteState):
            for by, _ in SETS.values():
                connection.execute("SELECT exact_count_start('t', by => %s)", [by])
            connection.execute(FOLD.encode())
            return


def play(run: Run, work: list[Work], seconds: float, crashing: Cluster | None) -> None:
    """Run until the end, or until the server is killed.

    This thread starts the server, because a server ends with the thread that started it. The server starts before the
    other threads end, because a reader on the standby may wait for a lock of a transaction that the crash has aborted.
    """
    threads = run.start(work)
    run.wait_for(seconds, "compared in REPEATABLE READ", "folded")
    if crashing is not None and not run.stop.is_set():
        kill_all(crashing)
        run.note("kill -9")
        run.stop.set()
        crashing.start(SETTINGS)
    run.stop.set()
    for thread in threads:
        while thread.is_alive():  # the thread may wait for a transaction that a killed session had prepared
            end_prepared(run)
            thread.join(1)


def end_prepared(run: Run) -> None:
    with connect(run.dsn) as connection:
        for place, (name,) in enumerate(connection.execute(b"SELECT gid FROM pg_prepared_xacts").fetchall()):
            with suppress(psycopg.errors.UndefinedObject, psycopg.errors.ObjectNotInPrerequisiteState):
                connection.execute(f"{('COMMIT', 'ROLLBACK')[place % 2]} PREPARED '{name}'".encode())


def settle(run: Run) -> None:
    """End prepared transactions, then check the views before and after a fold."""
    end_prepared(run)
    with connect(run.dsn) as connection:
        check(connection, "at the end")
        repair(connection)
        check(connection, "after the last fold")


def run_groups(
    server: Installation, seconds: float, seed: int, edition: Edition = EDITIONS["c"], crashes: bool = False
) -> Run:
    with opened(server, edition, SETTINGS) as (cluster, dsn), ExitStack() as stack:
        run = Run(dsn, seed)
        with connect(dsn) as connection:
            repair(connection)
        standby = stack.enter_context(Standby(cluster)) if edition.has(STANDBY) else None
        work: list[Work] = [*[partial(write, run)] * 16, *[partial(compare, run)] * 3, partial(fold, run)]
        work += [partial(own, run, repair=repair), partial(kill, run, which=ANY)]
        if standby:
            standby.start(SETTINGS)
            work.append(partial(compare, run, standby=standby.dsn))
        cycles = max(1, round(seconds / CYCLE_SECONDS)) if crashes else 1
        for _ in range(cycles):
            play(run, work, seconds / cycles, cluster if crashes else None)
            if run.faults:
                break
            settle(run)
        return run
