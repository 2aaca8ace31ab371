"""Measure how much a log of changes costs writers, in the C extension and in the SQL edition.

script/price --changes runs this program. Each round runs every statement on every table, in random order, and measures
the CPU time of the server process. WAL and HOT updates are counted over all rounds. The size of temporary files is
measured with one UPDATE of all rows. Partitioned tables are compared with a partitioned table without a log.
"""

import random
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from inorder.connection.database import Connection, connect, execute, one_row
from inorder.installations import find_installation
from inorder.lab.analysis.stats import estimate, paired_ratio
from inorder.lab.instruments.timing import ServerProcess
from inorder.lab.server.cluster import Cluster

from sql_edition import create

# With full_page_writes on, the amount of WAL would depend on the timing of checkpoints.
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "jit": "off", "synchronous_commit": "off"}
SETTINGS |= {"full_page_writes": "off", "autovacuum": "off"}
ROWS, MANY = 60_000, 600
COLUMNS, SPARSE = "(id int PRIMARY KEY, n int, body text)", "WITH (fillfactor = 45)"
FILL = (f"INSERT INTO t SELECT n, 0, repeat('x', 130) FROM generate_series(1, {ROWS}) AS n", "VACUUM ANALYZE t")
TABLE = (f"CREATE TABLE t {COLUMNS} {SPARSE}", *FILL)
PARTED = (
    f"CREATE TABLE t {COLUMNS} PARTITION BY RANGE (id)",
    f"CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO ({ROWS // 2}) {SPARSE}",
    f"CREATE TABLE t_2 PARTITION OF t DEFAULT {SPARSE}", *FILL,
)  # fmt: skip
LOG = (
    'CREATE TABLE t_changes (change uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), id int[], op "char" NOT NULL) '
    "PARTITION BY RANGE (change)",
    "CREATE TABLE t_changes_1 PARTITION OF t_changes DEFAULT",
)
# For each side: the edition ("" without a log), the statements to run before changes_enable(), and the side to
# which it is compared.
SIDES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "no log": ("", TABLE, ""),
    "C extension": ("c", TABLE, "no log"),
    "C, partitioned log": ("c", TABLE + LOG, "no log"),
    "SQL edition": ("sql", TABLE, "no log"),
    "partitioned table, no log": ("", PARTED, ""),
    "partitioned table, C extension": ("c", PARTED, "partitioned table, no log"),
    "partitioned table, SQL edition": ("sql", PARTED, "partitioned table, no log"),
}
# Each entry has calls per sample, rows per call, and a statement whose %s is a number that grows with each call.
STATEMENTS = {
    "UPDATE of no row": (200, 0, "UPDATE t SET n = n + 1 WHERE id = -%s::int"),
    "UPDATE of one row": (200, 1, f"UPDATE t SET n = n + 1 WHERE id = %s::int * 7919 %% {ROWS} + 1"),
    f"UPDATE of {MANY} rows": (
        4, MANY,
        f"UPDATE t SET n = n + 1 WHERE id > %s::int %% {ROWS // MANY} * {MANY} "
        f"AND id <= (%s::int %% {ROWS // MANY} + 1) * {MANY}",
    ),
    "INSERT of one row": (200, 1, f"INSERT INTO t VALUES (%s::int + {ROWS}, 0, repeat('x', 130))"),
}  # fmt: skip


