"""The sequence experiment as sections: TPS by statement and clients, and one bulk statement; with P2 beside."""

from collections.abc import Mapping
from statistics import median

from inorder.lab.experiments.sequence import BULK, CONSTANT, INSERT, SELECT, STATEMENTS, kind_of, step_of
from inorder.lab.results import Result
from inorder.lab.stats import LEAST_ROUNDS, Estimate, estimate, ratio_by_round
from inorder.report.certainty import how_sure, too_few
from inorder.report.published import SEQUENCE_BULK_MS, SEQUENCE_BULK_ROWS, SEQUENCE_TPS
from inorder.report.section import Column, Section, Value, number, ratio

PUBLISHED_CLIENTS = (1, 10, 100)
PUBLISHED_CACHES = (1, 100)
MOST_UNSTEADY = 20  # percent of loss that an interval may leave open before it is said to tell little
SQL = {SELECT: "select {}", INSERT: "insert {}"}


def label(kind: str) -> str:
    """Where the value comes from, for a reader.

    >>> label("constant"), label("cache_100")
    ('1', 'nextval, CACHE 100')
    """
    return "1" if kind == CONSTANT else f"nextval, CACHE {kind.removeprefix('cache_')}"


def kinds(result: Result) -> list[str]:
    """Those of the plan and those published, in order of CACHE."""
    return [CONSTANT, *map(kind_of, sorted({*PUBLISHED_CACHES, *result.plan["caches"]}))]


def by_round(result: Result, step: str, kind: str, metric: str) -> dict[int, float]:
    """One metric of the runs there are."""
    return {run.round: run.metrics[metric] for run in result.select(step, kind) if metric in run.metrics}


def measured(result: Result, step: str, kind: str, metric: str, scale: float = 1.0) -> Estimate | None:
    """Over the rounds there are; None where nothing was measured."""
    values = by_round(result, step, kind, metric)
    return estimate([scale * value for value in values.values()]) if values else None


def to_constant(result: Result, step: str, kind: str, metric: str) -> Estimate | None:
    """The ratio to the same statement with a constant, paired within the round."""
    values, base = (by_round(result, step, one, metric) for one in (kind, CONSTANT))
    return ratio_by_round(values, base) if kind != CONSTANT else None


def wal_each(result: Result, step: str, kind: str) -> Estimate | None:
    """Bytes of WAL a transaction."""
    runs = result.select(step, kind)
    values = [run.metrics["wal_bytes"] / run.metrics["transactions"] for run in runs if "wal_bytes" in run.metrics]
    return estimate(values) if values else None


def load_row(result: Result, statement: str, kind: str, clients: int) -> list[Value]:
    """One statement with so many clients."""
    step, published = step_of(statement, clients), SEQUENCE_TPS.get((statement, kind), {}).get(clients)
    base = SEQUENCE_TPS[statement, CONSTANT].get(clients)
    return [
        SQL[statement].format(label(kind)),
        clients,
        measured(result, step, kind, "tps"),
        to_constant(result, step, kind, "tps"),
        to_constant(result, step, kind, "cpu_us"),
        published,
        published / base if published and base and kind != CONSTANT else None,
        wal_each(result, step, kind),
    ]


def load_section(result: Result) -> Section:
    """Every statement, its kinds, and its numbers of clients."""
    many = sorted({*PUBLISHED_CLIENTS, *result.plan["clients"]})
    columns = (
        Column("statement", "what each transaction does; insert: into a table of one bigint without an index"),
        Column("clients", "sessions of pgbench", number()),
        Column("TPS", "median of the rounds; pgbench, without connection time", number()),
        Column("ratio", "of TPS to that with a constant in the same round and with as many clients", ratio),
        Column("CPU ratio", "of the CPU time of the server's sessions a transaction, their start included", ratio),
        Column("publ. TPS", "P2", number()),
        Column("publ. ratio", "P2, of the figures beside", number(2)),
        Column("WAL B", "bytes of write-ahead log a transaction; pg_stat_wal", number(1)),
    )
    rows = [
        load_row(result, statement, kind, clients) for statement in STATEMENTS for clients in many
        for kind in kinds(result)
    ]  # fmt: skip
    wait = "wait" if result.plan["synchronous_commit"] == "on" else "do not wait"
    caption = (
        f"ratio: to the same statement with 1 instead of nextval. publ.: study P2, PostgreSQL 9.3.4 on 4 cores. Empty: "
        f"not measured, or not published. Commits {wait} for the disk. {how_sure(result)}"
    )
    title = f"nextval or a constant: pgbench, simple protocol, {result.plan['seconds']} s a turn"
    return Section("sequence-tps", title, columns, rows, caption)


def bulk_row(result: Result, kind: str) -> list[Value]:
    """One kind in bulk."""
    comparable = int(result.plan["rows"]) == SEQUENCE_BULK_ROWS
    published = median(SEQUENCE_BULK_MS[kind]) if comparable and kind in SEQUENCE_BULK_MS else None
    base = median(SEQUENCE_BULK_MS[CONSTANT])
    return [
        label(kind),
        measured(result, BULK, kind, "seconds", 1000.0),
        to_constant(result, BULK, kind, "seconds"),
        to_constant(result, BULK, kind, "cpu_seconds"),
        published,
        published / base if published and kind != CONSTANT else None,
        " ".join(map(str, SEQUENCE_BULK_MS[kind])) if published else None,
    ]


