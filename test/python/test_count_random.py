"""Counts by group beside writers of every kind of statement: equal to GROUP BY in each snapshot."""

import os
import random
import threading
from contextlib import suppress

import psycopg
import pytest
from inorder.connection.database import Connection, connect

from counted_groups import FOLD, PARTS, PLAIN, ROWS, START, difference
from world.sql import run

pytestmark = [pytest.mark.server, pytest.mark.editions]

SNAPSHOTS = 2000 if "INORDER_TEST_LONG" in os.environ else 25
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
STATEMENTS = (
    "INSERT INTO orders SELECT {id} + n, 's' || n % 5, n FROM generate_series(1, {few}) AS n ON CONFLICT DO NOTHING",
    "INSERT INTO orders VALUES ({id}, NULL, 1) ON CONFLICT (id) DO UPDATE SET status = 'again'",
    "UPDATE orders SET status = 's{few}' WHERE id BETWEEN {id} AND {id} + {few}",
    "UPDATE orders SET id = (id + 97) % 1000 + 1 WHERE id = {id}",
    "UPDATE orders SET note = 'n' WHERE id = {id}",
    "DELETE FROM orders WHERE id BETWEEN {id} AND {id} + {few}",
    "MERGE INTO orders USING (VALUES ({id}), ({id} + 1)) AS v(id) ON orders.id = v.id WHEN MATCHED AND v.id % 2 = 0 "
    "THEN DELETE WHEN MATCHED THEN UPDATE SET status = 'merged' WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'merged')",
    "TRUNCATE {truncated}",
)
WEIGHTS = (8, 8, 8, 8, 8, 8, 8, 1)


def write(dsn: str, seed: int, truncated: str, stop: threading.Event, failures: list[str]) -> None:
    chance = random.Random(seed)
    with connect(dsn) as connection:
        while not stop.is_set():
            try:
                run(connection, f"BEGIN ISOLATION LEVEL {chance.choice(LEVELS)}", "SET LOCAL lock_timeout = '500ms'")
                for _ in range(chance.randint(1, 3)):
                    (text,) = chance.choices(STATEMENTS, WEIGHTS)
                    run(connection, "SAVEPOINT s", text.format(id=chance.randint(1, 1000), few=chance.randint(1, 9),
                                                               truncated=truncated))  # fmt: skip
                    if chance.random() < 0.2:
                        run(connection, "ROLLBACK TO s")
                ends = chance.random()
                if ends < 0.1:
                    run(connection, f"PREPARE TRANSACTION 'w{seed}'", f"COMMIT PREPARED 'w{seed}'")
                else:
                    run(connection, "ROLLBACK" if ends < 0.2 else "COMMIT")
            except psycopg.Error as error:
                if error.sqlstate not in ("40001", "40P01", "55P03", "23505", "21000", "0A000"):
                    failures.append(str(error))
                with suppress(psycopg.Error):
                    run(connection, "ROLLBACK")


@pytest.mark.parametrize("tables", [PLAIN, PARTS], ids=["plain", "partitions"])
def test_every_snapshot_has_the_groups_of_its_rows(
    fresh: Connection, other: Connection, tables: tuple[str, ...]
) -> None:
    run(fresh, *tables, ROWS, START, "CREATE TABLE held (n int)")
    stop, failures = threading.Event(), list[str]()
    chance = random.Random()
    truncated = "low" if tables is PARTS else "orders"
    writers = [
        threading.Thread(target=write, args=(fresh.info.dsn, seed, truncated, stop, failures)) for seed in range(4)
    ]
    for writer in writers:
        writer.start()
    try:
        for turn in range(SNAPSHOTS):
            try:
                run(fresh, f"BEGIN ISOLATION LEVEL {chance.choice(LEVELS)}")
                assert difference(fresh) == [], turn
                if turn % 3 == 0:
                    run(other, FOLD)
                assert difference(fresh) == [], turn
                run(fresh, "COMMIT")
            except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                run(fresh, "ROLLBACK")
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert failures == [] and difference(fresh) == []