@dataclass
class Side:
    """A table in its own database, with the session that writes to it."""

    name: str
    connection: Connection
    calls: int = 0
    cpu: dict[str, list[float]] = field(default_factory=dict)  # µs per call
    wal: dict[str, list[float]] = field(default_factory=dict)  # bytes per row

    def __post_init__(self) -> None:
        self.process = ServerProcess(self.connection)

    def measure(self, statement: str, keep: bool) -> None:
        calls, rows, text = STATEMENTS[statement]
        first = self.calls + 1
        self.calls += calls

        def work() -> None:
            for number in range(first, first + calls):
                self.connection.execute(text.encode(), [number] * text.count("%s"), prepare=True)

        wal = self.number("pg_current_wal_insert_lsn() - '0/0'")
        took = self.process.timed(work)["cpu_seconds"] / calls * 1e6
        if keep:
            self.cpu.setdefault(statement, []).append(took)
            if rows:
                wal = self.number("pg_current_wal_insert_lsn() - '0/0'") - wal
                self.wal.setdefault(statement, []).append(wal / calls / rows)

    def number(self, expression: str) -> float:
        return float(str(one_row(self.connection, f"SELECT {expression}")[0]))

    def settled(self, expression: str) -> float:
        """Return a value from the cumulative statistics, after flushing the session's counters."""
        execute(self.connection, "SELECT pg_stat_force_next_flush()")
        return self.number(expression)


@contextmanager
def opened(cluster: Cluster, name: str) -> Iterator[Side]:
    edition, statements, _ = SIDES[name]
    database = f"changes_{[*SIDES].index(name)}"
    with connect(cluster.dsn) as admin:
        execute(admin, f"CREATE DATABASE {database}")
    with connect(f"{cluster.dsn} dbname={database}") as connection:
        if edition:
            create(connection, edition)
        execute(connection, *statements)
        if edition:
            execute(connection, "SELECT changes_enable('t')")
        yield Side(name, connection)


def measure_rounds(sides: list[Side], statements: Iterable[str], rounds: int) -> None:
    """Measure each statement on each side once per round, in random order."""
    work = [(statement, side) for statement in statements for side in sides]
    for number in range(-1, rounds):  # round -1 is a warm-up
        print(f"\rround {number + 1} of {rounds}", end="", flush=True)
        for statement, side in random.sample(work, len(work)):
            side.measure(statement, number >= 0)
    print("\r", end="")


def print_changes(rounds: int) -> None:
    """Measure the costs, and print them as a table."""
    with Cluster(find_installation()) as cluster, ExitStack() as stack:
        cluster.start(SETTINGS)
        sides = [stack.enter_context(opened(cluster, name)) for name in SIDES]
        measure_rounds(sides, STATEMENTS, rounds)
        print("\n".join(table(sides)))


def table(sides: list[Side]) -> list[str]:
    """Return a Markdown table of medians. CPU times with a log are ratios to the baseline in the same round."""
    lines = [f"| | {' | '.join(SIDES)} |", f"|---|{'---:|' * len(sides)}"]
    by_name = {side.name: side for side in sides}
    for name in STATEMENTS:
        lines.append(f"| {name}, CPU | {' | '.join(price(side, by_name, name) for side in sides)} |")
        if name in sides[0].wal:
            cells = [f"{estimate(side.wal[name]).median:.0f}" for side in sides]
            lines.append(f"| bytes of WAL per row | {' | '.join(cells)} |")
    hot = "100.0 * sum(n_tup_hot_upd) / sum(n_tup_upd) FROM pg_stat_user_tables WHERE relname ~ '^t(_[12])?$'"
    lines.append(f"| HOT updates, % | {' | '.join(f'{side.settled(hot):.1f}' for side in sides)} |")
    lines.append(f"| MB of temporary files, UPDATE of all | {' | '.join(f'{temporary(side):.1f}' for side in sides)} |")
    return lines


def price(side: Side, sides: dict[str, Side], statement: str) -> str:
    base = sides.get(SIDES[side.name][2])
    if base is None:
        return f"{estimate(side.cpu[statement]).median:.1f} µs"
    return f"{paired_ratio(side.cpu[statement], base.cpu[statement]).median:.2f} ×"


def temporary(side: Side) -> float:
    spent = "temp_bytes FROM pg_stat_database WHERE datname = current_database()"
    before = side.settled(spent)
    execute(side.connection, "UPDATE t SET n = n + 1")
    return (side.settled(spent) - before) / 1e6