def bulk_section(result: Result) -> Section:
    """One INSERT … SELECT."""
    columns = (
        Column("value", "what is inserted"),
        Column("ms", "median of the rounds, by the wall clock", number(1)),
        Column("ratio", "of that time to that with a constant in the same round", ratio),
        Column("CPU ratio", "the same of the server process's CPU time", ratio),
        Column("publ. ms", "P2, median of its three runs", number(1)),
        Column("publ. ratio", "P2, of the figures beside", number(2)),
        Column("publ. runs", "P2, its three runs, ms", terminal=False),
    )
    title = f"{int(result.plan['rows']):,} rows by one INSERT … SELECT, without an index"
    return Section("sequence-bulk", title, columns, [bulk_row(result, kind) for kind in kinds(result)])


def sequence_sections(result: Result) -> list[Section]:
    """The tables of the report."""
    return [load_section(result), bulk_section(result)]


def sequence_headline(result: Result) -> str:
    """What is to be said of P2's conclusion, from the plainest sequence measured: one row a statement, and many."""
    kind = kind_of(min(int(cache) for cache in result.plan["caches"]))
    inserts = ratios_of_inserts(result, kind, "tps")
    if not inserts:
        return ""
    ratios = [f"TPS of an insert: {told(inserts)}"]
    if cpu := ratios_of_inserts(result, kind, "cpu_us"):
        ratios.append(f"its CPU time: {told(cpu)}")
    bulk = to_constant(result, BULK, kind, "cpu_seconds")
    if bulk:
        ratios.append(f"CPU time of one INSERT … SELECT: {ratio(bulk)}")
    return (
        f"P2 found that nextval is not the bottleneck of inserts. {verdict(inserts)} "
        f"Ratios of {label(kind)} to a constant: {'; '.join(ratios)}."
    )


def ratios_of_inserts(result: Result, kind: str, metric: str) -> dict[int, Estimate]:
    """By number of clients, as far as measured."""
    ratios = {int(many): to_constant(result, step_of(INSERT, many), kind, metric)
              for many in sorted(result.plan["clients"])}  # fmt: skip
    return {many: found for many, found in ratios.items() if found}


def told(ratios: Mapping[int, Estimate]) -> str:
    """One after the other."""
    return ", ".join(f"{ratio(found)} with {clients_text(many)}" for many, found in ratios.items())


def clients_text(many: int) -> str:
    """So many of them.

    >>> clients_text(1), clients_text(10)
    ('1 client', '10 clients')
    """
    return f"{many} client{'s' if many > 1 else ''}"


def verdict(inserts: Mapping[int, Estimate]) -> str:
    """Whether nextval slows inserts of one row, by number of clients, as far as the rounds can tell.

    >>> verdict({1: Estimate(0.99, 0.9, 1.1, 6)})
    'Here: no difference from a constant in TPS; a loss of more than 10 % is ruled out.'
    >>> verdict({1: Estimate(0.99, 0.3, 2.0, 6)})
    'Here: no difference from a constant in TPS, which are so unsteady that a loss of 70 % is not ruled out.'
    >>> verdict({1: Estimate(0.97, 0.94, 0.99, 6), 10: Estimate(1.0, 0.9, 1.1, 6)})
    'Here it takes 1 to 6 % of TPS with 1 client.'
    >>> verdict({1: Estimate(1.2, 1.1, 1.3, 6), 10: Estimate(1.1, 1.02, 1.2, 6)})
    'Here: no loss of TPS; with 1 client, 10 clients they are higher than with a constant.'
    >>> verdict({1: Estimate(0.5, 0.4, 0.6, 3)})
    'Too few rounds (3) to claim a difference; 6 can show one.'
    """
    if any(found.rounds < LEAST_ROUNDS for found in inserts.values()):
        return too_few(min(found.rounds for found in inserts.values()))
    lost = {
        many: (100 * (1 - found.high), 100 * (1 - found.low)) for many, found in inserts.items()
        if found.low is not None and found.high is not None and found.differs_from(1.0) and found.median < 1
    }  # fmt: skip
    if lost:
        losses = ", ".join(f"{low:.0f} to {high:.0f} % of TPS with {clients_text(many)}"
                           for many, (low, high) in lost.items())  # fmt: skip
        return f"Here it takes {losses}."
    if gained := [clients_text(many) for many, found in inserts.items() if found.differs_from(1.0)]:
        return f"Here: no loss of TPS; with {', '.join(gained)} they are higher than with a constant."
    most = 100 * (1 - min(found.low or 0.0 for found in inserts.values()))
    if most > MOST_UNSTEADY:
        return (
            "Here: no difference from a constant in TPS, which are so unsteady that "
            f"a loss of {most:.0f} % is not ruled out."
        )
    return f"Here: no difference from a constant in TPS; a loss of more than {most:.0f} % is ruled out."
