"""Counts by group while writers execute statements of every kind: the view equals GROUP BY in each snapshot."""

import os
import random
import threading
from functools import partial

import psycopg
import pytest
from inorder.connection.database import Connection, connect

from counted_groups import FOLD, PARTS, PLAIN, ROWS, START, difference
from world import beside
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


def write(dsn: str, seed: int, truncated: str, ended: threading.Event) -> None:
    chance = random.Random(seed)
    with connect(dsn) as connection:
        run(connection, "SET lock_timeout = '500ms'")
        while not ended.is_set():
            texts = chance.choices(STATEMENTS, WEIGHTS, k=chance.randint(1, 3))
            beside.write(connection, chance, [
                text.format(id=chance.randint(1, 1000), few=chance.randint(1, 9), truncated=truncated) for text in texts
            ], two_phase=0.1)  # fmt: skip


@pytest.mark.parametrize("tables", [PLAIN, PARTS], ids=["plain", "partitions"])
def test_every_snapshot_has_the_groups_of_its_rows(
    fresh: Connection, other: Connection, tables: tuple[str, ...]
) -> None:
    run(fresh, *tables, ROWS, START, "CREATE TABLE held (n int)")
    chance = random.Random()
    truncated = "low" if tables is PARTS else "orders"
    with beside.beside(*(partial(write, fresh.info.dsn, seed, truncated) for seed in range(4))):
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
    assert difference(fresh) == []
