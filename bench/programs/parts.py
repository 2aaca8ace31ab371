"""Measure how much faster Spark reads a table in several parts, if each row takes CPU time to transform.

script/engines runs this program. Each round reads all rows in one part, then in four parts, with Spark on two cores.
The CPU time is the sum for Spark, its Python workers and the server. With two cores, parallel reads can save at most
half of the time.
"""

import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from inorder.connection.database import Connection, connect
from inorder.installations import find_installation
from inorder.lab.server.cluster import Cluster

from conftest import SETTINGS
from load.engines.stream import session
from world.sql import run
from world.tables import table as form_of

PARTS, CORES, ROUNDS = 4, 2, 5
TICKS = os.sysconf("SC_CLK_TCK")
COSTS = ((100_000, 500), (40_000, 4_000), (10_000, 20_000))  # pairs: number of rows, and computing steps per row


@dataclass(frozen=True)
class Run:
    """Wall-clock and CPU seconds needed to read and transform all rows."""

    wall: float
    cpu: float


def cpu_of(roots: list[int]) -> float:
    """Return the CPU seconds used by processes and all their descendants, including those that have exited."""
    times, parents = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        times[int(path.name)], parents[int(path.name)] = sum(map(int, fields[11:15])), int(fields[1])
    return sum(spent for pid, spent in times.items() if is_below(pid, roots, parents)) / TICKS


def is_below(pid: int, roots: list[int], parents: dict[int, int]) -> bool:
    """Return True if a process is one of the roots or descends from one.

    >>> [is_below(pid, [2], {1: 0, 2: 1, 3: 2}) for pid in (1, 2, 3)]
    [False, True, True]
    """
    while pid and pid not in roots:
        pid = parents.get(pid, 0)
    return bool(pid)


def measured(spark: Any, dsn: str, table: str, steps: int, parts: int, roots: list[int]) -> Run:
    work = f"aggregate(sequence(1, {steps}), 0L, (sum, step) -> sum + (token * step) % 7) AS work"
    frame = spark.read.format("inorder").options(dsn=dsn, table=table, parts=parts).load()
    cpu, start = cpu_of(roots), time.monotonic()
    frame.selectExpr(work).write.format("noop").mode("overwrite").save()
    return Run(time.monotonic() - start, cpu_of(roots) - cpu)


def fill(connection: Connection, rows: int) -> str:
    """Create a table, insert all rows in one transaction, and return the name of the table."""
    name = f"events_{rows}"
    insert = f"INSERT INTO {name} (region, token, body) SELECT 1, t, 'row ' || t FROM generate_series(1, {rows}) AS t"
    run(connection, form_of("uuid", name, ", body text"), f"SELECT feed_enable('{name}')", insert)
    run(connection, f"VACUUM ANALYZE {name}")
    return name


def summary(rounds: list[tuple[Run, Run]], rows: int) -> str:
    gains = sorted(single.wall / four.wall for single, four in rounds)
    most = statistics.median(single.wall * CORES / four.cpu for single, four in rounds)
    cost = statistics.median(single.cpu for single, _ in rounds) / rows * 1000
    busy = statistics.median(single.cpu / single.wall for single, _ in rounds)
    more = statistics.median(four.cpu / single.cpu for single, four in rounds)
    return (
        f"{cost:.2f} ms of CPU a row: {PARTS} parts are {statistics.median(gains):.2f} times as fast as one part "
        f"({gains[0]:.2f} to {gains[-1]:.2f}). A factor of {most:.2f} is possible: one part keeps {busy:.2f} of "
        f"{CORES} cores busy, and {PARTS} parts take {more:.2f} times the CPU time of one part."
    )


def main() -> None:
    """Compare one part with four parts at three costs per row. The first round at each cost is a warm-up."""
    with TemporaryDirectory(prefix="inorder-engines-") as name, Cluster(find_installation()) as cluster:
        cluster.start(SETTINGS)
        roots = [os.getpid(), int((cluster.data / "postmaster.pid").read_text().split()[0])]
        spark = session(f"local[{CORES}]", **{"spark.sql.warehouse.dir": Path(name).as_uri()})
        with connect(cluster.dsn) as connection:
            connection.execute("CREATE EXTENSION inorder")
            for rows, steps in COSTS:
                table = fill(connection, rows)
                pairs = [
                    (measured(spark, cluster.dsn, table, steps, 1, roots),
                     measured(spark, cluster.dsn, table, steps, PARTS, roots))
                    for _ in range(ROUNDS + 1)
                ]  # fmt: skip
                print(f"{rows:,} rows, {summary(pairs[1:], rows)}")
        spark.stop()


if __name__ == "__main__":
    main()
