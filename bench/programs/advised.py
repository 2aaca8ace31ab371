"""Compare the savings that inorder advise predicts with measured WAL and index sizes. Run by script/advised."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from inorder.advise.facts import read
from inorder.advise.findings import advice_of
from inorder.connection.database import Connection, connect, execute, one_row
from inorder.installations import find_installation
from inorder.lab.server.cluster import Cluster
from inorder.units import parse_count, size_text

SETTINGS = {"fsync": "off", "max_wal_size": "8GB"}
TOLERATED = 0.2  # largest accepted difference between a measured and an advised figure, as a ratio
DAY = 86_400

# One table has only two columns, one has a text key, and one has two more indexes.
UNLIKE = {
    "bare": "(id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int DEFAULT 1)",
    "letters": "(id text PRIMARY KEY DEFAULT gen_random_uuid()::text, n int DEFAULT 1)",
    "indexed": "(id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int DEFAULT (random() * 1e9)::int, at timestamptz "
               "DEFAULT clock_timestamp()); CREATE INDEX ON followed (n); CREATE INDEX ON followed (at)",
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """A figure that inorder advise predicted, and the measured value: WAL bytes saved, or index size in bytes."""

    figure: str
    advised: float
    measured: float

    @property
    def holds(self) -> bool:
        return abs(self.measured / self.advised - 1) <= TOLERATED


def inserted(admin: Connection, count: int) -> float:
    """Return the WAL bytes written by ``count`` single-row transactions after a checkpoint."""
    execute(admin, "VACUUM ANALYZE followed", "CHECKPOINT", "SELECT pg_stat_force_next_flush()")
    execute(admin, "SELECT pg_stat_reset()")
    (start,) = one_row(admin, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    loop = f"FOR i IN 1..{count} LOOP INSERT INTO followed DEFAULT VALUES; COMMIT; END LOOP"
    execute(admin, f"DO $$ BEGIN {loop}; END $$", "SELECT pg_stat_force_next_flush()")
    (end,) = one_row(admin, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    return float(end - start)


def followed(cluster: Cluster, name: str, rows: int, count: int) -> Iterator[Outcome]:
    """Insert rows into a table, follow the advice, insert as many rows again, and yield the outcomes.

    Only one checkpoint happens, before the inserts. The model therefore assumes a checkpoint interval that is as long
    as the inserts took.
    """
    dsn = f"{cluster.dsn} dbname=followed_{name}"
    with connect(cluster.dsn) as admin:
        execute(admin, f"CREATE DATABASE followed_{name}")
    with connect(dsn) as admin:
        execute(admin, *f"CREATE TABLE followed {UNLIKE[name]}".split(";"))
        execute(admin, f"INSERT INTO followed SELECT FROM generate_series(1, {rows})")
        before = inserted(admin, count)
        facts = read(dsn, None, False)
        findings, _ = advice_of(replace(facts, checkpoint=facts.seconds), 1)
        (finding,) = [
            candidate
            for candidate in findings
            if (candidate.id, candidate.table) == ("random-key", '"public"."followed"')
        ]
        execute(admin, *finding.remedy)
        yield Outcome("WAL saved", finding.saves * facts.seconds / DAY, before - inserted(admin, count))
        execute(admin, "REINDEX INDEX followed_pkey")
        (size,) = one_row(admin, "SELECT pg_relation_size('followed_pkey')")
        (cost,) = [candidate for candidate in finding.costs if candidate.kind == "v7"]
        yield Outcome("index", cost.index_bytes, float(size))


def main() -> None:
    parser = argparse.ArgumentParser(prog="script/advised")
    parser.add_argument("--rows", default="1M", help="rows of each table before the inserts")
    parser.add_argument(
        "--inserts", default="50k", help="transactions of one row, before and after the advice is followed"
    )
    options = parser.parse_args()
    rows, count = (parse_count(getattr(options, name), f"--{name}", 1000, 10**9) for name in ("rows", "inserts"))
    held = True
    with Cluster(find_installation()) as cluster:
        cluster.start(SETTINGS)
        for name in UNLIKE:
            for outcome in followed(cluster, name, rows, count):
                held &= outcome.holds
                advised, measured = size_text(outcome.advised), size_text(outcome.measured)
                print(f"{name:9}{outcome.figure:11}advised {advised:>10}  measured {measured:>10}  "
                      f"{outcome.measured / outcome.advised:.2f}{'' if outcome.holds else '  DIFFERS BY OVER 20 %'}",
                      flush=True)  # fmt: skip
    sys.exit(not held)


if __name__ == "__main__":
    main()
