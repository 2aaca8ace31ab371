"""The sequence experiment as sections and verdicts, with study P2 beside."""

from statistics import median

from inorder.lab.analysis.figures import median_of, per, ratio_of, ratios_of
from inorder.lab.experiments.sequence import plan as steps
from inorder.lab.experiments.sequence.plan import SequencePlan
from inorder.lab.results import Result
from inorder.report.charts import bars_of, series
from inorder.report.section import Column, Section, Value, number, ratio
from inorder.report.verdict import Compared, Verdict, capital, costs
from inorder.report.wording import how_sure

# P2, PostgreSQL 9.3.4, 4 cores: TPS by number of clients, by statement and source of the value.
PUBLISHED_TPS: dict[tuple[str, str], dict[int, float]] = {
    (steps.SELECT, "constant"): {1: 26991, 10: 97749, 100: 97019},
    (steps.SELECT, "cache_1"): {1: 17336, 10: 61615, 100: 69211},
    (steps.SELECT, "cache_100"): {1: 19379, 10: 69693, 100: 76410},
    (steps.INSERT, "constant"): {1: 4042, 10: 19792, 100: 30982},
    (steps.INSERT, "cache_1"): {1: 4083, 10: 18822, 100: 27365},
    (steps.INSERT, "cache_100"): {1: 3953, 10: 18145, 100: 28701},
}
# P2: milliseconds of one INSERT … SELECT of so many rows, by source of the value, three runs.
PUBLISHED_ROWS = 100_000
PUBLISHED_MS: dict[str, tuple[float, ...]] = {
    "constant": (145.6, 156.1, 172.9),
    "cache_1": (184.0, 183.7, 183.4),
    "cache_100": (181.2, 144.6, 198.5),
}
PUBLISHED_CLIENTS = (1, 10, 100)
PUBLISHED_CACHES = (1, 100)


def sections(result: Result, plan: SequencePlan) -> list[Section]:
    """TPS by statement and clients, and one bulk statement; with P2 beside."""
    return [load_section(result, plan), bulk_section(result, plan)]


def verdicts(result: Result, plan: SequencePlan, question: str) -> list[Verdict]:
    """Whether nextval of the plainest sequence slows inserts of one row, and whether each CACHE is needed."""
    kind = steps.kind_of(min(plan.caches))
    by_step = {steps.step_of(steps.INSERT, many): many for many in sorted(plan.clients)}
    compared = [
        Compared(
            "TPS", f"a constant with {clients_text(many)}", ratios_of(result, step, kind, steps.CONSTANT, "tps"), True
        )
        for step, many in by_step.items()
    ]
    bulk = Compared("CPU time", "a constant", ratios_of(result, steps.BULK, kind, steps.CONSTANT, "cpu_seconds"))
    more = f"{plan.rows:,} rows by one INSERT … SELECT: {bulk.words}." if bulk.found else ""
    shown = ((name, median_of(result, steps.step_of(steps.INSERT, max(plan.clients)), one, "tps"), series(0))
             for name, one in (("a constant", steps.CONSTANT), (steps.label(kind), kind)))  # fmt: skip
    holds = f"{steps.label(kind)}; a row a transaction, no index, {commits(plan)}. P2: nextval is not the bottleneck."
    return [
        *costs(question, compared, holds, bars_of(shown, number(0, "TPS")), more),
        *(one for cache in sorted(plan.caches)[1:] for one in cache_verdict(result, plan, cache)),
    ]


def cache_verdict(result: Result, plan: SequencePlan, cache: int) -> list[Verdict]:
    """Whether an insert with the least CACHE measured is slower than with this one, and which gaps this one leaves."""
    least, kind = steps.kind_of(min(plan.caches)), steps.kind_of(cache)
    by_step = {steps.step_of(steps.INSERT, many): many for many in sorted(plan.clients)}
    compared = [
        Compared("TPS", f"CACHE {cache} with {clients_text(many)}", ratios_of(result, step, least, kind, "tps"), True)
        for step, many in by_step.items()
    ]
    gaps = [gap.median for step in by_step if (gap := median_of(result, step, kind, "gaps"))]
    left = f"It left gaps of up to {max(gaps):,.0f} numbers in a measurement. " if gaps else ""
    holds = f"{left}P2 asks whether CACHE is needed at all, and advises against it unless it is: {steps.label(least)}."
    return costs(f"Is CACHE {cache} needed for inserts?", compared, holds)


def commits(plan: SequencePlan) -> str:
    """Whether they wait for the disk."""
    return f"commits {'wait' if plan.synchronous_commit == 'on' else 'do not wait'} for the disk"


