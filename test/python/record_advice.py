"""Record facts about a table of orders for test_advise_verdicts.py: python test/python/record_advice.py.

Each order is inserted with a random key on a temporary server with pg_stat_statements, and then its status is updated.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path

from inorder.advise.facts import Facts, read
from inorder.connection.database import Connection, connect, execute, one_row
from inorder.installations import find_installation
from inorder.lab.server.cluster import Cluster

FILE = Path(__file__).parent / "recorded" / "advice.json"
ROWS, ORDERS = 400_000, 10_000
SETTINGS = {
    "fsync": "off",
    "max_wal_size": "8GB",
    "autovacuum": "off",
    "shared_preload_libraries": "pg_stat_statements",
}
FILLED = (
    "CREATE EXTENSION pg_stat_statements",
    "CREATE TABLE orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), status int NOT NULL DEFAULT 0, "
    "at timestamptz DEFAULT now(), body text)",
    "CREATE INDEX ON orders (at)",
    f"INSERT INTO orders (body) SELECT repeat('x', 400) FROM generate_series(1, {ROWS})",
    "VACUUM ANALYZE",
)
# pg_stat_statements tracks nested statements, and therefore counts each statement of the loop.
ORDERED = """DO $$ DECLARE made uuid; BEGIN FOR i IN 1..%d LOOP
INSERT INTO orders (body) VALUES (repeat('x', 400)) RETURNING id INTO made; COMMIT;
UPDATE orders SET status = 1 WHERE id = made; COMMIT; END LOOP; END $$"""


def ordered(admin: Connection, orders: int) -> float:
    """Insert orders, and update each of them. Return the bytes of WAL per order."""
    execute(admin, "CHECKPOINT", "SELECT pg_stat_force_next_flush()", "SELECT pg_stat_reset()")
    execute(admin, "SELECT pg_stat_statements_reset()", "SET pg_stat_statements.track = 'all'")
    (start,) = one_row(admin, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    execute(admin, ORDERED % orders, "SELECT pg_stat_force_next_flush()")
    (end,) = one_row(admin, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    return float(end - start) / orders


def recorded() -> tuple[Facts, float]:
    """Return the facts of one checkpoint interval, and the fraction of WAL that version 7 keys save in the next one."""
    with Cluster(find_installation()) as cluster:
        cluster.start(SETTINGS)
        with connect(cluster.dsn) as admin:
            execute(admin, *FILLED)
            before = ordered(admin, ORDERS)
            facts = read(cluster.dsn, None, False)
            execute(admin, "ALTER TABLE orders ALTER COLUMN id SET DEFAULT uuidv7()")
            return replace(facts, checkpoint=facts.seconds), 1 - ordered(admin, ORDERS) / before


if __name__ == "__main__":
    facts, saved = recorded()
    FILE.write_text(json.dumps(asdict(facts), indent=1) + "\n")
    print(f"version 7 saved {100 * saved:.0f} % of the WAL")
