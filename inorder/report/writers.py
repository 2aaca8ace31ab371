"""The writers experiment: how fast each form of writing is, what it costs, and whether its ids are in order."""

from collections.abc import Iterator, Mapping

from inorder.lab.experiments.writers import ALONE, BASELINE, FORMS, SERIAL_FORMS, STATEMENT_ROWS, TOGETHER, XACT
from inorder.lab.results import Result, Run
from inorder.lab.stats import LEAST_ROUNDS, Estimate, estimate, ratio_by_round
from inorder.report.certainty import too_few
from inorder.report.published import (
    WRITERS_LATENCY_MS,
    WRITERS_LOCK_MS,
    WRITERS_MISPLACED,
    WRITERS_ROWS_PER_SECOND,
    WRITERS_TPS,
)
from inorder.report.section import Column, Section, Value, interval_text, number, ratio

FORM = Column("form", "How the rows are written.")
SESSIONS = Column("sessions", "Sessions of pgbench that write at once.", number())
PUBLISHED = Column("publ.", "The published figure, of other hardware.", number())

SPEED = (
    FORM,
    SESSIONS,
    Column("rows/s", "Transactions a second times rows of a statement (pgbench).", number()),
    Column("vs one table", "To plain inserts by as many sessions in the same round.", ratio),
    PUBLISHED,
    Column("TPS", "Transactions a second (pgbench).", number(1), terminal=False),
    Column("publ. TPS", "The published ones, where they are told.", number(1), terminal=False),
)
ORDER = (
    FORM,
    SESSIONS,
    Column("WAL/row", "Bytes of write-ahead log to a row (pg_stat_wal).", number(0, "B")),
    Column("rows", "Written in all rounds.", number()),
    Column("misplaced", "Rows with another place by id than by (transaction, id), within their table.", number()),
)
LATENCY = (
    FORM,
    SESSIONS,
    Column("ms", "A transaction, with its wait for the lock (pgbench).", number(2)),
    Column("publ.", "The published time, of other hardware.", number(2)),
    Column("lock ms", "The statement that takes the lock (pgbench).", number(2)),
    Column("publ. lock", "The published time of that statement.", number(2)),
)
SPEED_CAPTION = "vs one table: to plain inserts by as many sessions in the same round, median and interval."
ORDER_CAPTION = (
    "misplaced: rows whose rank by id is not their rank by (xmin, id), within the writer's table where it has one; P5 "
    f"found {WRITERS_MISPLACED}. "
    f"Where writers are not serial, 0 does not mean that polling by id is safe: {FORMS[XACT]} needs a feed."
)


def metric(runs: list[Run], name: str) -> dict[int, float]:
    """One metric by round, of the runs that have it."""
    return {run.round: run.metrics[name] for run in runs if name in run.metrics}


def ratio_to(values: Mapping[int, float], base: Mapping[int, float]) -> Estimate | None:
    """Paired within the rounds that have both; None without any."""
    return ratio_by_round(values, base)


def lines(result: Result, rows: int) -> Iterator[tuple[str, str, int, list[Run]]]:
    """What was measured with so many rows a statement: step, form, sessions, runs."""
    for step in (ALONE, TOGETHER):
        sessions = 1 if step == ALONE else int(result.plan["clients"])
        for form in FORMS:
            runs = result.select(step, form, rows)
            if runs:
                yield step, form, sessions, runs


def to_plain(result: Result, form: str, rows: int) -> Estimate | None:
    """The rows a second of writers at once, to those of plain inserts; None where one of the two was not measured."""
    speed, base = (metric(result.select(TOGETHER, one, rows), "rows_per_second") for one in (form, BASELINE))
    return ratio_to(speed, base)


def in_order(result: Result, form: str) -> bool:
    """Whether none of its rows was misplaced."""
    return not any(run.metrics["misplaced"] for run in result.runs if run.kind == form)


def writers_headline(result: Result) -> str:
    """What to use for readers, by rows of a statement: the fastest in order, and what needs no order."""
    told, rounds = [], LEAST_ROUNDS
    for rows in STATEMENT_ROWS:
        serial = {FORMS[form]: one for form in SERIAL_FORMS
                  if in_order(result, form) and (one := to_plain(result, form, rows))}  # fmt: skip
        if serial:
            label, best = max(serial.items(), key=lambda item: item[1].median)
            told.append(f"{label} {interval_text(best)} with {rows_text(rows)}")
            rounds = min(rounds, best.rounds)
    if not told:
        return ""
    feeds = [interval_text(one) for rows in STATEMENT_ROWS if (one := to_plain(result, XACT, rows))]
    parts = [
        f"The fastest way to keep ids in order, to plain inserts into one table: {', '.join(told)}.",
        f"{FORMS[XACT]} with a feed, which needs no order: {' and '.join(feeds)}." if feeds else "",
        too_few(rounds),
    ]
    return " ".join(part for part in parts if part)


def speed_section(result: Result, rows: int) -> Section:
    """Rows a second of each form."""
    shown: list[list[Value]] = []
    for step, form, sessions, runs in lines(result, rows):
        speed, base = (metric(some, "rows_per_second") for some in (runs, result.select(step, BASELINE, rows)))
        to_base = None if form == BASELINE else ratio_to(speed, base)
        published = WRITERS_ROWS_PER_SECOND.get((form, rows, sessions))
        tps, told = estimate(list(metric(runs, "tps").values())), WRITERS_TPS.get((form, rows, sessions))
        shown.append([FORMS[form], sessions, estimate(list(speed.values())), to_base, published, tps, told])
    return Section(f"writers_speed_{rows}", f"Writing a log, {rows_text(rows)}", SPEED, shown, SPEED_CAPTION)


def order_section(result: Result, rows: int) -> Section:
    """What each form costs, and whether its ids are in order."""
    shown: list[list[Value]] = []
    for _, form, sessions, runs in lines(result, rows):
        written = [run.metrics["written"] for run in runs]
        wal = [run.metrics["wal_bytes"] / run.metrics["written"] for run in runs if "wal_bytes" in run.metrics]
        shown.append(
            [
                FORMS[form],
                sessions,
                estimate(wal) if wal else None,
                sum(written),
                sum(run.metrics["misplaced"] for run in runs),
            ]
        )
    return Section(f"writers_order_{rows}", f"Order of its ids, {rows_text(rows)}", ORDER, shown, ORDER_CAPTION)


def latency_section(result: Result, rows: int) -> Section:
    """How long a transaction of each form takes."""
    shown: list[list[Value]] = []
    for _, form, sessions, runs in lines(result, rows):
        case, locks = (form, rows, sessions), list(metric(runs, "lock_ms").values())
        latency, lock = estimate(list(metric(runs, "latency_ms").values())), estimate(locks) if locks else None
        published = [WRITERS_LATENCY_MS.get(case), WRITERS_LOCK_MS.get(case)]
        shown.append([FORMS[form], sessions, latency, published[0], lock, published[1]])
    return Section(f"writers_latency_{rows}", f"Time of a transaction, {rows_text(rows)}", LATENCY, shown)


def rows_text(rows: int) -> str:
    """How large a statement is.

    >>> rows_text(1), rows_text(600)
    ('one row a statement', '600 rows a statement')
    """
    return "one row a statement" if rows == 1 else f"{rows} rows a statement"


def writers_sections(result: Result) -> list[Section]:
    """Speed, time and order, by rows of a statement; what has no run yet is left out."""
    makers = (speed_section, latency_section, order_section)
    sections = [make(result, rows) for make in makers for rows in STATEMENT_ROWS]
    return [section for section in sections if section.rows]
