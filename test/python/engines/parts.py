"""What parts gain where a transformation costs CPU: python -m engines.parts. Printed, not asserted."""

import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from inorder.database import connect
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.servers import find_server

from conftest import SETTINGS
from engines.stream import session
from engines.writers import INSERT, TABLES

ROWS, ROUNDS, STEPS = 100_000, 5, 500
WORK = f"aggregate(sequence(1, {STEPS}), 0L, (sum, step) -> sum + (token * step) % 7) AS work"


def seconds(spark: Any, dsn: str, parts: int) -> float:
    """Of reading and transforming all rows."""
    frame = spark.read.format("inorder").options(dsn=dsn, table="events", parts=parts).load()
    begun = time.monotonic()
    frame.selectExpr(WORK).write.format("noop").mode("overwrite").save()
    return time.monotonic() - begun


def main() -> None:
    """One part and four, in turn; the first round is not counted."""
    with TemporaryDirectory(prefix="inorder-engines-") as name, Cluster(find_server()) as cluster:
        cluster.start(SETTINGS)
        with connect(cluster.dsn) as connection:
            for statement in ("CREATE EXTENSION inorder", *TABLES[0], "SELECT feed_enable('events')"):
                connection.execute(statement.encode())
            connection.execute(INSERT.encode(), [1, 1, ROWS])
        spark = session("local[2]", **{"spark.sql.warehouse.dir": Path(name).as_uri()})
        rounds = [(seconds(spark, cluster.dsn, 1), seconds(spark, cluster.dsn, 4)) for _ in range(ROUNDS + 1)][1:]
        spark.stop()
    ratios = sorted(one / four for one, four in rounds)
    click.echo(
        f"four parts are {statistics.median(ratios):.2f} times as fast as one, {ratios[0]:.2f} to {ratios[-1]:.2f} in "
        f"{ROUNDS} rounds, two cores, {ROWS:,} rows"
    )


if __name__ == "__main__":
    main()
