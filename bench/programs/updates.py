"""Measure how much the guard costs an UPDATE of a table that a feed can read, in both editions.

script/price --updates runs this program. Each round runs every statement on every table, in random order, and measures
the CPU time of the server process. The guarded tables are compared with a table that has the same column and index, but
no guard.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from inorder.connection.database import connect, execute
from inorder.installations import find_installation
from inorder.lab.analysis.stats import estimate, paired_ratio
from inorder.lab.server.cluster import Cluster

from changes import MANY, ROWS, Side, measure_rounds
from sql_edition import create

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "jit": "off", "synchronous_commit": "off"}
SETTINGS |= {"full_page_writes": "off", "autovacuum": "off"}  # see changes.py
SPARSE = "WITH (fillfactor = 30)"  # updates stay on their page
FILL = f"INSERT INTO t (id, n, body) SELECT n, 0, repeat('x', 130) FROM generate_series(1, {ROWS}) AS n"
COLUMNS = "id int, n int, body text"
# For each form of the transaction number, the statements that create the table.
FORMS = {
    "`uuid` key": (
        f"CREATE TABLE t (key uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), {COLUMNS}) {SPARSE}", FILL,
        "CREATE INDEX ON t (id)",
    ),
    "`bigint DEFAULT xact_id()`": (
        f"CREATE TABLE t ({COLUMNS}, xact bigint NOT NULL DEFAULT 0) {SPARSE}", FILL,
        "ALTER TABLE t ADD PRIMARY KEY (id)", "ALTER TABLE t ALTER COLUMN xact SET DEFAULT xact_id()",
        "CREATE INDEX ON t (xact, id) WHERE xact <> 0",
    ),
    "generated column": (
        f"CREATE TABLE t ({COLUMNS}, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED) {SPARSE}", FILL,
        "ALTER TABLE t ADD PRIMARY KEY (id)", "CREATE INDEX ON t (xact, id)",
    ),
}  # fmt: skip
GUARDS = {"no guard": ("c", False), "C extension": ("c", True), "SQL edition": ("sql", True)}
STATEMENTS = ("UPDATE of one row", f"UPDATE of {MANY} rows")


@contextmanager
def opened(cluster: Cluster, number: int, form: str, guard: str) -> Iterator[Side]:
    edition, is_guarded = GUARDS[guard]
    database = f"updates_{number}"
    with connect(cluster.dsn) as admin:
        execute(admin, f"CREATE DATABASE {database}")
    with connect(f"{cluster.dsn} dbname={database}") as connection:
        create(connection, edition)
        execute(connection, *FORMS[form], *["SELECT feed_enable('t')"] * is_guarded, "VACUUM ANALYZE t")
        yield Side(f"{form}, {guard}", connection)


def print_updates(rounds: int) -> None:
    """Measure the costs, and print them as a table."""
    names = [(form, guard) for form in FORMS for guard in GUARDS]
    with Cluster(find_installation()) as cluster, ExitStack() as stack:
        cluster.start(SETTINGS)
        sides = [stack.enter_context(opened(cluster, number, *name)) for number, name in enumerate(names)]
        measure_rounds(sides, STATEMENTS, rounds)
        print("\n".join(table(sides)))


def table(sides: list[Side]) -> list[str]:
    """Return a Markdown table of medians. CPU times with a guard are ratios to those without it in the same round."""
    by_name = {side.name: side for side in sides}
    lines = [f"| | | {' | '.join(GUARDS)} |", f"|---|---|{'---:|' * len(GUARDS)}"]
    for statement in STATEMENTS:
        for form in FORMS:
            base, *guarded = (by_name[f"{form}, {guard}"] for guard in GUARDS)
            cells = [f"{estimate(base.cpu[statement]).median:.1f} µs"]
            cells += [f"{paired_ratio(side.cpu[statement], base.cpu[statement]).median:.2f} ×" for side in guarded]
            lines.append(f"| {statement}, CPU | {form} | {' | '.join(cells)} |")
            cells = [f"{estimate(side.wal[statement]).median:.0f}" for side in (base, *guarded)]
            lines.append(f"| bytes of WAL per row | | {' | '.join(cells)} |")
    return lines
