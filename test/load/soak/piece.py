"""One piece of a soak. It restarts the server of the previous piece, and checks every row at the end."""

import json
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from inorder.connection.database import connect
from inorder.errors import InorderError
from inorder.installations import Installation, find_installation
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.temporary import service_account, temporary_folder

from load.soak.load import Bursts, Counting, Paced
from load.soak.readers import Kept, readers
from load.soak.samples import CURVES, Sampler, figure, trends
from load.soak.world import LANES, TABLES, KeptCluster, KeptLedger, SoakWorld, Tokens, diary, put, replace, tokens_in
from load.stress import report
from load.stress.round import SETTINGS as OF_STRESS
from load.stress.round import prepare, wait_for
from world.edition import EDITIONS
from world.ledger import LANE_BITS, ROW_BITS
from world.role import Role
from world.server import other_crashes
from world.writers import WRITERS, finish_all

SETTINGS = OF_STRESS | {
    "shared_preload_libraries": "pg_stat_statements",
    "autovacuum": "on",
    "autovacuum_naptime": "15s",
    "max_wal_size": "1GB",
    "wal_keep_size": "0",
}
CALM, HELD = 1 / 6, 2 / 3  # fractions of a piece: the time before disturbances; the longest open transaction
RESTARTS = (signal.SIGINT, signal.SIGQUIT)  # fast, immediate


def restart(cluster: Cluster, world: SoakWorld, number: int) -> None:
    how = RESTARTS[number % 2]
    cluster.stop(how)
    cluster.start(SETTINGS)
    world.done[f"restart by {how.name}"] += 1


def time_passes(world: SoakWorld, cluster: Cluster, seconds: float, held: float) -> None:
    ends, calm, held = world.began + seconds, seconds * CALM, min(held, seconds * HELD)
    world.broken.wait(calm / 2)
    restart(cluster, world, world.piece)
    world.broken.wait(calm / 2)
    world.act = "held"
    with connect(world.superuser) as idle:
        idle.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        idle.execute("SELECT 1")
        world.broken.wait(held)
    world.act = "restarts"
    remaining = max(ends - time.monotonic(), 1.0)
    pause = min(300.0, remaining / 3)
    for number in range(int(remaining / pause) - 1):
        world.broken.wait(pause)
        if not world.broken.is_set():
            restart(cluster, world, world.piece + 1 + number)
    world.broken.wait(max(0.0, ends - time.monotonic()))


def play(world: SoakWorld, cluster: Cluster, all_readers: Sequence[Kept], seconds: float, held: float) -> None:
    writers: list[Role] = [Paced(world, number) for number in range(WRITERS)] + [Bursts(world, "owner")]
    sampler = Sampler(world, all_readers, max(1.0, min(10.0, seconds / 60)))
    roles: list[Role] = [*all_readers, Counting(world, "count"), sampler]
    try:
        for thread in (*roles, *writers):
            thread.start()
        time_passes(world, cluster, seconds, held)
        world.stop.set()
        wait_for(world, writers)
        finish_all(world)
        close_books(world)
        world.settled.set()
        wait_for(world, roles)
    finally:
        world.end()
        wait_for(world, [*writers, *roles])


def rows_there(world: SoakWorld, table: str) -> Tokens:
    text = f"COPY (SELECT token FROM {table}) TO STDOUT".encode()
    with connect(world.superuser) as connection, connection.cursor() as cursor, cursor.copy(text) as copy:
        return np.fromstring(b"".join(copy).decode(), np.int64, sep="\n")


def close_books(world: SoakWorld) -> None:
    doubted = world.ledger.doubtful
    stored = {table: set(rows_there(world, table).tolist()) if doubted else set() for table in TABLES}
    for half in world.ledger.resolve(stored):
        world.problem(half)