def kinds_shown(plan: SequencePlan) -> list[str]:
    """Those of the plan and those published, in order of CACHE."""
    return [steps.CONSTANT, *map(steps.kind_of, sorted({*PUBLISHED_CACHES, *plan.caches}))]


def load_row(result: Result, statement: str, kind: str, clients: int) -> list[Value]:
    """One statement of one kind under one load."""
    step = steps.step_of(statement, clients)
    published = PUBLISHED_TPS.get((statement, kind), {}).get(clients)
    base = PUBLISHED_TPS[statement, steps.CONSTANT].get(clients)
    return [
        f"{statement} {steps.label(kind)}",
        clients,
        median_of(result, step, kind, "tps"),
        ratio_of(result, step, kind, steps.CONSTANT, "tps"),
        ratio_of(result, step, kind, steps.CONSTANT, "cpu_us"),
        published,
        published / base if published and base and kind != steps.CONSTANT else None,
        median_of(result, step, kind, per("wal_bytes", "transactions")),
        median_of(result, step, kind, "gaps"),
    ]


def load_section(result: Result, plan: SequencePlan) -> Section:
    """Every statement, its kinds, and its numbers of clients."""
    many = sorted({*PUBLISHED_CLIENTS, *plan.clients})
    columns = (
        Column("statement", "what each transaction does; insert: into a table of one bigint without an index"),
        Column("clients", "sessions of pgbench", number()),
        Column("TPS", "median of the rounds; pgbench, without connection time", number(), bar=True),
        Column("ratio", "of TPS to that with a constant in the same round and with as many clients", ratio),
        Column("CPU ratio", "of the CPU time of the server's sessions a transaction, their start included", ratio),
        Column("publ. TPS", "P2", number()),
        Column("publ. ratio", "P2, of the figures beside", number(2)),
        Column("WAL B", "bytes of write-ahead log a transaction; pg_stat_wal", number(1), bar=True),
        Column("gaps", "numbers of a measurement that sessions reserved by CACHE and did not use", number()),
    )
    rows = [
        load_row(result, statement, kind, clients) for statement in steps.STATEMENTS for clients in many
        for kind in kinds_shown(plan)
    ]  # fmt: skip
    caption = (
        f"ratio: to the same statement with 1 instead of nextval. publ.: study P2, PostgreSQL 9.3.4 on 4 cores. Empty: "
        f"not measured, or not published. {capital(commits(plan))}. P2 mentions Oracle, where CACHE 50 brought "
        f"a hundredfold; that is not measured here. {how_sure(result)}"
    )
    title = f"nextval or a constant: pgbench, simple protocol, {plan.seconds} s each"
    return Section("sequence-tps", title, columns, rows, caption)


def bulk_row(result: Result, plan: SequencePlan, kind: str) -> list[Value]:
    """One kind in bulk."""
    comparable = plan.rows == PUBLISHED_ROWS
    published = median(PUBLISHED_MS[kind]) if comparable and kind in PUBLISHED_MS else None
    base = median(PUBLISHED_MS[steps.CONSTANT])
    return [
        steps.label(kind),
        median_of(result, steps.BULK, kind, "seconds", scale=1000.0),
        ratio_of(result, steps.BULK, kind, steps.CONSTANT, "seconds"),
        ratio_of(result, steps.BULK, kind, steps.CONSTANT, "cpu_seconds"),
        published,
        published / base if published and kind != steps.CONSTANT else None,
        " ".join(map(str, PUBLISHED_MS[kind])) if published else None,
    ]


def bulk_section(result: Result, plan: SequencePlan) -> Section:
    """One INSERT … SELECT."""
    columns = (
        Column("value", "what is inserted"),
        Column("ms", "median of the rounds, by the wall clock", number(1), bar=True),
        Column("ratio", "of that time to that with a constant in the same round", ratio),
        Column("CPU ratio", "the same of the server process's CPU time", ratio),
        Column("publ. ms", "P2, median of its three runs", number(1)),
        Column("publ. ratio", "P2, of the figures beside", number(2)),
        Column("publ. runs", "P2, its three runs, ms", terminal=False),
    )
    title = f"{plan.rows:,} rows by one INSERT … SELECT, without an index"
    return Section("sequence-bulk", title, columns, [bulk_row(result, plan, kind) for kind in kinds_shown(plan)])


def clients_text(many: int) -> str:
    """So many of them.

    >>> clients_text(1), clients_text(10)
    ('1 client', '10 clients')
    """
    return f"{many} client{'s' if many > 1 else ''}"
