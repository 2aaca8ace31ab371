"""Compare the cost of counting the rows of 20 groups: counts by group in both editions, and other methods.

script/price --groups runs this program. Each round runs every statement on every side, in random order. Statements that
write are measured in CPU time of the server process. In addition, pgbench measures the transactions per second of 16
clients that insert rows of one group, with and without synchronous commit. Reads are measured in CPU time of a query
for the counts of all groups, after 1,000 transactions that are not yet folded. At the end, the counts of each side are
compared with GROUP BY.
"""

import gzip
import json
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from inorder.connection.database import Connection, connect, execute, one_row
from inorder.installations import find_installation
from inorder.lab.analysis.stats import estimate, paired_ratio
from inorder.lab.instruments import pgbench
from inorder.lab.instruments.timing import ServerProcess
from inorder.lab.server.cluster import Cluster

from sql_edition import create

# With full_page_writes on, the amount of WAL would depend on the timing of checkpoints.
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "jit": "off", "synchronous_commit": "off"}
SETTINGS |= {"full_page_writes": "off", "autovacuum": "off", "max_connections": "200"}
ROWS, MANY, GROUPS, UNFOLDED = 200_000, 600, 20, 1_000
LOAD = pgbench.Load(16, 2, seconds=2)
FILL = (
    "CREATE TABLE t (id int PRIMARY KEY, status text, n int, body text) WITH (fillfactor = 45)",
    f"INSERT INTO t SELECT n, 's' || n % {GROUPS}, 0, repeat('x', 100) FROM generate_series(1, {ROWS}) AS n",
    "CREATE SEQUENCE ids START 1000000000", "VACUUM ANALYZE t",
)  # fmt: skip
BODY = """CREATE FUNCTION counted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP <> 'INSERT' THEN {} END IF;
    IF TG_OP <> 'DELETE' THEN {} END IF;
    RETURN NULL;
END $$"""
BY_ROW = (
    "CREATE TRIGGER counted AFTER INSERT OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION counted()",
    "CREATE TRIGGER moved AFTER UPDATE ON t FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) "
    "EXECUTE FUNCTION counted()",
)
ROW = "UPDATE counts SET n = n {} 1 WHERE status = {}.status;"
SLOT = (
    "INSERT INTO counts VALUES ({1}.status, floor(random() * 64), {0}1) "
    "ON CONFLICT (status, slot) DO UPDATE SET n = counts.n {0} 1;"
)
COUNT = "SELECT status, count(*) FROM t GROUP BY status"
SLOTS = "CREATE TABLE counts (status text, slot int, n int8, PRIMARY KEY (status, slot)) WITH (fillfactor = 50)"
# For each side: the edition ("" without inorder), the statements that create the counts, and a query for all counts.
SIDES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "no counts": ("", (), COUNT),
    "counter rows": ("", (
        "CREATE TABLE counts (status text PRIMARY KEY, n int8) WITH (fillfactor = 50)", f"INSERT INTO counts {COUNT}",
        BODY.format(ROW.format("-", "OLD"), ROW.format("+", "NEW")), *BY_ROW,
    ), "SELECT status, n FROM counts"),
    "slotted counters": ("", (
        SLOTS, "INSERT INTO counts SELECT status, 0, count(*) FROM t GROUP BY status",
        BODY.format(SLOT.format("-", "OLD"), SLOT.format("+", "NEW")), *BY_ROW,
    ), "SELECT status, sum(n) FROM counts GROUP BY status"),
    "C extension": ("c", ("SELECT exact_count_start('t', by => '{status}')", "SELECT exact_count_fold('t')"),
                    "SELECT status, count FROM t_by_status"),
    "SQL edition": ("sql", ("SELECT exact_count_start('t', by => '{status}')", "SELECT exact_count_fold('t')"),
                    "SELECT status, count FROM t_by_status"),
}  # fmt: skip
NEW = "INSERT INTO t SELECT 1000000 + %s::int * 600 + k, 's' || k % 20, 0, repeat('x', 100) FROM "
AT = f"%s::int * 7919 % {ROWS} + 1"
SOME = f"id > %s::int % {ROWS // MANY} * {MANY} AND id <= (%s::int % {ROWS // MANY} + 1) * {MANY}"
# Each entry has the number of calls per sample, and a statement whose %s is a number that grows with each call. Counts
# are folded once per 2,000 transactions, that is, once per two samples of a statement that writes one row.
STATEMENTS = {
    "INSERT of one row": (1000, "INSERT INTO t VALUES (1000000 + %s::int * 600, 's1', 0, repeat('x', 100))"),
    "UPDATE of one row": (1000, f"UPDATE t SET status = 's' || %s::int % {GROUPS} WHERE id = {AT}"),
    "UPDATE of another column": (1000, f"UPDATE t SET n = n + 1 WHERE id = {AT}"),
    "DELETE of one row": (1000, f"DELETE FROM t WHERE id = {AT}"),
    f"INSERT of {MANY} rows": (4, f"{NEW} generate_series(1, {MANY} - 1) AS k"),
    f"UPDATE of {MANY} rows": (4, f"UPDATE t SET status = 's' || %s::int % {GROUPS} WHERE {SOME}"),
    f"UPDATE of another column of {MANY} rows": (4, f"UPDATE t SET n = n + 1 WHERE {SOME}"),
}
READ = "read of all groups"
CLIENTS = {"16 clients on one group": "off", "16 clients that wait for the disk": "on"}  # label -> synchronous_commit
Samples = dict[str, dict[str, list[float]]]  # measurement -> side -> µs of CPU, or transactions per second


