"""CPU time of generating a key, above that of a function that returns a constant; CPU time of bulk inserts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from inorder.connection.database import Connection, execute
from inorder.lab.analysis.figures import Row, by_round, estimated
from inorder.lab.analysis.stats import LEAST_ROUNDS, Estimate, ratio_by_round, ratios_by_round
from inorder.lab.plan import setting
from inorder.lab.plan.capabilities import NO_INORDER, Adapted, Capabilities, OwnRun
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.plan.turn import Metrics, Stage, every_round, single
from inorder.lab.report.section import Figure, Section, Value, interval_text, number, table
from inorder.lab.report.verdict import PLAIN, Compared, Verdict, bars_of
from inorder.lab.results.result import Result, Run
from inorder.lab.run.experiment import Experiment

# The steps: generate values, insert rows with generated keys, and operate on values.
CALL, INSERT, TASK = "call", "insert", "task"

FLOOR = "floor"
BASELINE_CALL = "gen_random_uuid"
BASELINE_INSERT = "nextval"

# The SQL expression of each generator.
CALLS = {
    FLOOR: "pg_temp.uuid_call_floor()",
    "gen_random_uuid": "gen_random_uuid()",
    "uuid_time_nextval": "uuid_time_nextval()",
    "uuid_v7_nextval": "uuid_v7_nextval()",
    "uuid_xact_nextval": "uuid_xact_nextval()",
    "uuid_sequence_nextval": f"uuid_sequence_nextval('{SCHEMA}.cached')",
    "nextval": f"nextval('{SCHEMA}.cached')",
    "uuidv7": "uuidv7()",
}
SINCE = {"uuidv7": 18}  # built-in functions, and the major version that introduced each
# The baseline if the C function below cannot be declared: a built-in function that does almost nothing.
OWN_FLOOR = "pg_backend_pid()"
ORDERED = ("uuid_v7_nextval", "uuid_xact_nextval")  # generators that the verdict compares with gen_random_uuid()
INSERTS = (
    "nextval", "uuid_v7_nextval", "uuid_xact_nextval", "uuid_time_nextval", "uuid_sequence_nextval", "gen_random_uuid",
)  # fmt: skip
# Operations on values, apart from generating them, as "<type> <task>".
TYPES = ("uuid", "uuid_v1")
TASKS = {"in": "text in", "out": "text out", "sort": "ORDER BY", "group": "GROUP BY, hashed", "join": "hash join"}
EVERY_TASK = tuple(f"{type_name} {task}" for type_name in TYPES for task in TASKS)
AT_ONCE = 20  # calls of a type's input or output function per row, to make the cost of the row itself small
CALLED = (
    "SELECT count(*) FROM (SELECT '{example}'::{type} AS value FROM generate_series(1, {rows}) OFFSET 0) AS e "
    "WHERE ROW({calls}) IS NOT NULL"
)
QUERIES = {
    "sort": "SELECT id FROM {table} ORDER BY id OFFSET {values}",
    "group": "SELECT count(*) FROM (SELECT id FROM {table} GROUP BY id) AS g",
    "join": "SELECT count(*) FROM {table} AS a JOIN {table} AS b USING (id)",
}
EXAMPLE = "fb2893ae-9265-11e8-90d8-e03f496e733b"

SERVER_SETTINGS = {"shared_buffers": "1GB", "fsync": "off", "max_wal_size": "16GB", "checkpoint_timeout": "1h"}
SESSION_SETTINGS = {"max_parallel_workers_per_gather": "0", "enable_mergejoin": "off", "enable_nestloop": "off"}
TABLES = (
    f"CREATE SEQUENCE {SCHEMA}.cached CACHE 100",
    f"CREATE TABLE {SCHEMA}.number_keys (id bigint PRIMARY KEY)",
    f"CREATE TABLE {SCHEMA}.uuid_keys (id uuid PRIMARY KEY)",
)
# The function returns a constant, but is declared VOLATILE: otherwise, the planner would call it only once. Only a
# superuser may declare it.
C_FUNCTION = (
    "CREATE FUNCTION pg_temp.uuid_call_floor(bigint DEFAULT 0) RETURNS uuid "
    "AS '$libdir/inorder', 'uuid_xact_floor' LANGUAGE C VOLATILE STRICT"
)

# Disk space per row: heap and index of a uuid key, with the free space that random keys leave, and WAL.
BYTES_PER_ROW = 253

NANOSECONDS = 1e9
SURE = f"Median with its interval; with fewer than {LEAST_ROUNDS} rounds, with the range."


@dataclass(frozen=True, kw_only=True)
class GeneratorsPlan(setting.Plan):
    values: int = setting.count(
        "Values that one statement generates.", 1000, 10**9, 1_000_000, quick=300_000, full=5_000_000
    )
    rows: int = setting.count("Rows of one INSERT … SELECT.", 1000, 10**9, 500_000, quick=200_000)
    rounds: int = setting.rounds(9, quick=3, full=15)
    calls: tuple[str, ...] = setting.choices(
        "Generators.", tuple(name for name in CALLS if name in INSERTS), asked=False,
        needs_inorder=lambda name: name.startswith("uuid_"),
    )  # fmt: skip
    tasks: tuple[str, ...] = setting.choices("Operations on values.", EVERY_TASK, asked=False)


class GeneratorsExperiment(Experiment[GeneratorsPlan]):
    question = "Is generating a key expensive?"
    studies = ("P2",)
    programs = ()
    method = "CPU time"
    own = OwnRun(
        counts=False, unseen="CPU time",
        otherwise="All times are by the wall clock. The floor that is subtracted is a call of pg_backend_pid(); a "
        "function that returns a uuid costs somewhat more, even if it does nothing else.",
    )  # fmt: skip
    session: Connection
    missing: tuple[str, ...] = ()  # generators that this server is too old to have

    @classmethod
    def room(cls, plan: GeneratorsPlan) -> tuple[int, str]:
        return plan.rows * BYTES_PER_ROW, f"{plan.rows:,} rows"

    @classmethod
    def adapt(cls, plan: GeneratorsPlan, can: Capabilities) -> Adapted[GeneratorsPlan]:
        adaptation = super().adapt(plan, can)
        if can.has_inorder:
            return adaptation
        return adaptation.but(f"{NO_INORDER}: all operations on values of uuid_v1." if plan.tasks else "", tasks=())

    def prepare(self) -> None:
        self.target.serve(SERVER_SETTINGS)
        self.session = self.open_session(**SESSION_SETTINGS, work_mem=self.target.work_mem)
        major = self.session.info.server_version // 10000
        self.missing = tuple(name for name, since in SINCE.items() if major < since)
        self.has_values = False
        self.target.create_schema(self.session)
        self.execute(*TABLES, *((C_FUNCTION,) if self.target.is_superuser else ()))

    def execute(self, *statements: str) -> None:
        execute(self.session, *statements)

    def stages(self) -> list[Stage]:
        calls = [name for name in CALLS if name in self.plan.calls or name in (FLOOR, *SINCE)]
        steps = (
            (CALL, self.plan.values, self.call, [name for name in calls if name not in self.missing]),
            (INSERT, self.plan.rows, self.insert, [name for name in INSERTS if name in calls]),
            (TASK, self.plan.values, self.task, self.plan.tasks),
        )
        turns = [
            single(step, name, amount, f"{step} {name}", partial(measure, name))
            for step, amount, measure, names in steps for name in names
        ]  # fmt: skip
        return [Stage(every_round(turns), self.plan.rounds, warm_up=True)]

    def expression(self, name: str) -> str:
        return OWN_FLOOR if name == FLOOR and not self.target.is_superuser else CALLS[name]

    def call(self, name: str, _seed: int = 0) -> Metrics:
        """Evaluate the expression once per row. The cost of count() is the same for all expressions."""
        return self.timed(f"SELECT count({self.expression(name)}) FROM generate_series(1, {self.plan.values})")

    def insert(self, name: str, _seed: int = 0) -> Metrics:
        table = f"{SCHEMA}.{'number' if name == BASELINE_INSERT else 'uuid'}_keys"
        self.execute(f"TRUNCATE {table}")
        self.target.checkpoint(self.session)
        rows = f"SELECT {self.expression(name)} FROM generate_series(1, {self.plan.rows})"
        return self.timed(f"INSERT INTO {table} {rows}")

    def task(self, name: str, _seed: int = 0) -> Metrics:
        type_name, task = name.split()
        values = self.plan.values
        if task in ("in", "out"):
            calls = ", ".join([f"{type_name}_{task}(e.value)"] * AT_ONCE)
            argument = "cstring" if task == "in" else type_name
            return self.timed(CALLED.format(example=EXAMPLE, type=argument, rows=values // AT_ONCE, calls=calls))
        self.make_values()
        self.execute(f"SET enable_sort = {task == 'sort'}")
        measured = self.timed(QUERIES[task].format(table=f"{SCHEMA}.shuffled_{type_name}", values=values))
        self.execute("RESET enable_sort")
        return measured

    def make_values(self) -> None:
        if self.has_values:
            return
        keys = f"SELECT uuid_v1_nextval() AS id FROM generate_series(1, {self.plan.values})"
        self.execute(
            f"CREATE TABLE {SCHEMA}.shuffled_uuid_v1 AS SELECT id FROM ({keys} OFFSET 0) AS k ORDER BY md5(id::text)",
            f"CREATE TABLE {SCHEMA}.shuffled_uuid AS SELECT id::uuid FROM {SCHEMA}.shuffled_uuid_v1",
            f"VACUUM ANALYZE {SCHEMA}.shuffled_uuid_v1",
            f"VACUUM ANALYZE {SCHEMA}.shuffled_uuid",
        )
        self.has_values = True

    def timed(self, statement: str) -> Metrics:
        return self.target.timed(self.session, lambda: self.execute(statement))


def by_cpu(result: Result) -> bool:
    return all("cpu_seconds" in run.metrics for run in result.runs)


def costs(result: Result, step: str, name: str) -> dict[int, float]:
    clock = "cpu_seconds" if by_cpu(result) else "seconds"

    def nanoseconds(run: Run) -> float:
        return NANOSECONDS * run.metrics[clock] / run.rows

    return by_round(result, step, name, nanoseconds)


def above_floor(result: Result, name: str) -> dict[int, float]:
    values, floors = (costs(result, CALL, call) for call in (name, FLOOR))
    return {number: values[number] - floors[number] for number in sorted(values.keys() & floors.keys())}


def as_part(value: Value) -> str:
    return f"1/{1 / value.median:.1f}" if isinstance(value, Estimate) and value.median > 0 else ""


def call_figures(spent: str, floor: str) -> tuple[Figure, ...]:
    return (
        Figure("generator", "The function, which one statement calls for many values.", data="name",
               value=lambda row: row.kind),
        Figure("ns/value", f"{spent} per value, minus {floor} (the floor). {SURE}", number(0, interval=True),
               "call_ns", bar=True, value=lambda row: estimated(above_floor(row.result, row.kind).values())),
        Figure("of random", "Ratio to gen_random_uuid() in the same round.", as_part, "part_of_random",
               value=lambda row: ratio_by_round(
                   *(above_floor(row.result, call) for call in (row.kind, BASELINE_CALL)))),
        Figure("bulk ns", f"{spent} per row of INSERT … SELECT into a table with a primary key.", number(),
               "insert_ns_per_row", bar=True,
               value=lambda row: estimated(costs(row.result, INSERT, row.kind).values())),
        Figure("vs nextval", f"Ratio to nextval of a sequence with CACHE 100, in the same round. {SURE}",
               interval_text, "insert_ratio",
               value=lambda row: ratio_by_round(
                   *(costs(row.result, INSERT, call) for call in (row.kind, BASELINE_INSERT)))),
    )  # fmt: skip


def calls_section(result: Result) -> Section:
    cpu = by_cpu(result)
    title = f"{'CPU time of the server process' if cpu else 'Time by the wall clock'}, median and interval"
    if floor := estimated(costs(result, CALL, FLOOR).values()):
        title += f". The floor of {floor.median:.0f} ns a value is subtracted"
    spent, floor_is = ("CPU nanoseconds", "a C function that returns a constant") if cpu else ("Nanoseconds", OWN_FLOOR)
    caption = (
        "of random: relative to gen_random_uuid(). bulk: the time for a row of INSERT … SELECT into a table with a "
        "primary key. vs nextval: bulk, relative to bigint by nextval of a sequence with CACHE 100."
    )
    lines = [Row(result, "", name) for name in sorted({run.kind for run in result.runs if run.step != TASK} - {FLOOR})]
    return table("generators", title, call_figures(spent, floor_is), lines, caption)


def of_type(name: str) -> Callable[[Row], Estimate | None]:
    return lambda row: estimated(costs(row.result, TASK, f"{name} {row.kind}").values())


def task_section(result: Result) -> Section:
    spent, short = ("CPU nanoseconds", "CPU ns") if by_cpu(result) else ("Nanoseconds", "ns")
    figures = [Figure("task", "The operation on the values.", value=lambda row: TASKS[row.kind])]
    figures += [
        Figure(name, f"{spent} of a value of type {name}. {SURE}", number(0, interval=True), bar=True,
               value=of_type(name))
        for name in TYPES
    ]  # fmt: skip
    to_first = Figure("ratio", f"Ratio of {TYPES[1]} to {TYPES[0]} in the same round. {SURE}", interval_text,
                      value=lambda row: ratio_by_round(
                          *(costs(row.result, TASK, f"{name} {row.kind}") for name in reversed(TYPES))))  # fmt: skip
    lines = [Row(result, TASK, task) for task in TASKS]
    measured = [line for line in lines if all(of_type(name)(line) for name in TYPES)]
    return table("tasks", f"Operations on values, {short} a value", [*figures, to_first], measured)


def sections(result: Result, _plan: GeneratorsPlan) -> Sequence[Section]:
    return [section for section in (calls_section(result), task_section(result)) if section.rows]


def verdicts(result: Result, plan: GeneratorsPlan, question: str) -> Sequence[Verdict]:
    shown = {name: estimated(above_floor(result, name).values()) for name in (BASELINE_CALL, *ORDERED)}
    ordered, base = (above_floor(result, name) for name in (ORDERED[0], BASELINE_CALL))
    to_random = Compared("CPU time" if by_cpu(result) else "time", f"{BASELINE_CALL}()", ratios_by_round(ordered, base))
    cost = shown[ORDERED[0]]
    if cost is None or to_random.ratio is None:
        return []
    return [
        Verdict(
            question,
            f"{cost.median:,.0f} ns",
            f"This is the cost of a version-7 key: {to_random.words}.",
            f"One statement generates {plan.values:,} values; the time of a function that returns a constant is "
            "subtracted.",
            to_random.to_decide,
            bars_of(((f"{name}()", value, PLAIN) for name, value in shown.items()), number(0, "ns")),
        )
    ]