def take_over(world: SoakWorld) -> None:
    """Record the rows that an interrupted piece committed but did not record. These rows are in the tables."""
    with connect(world.superuser) as connection:
        for (gid,) in connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            connection.execute(f"ROLLBACK PREPARED '{gid}'".encode())
    for table in TABLES:
        recorded = tokens_in(world.files.file("committed", table))
        # Rows of detached partitions were committed, too.
        detached = tokens_in(world.files.file("gone", table))
        missing = np.setdiff1d(np.concatenate([rows_there(world, table), detached]), recorded)
        lanes = missing >> LANE_BITS
        put(world.files.file("committed", table), missing[lanes // LANES == world.piece - 1].tolist())


def compare(due: Tokens, committed: Tokens, delivered: Tokens) -> dict[str, int]:
    """Compare the rows that a reader received from a table with the committed rows.

    ``disordered`` is the number of rows that came after a row of a later transaction of the same writer.

    >>> compare(np.array([1, 2]), np.array([1, 2, 3]), np.array([2, 2, 9]))
    {'due': 2, 'delivered': 3, 'lost': 1, 'repeated': 1, 'foreign': 1, 'disordered': 0}
    """
    by_writer = np.argsort(delivered >> LANE_BITS, kind="stable")
    once = np.unique(delivered)
    return {
        "due": len(due), "delivered": len(delivered), "lost": len(np.setdiff1d(due, once)),
        "repeated": len(delivered) - len(once), "foreign": len(np.setdiff1d(once, committed)),
        "disordered": int(np.count_nonzero(np.diff((delivered >> ROW_BITS)[by_writer]) < 0)),
    }  # fmt: skip


def check(world: SoakWorld, all_readers: Sequence[Kept]) -> list[dict[str, Any]]:
    lines = []
    for table in TABLES:
        stored = rows_there(world, table)
        committed = tokens_in(world.files.file("committed", table))
        # Rows that are still stored were not detached: the DETACH was rolled back.
        detached = np.setdiff1d(np.fromiter(world.files.gone[table], np.int64), stored)
        due = np.setdiff1d(committed, detached)
        if not np.array_equal(np.sort(stored), due):
            world.problem(f"{table} has other rows than its writers committed")
        delivered: dict[str, list[Tokens]] = {}
        for reader in all_readers:
            if table in reader.tables:
                delivered.setdefault(reader.kind, []).append(reader.delivered(table))
        for kind, arrays in delivered.items():
            line = compare(due, committed, np.concatenate(arrays))
            line["disordered"] *= len(arrays) == 1  # workers that share a writer's rows get them in any order
            lines.append({"reader": kind, "table": table, **line})
            if wrong := {name: line[name] for name in ("lost", "repeated", "foreign", "disordered") if line[name]}:
                world.problem(f"{kind} of {table}: {wrong}")
    return lines


def run_piece(server: Installation, folder: Path, seconds: float, held: float) -> dict[str, Any]:
    soak = diary(folder)
    edition = EDITIONS[soak["edition"]]
    with KeptCluster(server, folder, () if edition.user is None else None) as cluster:
        cluster.start(SETTINGS)
        pieces = soak["pieces"]
        world = SoakWorld(
            cluster.dsn, len(pieces), edition=edition, is_long=True, ledger=KeptLedger(folder, soak["rate"]),
            folder=folder, piece=len(pieces) + 1, before=soak["seconds"], every=min(60.0, seconds / 8),
        )  # fmt: skip
        all_readers = readers(world)
        if not pieces:
            prepare(world, all_readers)
            with connect(cluster.dsn) as connection:
                connection.execute("CREATE EXTENSION pg_stat_statements")
        elif not soak["clean"]:
            take_over(world)
        piece: dict[str, Any] = {"piece": world.piece, "began": time.strftime("%Y-%m-%d %H:%M:%S"), "lines": []}
        pieces.append(piece)
        soak["clean"] = False
        replace(folder / "soak.json", soak)
        try:
            play(world, cluster, all_readers, seconds, held)
            soak["clean"] = True
            piece["lines"] = [] if world.problems else check(world, all_readers)
            world.problems += other_crashes(cluster)
        finally:
            piece |= {"seconds": round(time.monotonic() - world.began), "clean": soak["clean"]}
            piece |= {"problems": world.problems, "done": dict(world.done), "counts": world.checks}
            soak["seconds"] += piece["seconds"]
            replace(folder / "soak.json", soak)
        return piece


SAID = ("reader", "table", "due", "delivered", "lost", "repeated", "foreign", "disordered")


def shown(folder: Path, piece: dict[str, Any]) -> str:
    samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    rows: list[tuple[object, ...]] = [("curve", "start", "held", "end", "times")]
    rows += [(f"{CURVES[trend.curve][0]}, {CURVES[trend.curve][1]}: {trend.line}", figure(trend.start),
              figure(trend.held), figure(trend.end), figure(trend.grows)) for trend in trends(samples)]  # fmt: skip
    parts = [report.table([SAID, *(tuple(line[name] for name in SAID) for line in piece["lines"])]), report.table(rows)]
    parts += [f"meanwhile: {piece['done']}, {piece['counts']} counts compared"]
    parts += [f"PROBLEM: {problem}" for problem in piece["problems"]]
    return "\n".join([*parts, "FAILED" if piece["problems"] else "passed: each reader got each row once"])


def run_soak(seconds: float, rate: int | None, held: float, edition: str, folder: Path | None) -> bool:
    """Run the first piece of a soak, or the next piece of the soak in the folder. Return True if all is well."""
    server = find_installation()
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="soak-", dir=temporary_folder(service_account())))
        folder.chmod(0o755)
        replace(folder / "soak.json", {"server": server.version, "edition": edition, "pieces": [], "seconds": 0})
    state = {"rate": 2000} | diary(folder) | ({"rate": rate} if rate else {})
    replace(folder / "soak.json", state)
    if state["server"] != server.version:
        raise InorderError(
            f"the soak in {folder} ran on PostgreSQL {state['server']}; PG_CONFIG selects {server.version}"
        )
    click.echo(f"{folder}: piece {len(state['pieces']) + 1}, {state['rate']} rows a second", err=True)
    piece = run_piece(server, folder, seconds, held)
    click.echo(shown(folder, piece))
    return not piece["problems"]