@dataclass
class Side:
    """A table in its own database, with the measured session and a second session."""

    name: str
    connection: Connection
    other: Connection
    calls: int = 0
    samples: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.process = ServerProcess(self.connection)

    def cpu(self, calls: int, text: str) -> float:
        text = text.replace(" % ", " %% ")
        first = self.calls + 1
        self.calls += calls

        def work() -> None:
            for number in range(first, first + calls):
                self.connection.execute(text.encode(), [number] * text.count("%s"), prepare=True)

        return self.process.timed(work)["cpu_seconds"] / calls * 1e6

    def read(self) -> float:
        """Return the CPU time of a read in µs, with 1,000 transactions since the last fold."""
        if SIDES[self.name][0]:
            execute(self.other, "SELECT exact_count_fold('t')")
        for number in range(UNFOLDED):
            changed = b"UPDATE t SET status = 's' || (n + %s) %% 20 WHERE id = %s"
            self.other.execute(changed, [number, number + 1], prepare=True)
        text = SIDES[self.name][2].encode()

        def work() -> None:
            for _ in range(10):
                self.connection.execute(text, prepare=True)

        work()
        return self.process.timed(work)["cpu_seconds"] / 10 * 1e6

    def throughput(self, cluster: Cluster, script: Path, waits: str) -> float:
        result = pgbench.run(
            cluster.original.program("pgbench"), script, LOAD, random.randrange(2**31),
            cluster.environment() | {"PGOPTIONS": f"-c synchronous_commit={waits}"},
            database=self.connection.info.dbname,
        )  # fmt: skip
        return result.tps

    def differs(self) -> int:
        shown = SIDES[self.name][2]
        difference = f"({shown} EXCEPT {COUNT}) UNION ALL ({COUNT} EXCEPT {shown})"
        return int(str(one_row(self.connection, f"SELECT count(*) FROM ({difference}) AS d")[0]))


@contextmanager
def opened(cluster: Cluster, name: str) -> Iterator[Side]:
    edition, statements, _ = SIDES[name]
    database = f"groups_{[*SIDES].index(name)}"
    with connect(cluster.dsn) as admin:
        execute(admin, f"CREATE DATABASE {database}")
    # A separate session creates the extension, because this takes many locks. A session's hash table of locks never
    # shrinks, and after so many locks each commit takes 3 µs longer.
    dsn = f"{cluster.dsn} dbname={database}"
    with connect(dsn) as creating:
        if edition:
            create(creating, edition)
        execute(creating, *FILL, *statements)
    with connect(dsn) as connection, connect(dsn) as other:
        yield Side(name, connection, other)


def measured(rounds: int, names: tuple[str, ...] = tuple(SIDES)) -> Samples:
    samples: Samples = {}
    with Cluster(find_installation()) as cluster, ExitStack() as stack:
        cluster.start(SETTINGS)
        script = cluster.folder / "one_group.sql"
        script.write_text("INSERT INTO t VALUES (nextval('ids'), 's1', 0, 'x');\n", encoding="utf-8")
        sides = [stack.enter_context(opened(cluster, name)) for name in names]
        work = [(name, side) for name in (*STATEMENTS, READ, *CLIENTS) for side in sides]
        for number in range(-1, rounds):  # round -1 is a warm-up
            print(f"\rround {number + 1} of {rounds}", end="", flush=True)
            for name, side in random.sample(work, len(work)):
                took = (
                    side.read() if name == READ
                    else side.throughput(cluster, script, CLIENTS[name]) if name in CLIENTS
                    else side.cpu(*STATEMENTS[name])
                )  # fmt: skip
                if number >= 0:
                    samples.setdefault(name, {}).setdefault(side.name, []).append(took)
        print("\r", end="")
        wrong = [f"{side.name}: {side.differs()}" for side in sides if side.differs()]
        assert wrong == [], wrong
    return {name: samples[name] for name in (*STATEMENTS, READ, *CLIENTS)}


def print_groups(rounds: int, raw: Path | None, show: Path | None) -> None:
    """Measure the costs and print them, or print those of an earlier run."""
    samples = json.loads(gzip.decompress(show.read_bytes())) if show else measured(rounds)
    if raw:
        raw.write_bytes(gzip.compress(json.dumps(samples).encode(), mtime=0))
    print("\n".join(table(samples)))


def table(samples: Samples) -> list[str]:
    """Return a Markdown table of medians. Most cells are relative to the table without counts in the same round."""
    names = [name for name in SIDES if name in next(iter(samples.values()))]
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    for name, sides in samples.items():
        base = sides["no counts"]
        unit = "/s" if name in CLIENTS else " µs"
        cells = [f"{estimate(base).median:,.0f}{unit}"]
        for side in names[1:]:
            cells.append(
                f"{estimate(sides[side]).median:,.0f} µs" if name == READ
                else f"{paired_ratio(sides[side], base).median:.2f} ×"
            )  # fmt: skip
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines
