"""The report on ways to write: their speed, their cost, and whether ids are in order."""

from collections.abc import Iterator, Sequence
from statistics import median

from inorder.lab.analysis.figures import median_of, per, ratio_of, ratios_of
from inorder.lab.experiments.writers.forms import BASELINE, FORMS, SERIAL_FORMS, XACT, WritersPlan
from inorder.lab.log_tables import BATCH_ROWS
from inorder.lab.results import Result, Run
from inorder.report.charts import bars_of, series
from inorder.report.section import Column, Section, Value, number, ratio
from inorder.report.verdict import Compared, Verdict, answer_of, capital, surety

# How many write: one session, or all of the plan's.
ALONE = "alone"
TOGETHER = "together"

STATEMENT_ROWS = (1, BATCH_ROWS)  # rows of one statement

# P5: rows a second by form, rows of a statement and number of sessions. Of CACHE 1000 with one row the study reports no
# change. It sets CACHE 1000 before the lock runs.
PUBLISHED_ROWS_PER_SECOND: dict[tuple[str, int, int], float | str] = {
    ("cached", 1, 1): "unchanged",
    ("plain", 1, 1): 10_796.0,
    ("plain", 600, 1): 76_200.0,
    ("cached", 600, 1): 88_613.0,
    ("lock_cached", 1, 16): 3_863.0,
    ("lock_cached", 600, 16): 79_800.0,
}
# Transactions a second, where the study has them.
PUBLISHED_TPS = {("plain", 600, 1): 127.2, ("lock_cached", 600, 16): 133.0}
# TPS that it prints elsewhere with other last digits.
PRINTED_TWICE = {("plain", 1, 1): 10_797, ("lock_cached", 1, 16): 3_867, ("lock_cached", 600, 16): 133.2}
# Rows that its check of the order of ids found misplaced.
PUBLISHED_MISPLACED = 0
# And of one of its transactions, and of each statement in it.
PUBLISHED_LATENCY_MS = {
    ("plain", 1, 1): 0.093, ("plain", 600, 1): 7.862, ("lock_cached", 1, 16): 4.1, ("lock_cached", 600, 16): 118.871,
}  # fmt: skip
PUBLISHED_STATEMENTS_MS: dict[tuple[str, int, int], dict[str, float]] = {
    ("lock_cached", 1, 16): {"lock": 3.877, "discard": 0.047, "insert": 0.117, "unlock": 0.090},
    ("lock_cached", 600, 16): {"lock": 112.007, "discard": 0.115, "insert": 7.137, "unlock": 0.169},
}
STATEMENT_WORDS = {
    "lock": "The statement that takes the lock", "discard": "DISCARD SEQUENCES", "insert": "The INSERT",
    "unlock": "The statement that releases the lock",
}  # fmt: skip

FORM = Column("form", "How the rows are written.")
SESSIONS = Column("sessions", "Sessions of pgbench that write at once.", number())

SPEED = (
    FORM,
    SESSIONS,
    Column("rows/s", "Transactions a second times rows of a statement (pgbench).", number(), bar=True),
    Column("vs one table", "To plain inserts by as many sessions in the same round.", ratio),
    Column("publ.", "The published figure, of other hardware.", number()),
    Column("TPS", "Transactions a second (pgbench).", number(1), terminal=False),
    Column("publ. TPS", "The published ones, if any.", number(1), terminal=False),
)
ORDER = (
    FORM,
    SESSIONS,
    Column("WAL/row", "Bytes of write-ahead log to a row (pg_stat_wal).", number(0, "B"), bar=True),
    Column("rows", "Written in all rounds.", number()),
    Column(
        "misplaced", "Rows with another place by id than by (transaction, id), within their table.", number(), bar=True
    ),
)
LATENCY = (
    FORM,
    SESSIONS,
    Column("ms", "A transaction, with its wait for the lock (pgbench).", number(3), bar=True),
    Column("publ.", "The published time, of other hardware.", number(3)),
    *(
        column
        for name, words in STATEMENT_WORDS.items()
        for column in (
            Column(f"{name} ms", f"{words} (pgbench -r).", number(3), terminal=name == "lock", bar=name == "lock"),
            Column(f"publ. {name}", "The published time of that statement.", number(3), terminal=name == "lock"),
        )
    ),
)
SPEED_CAPTION = (
    "vs one table: to plain inserts by as many sessions in the same round, median and interval. publ.: study P5, "
    "PostgreSQL 9.4; with a lock its sequence has CACHE 1000."
)
PRINTED = " One session, 600 rows: P5 prints 76,200 rows/s; its 127.2 TPS are 76,305."
ORDER_CAPTION = (
    "misplaced: rows whose rank by id is not their rank by (xmin, id), within the writer's table where it has one; P5 "
    f"found {PUBLISHED_MISPLACED}. "
    f"Where writers are not serial, 0 does not mean that polling by id is safe: {FORMS[XACT].label} needs a feed."
)


def rows_text(rows: int) -> str:
    """How large a statement is.

    >>> rows_text(1), rows_text(600)
    ('one row a statement', '600 rows a statement')
    """
    return "one row a statement" if rows == 1 else f"{rows} rows a statement"


def steps_of(clients: Sequence[int]) -> dict[int, str]:
    """The step of each number of sessions: the first number's is the plain one.

    >>> steps_of((16, 2))
    {16: 'together', 2: 'together@2'}
    """
    return {count: TOGETHER if place == 0 else f"{TOGETHER}@{count}" for place, count in enumerate(clients)}


def lines(result: Result, rows: int, clients: Sequence[int]) -> Iterator[tuple[str, str, int, list[Run]]]:
    """What was measured with so many rows a statement: step, form, sessions, runs."""
    together = sorted(steps_of(clients).items())
    for sessions, step in ((1, ALONE), *together):
        for form in FORMS:
            if runs := result.select(step, form, rows):
                yield step, form, sessions, runs


def speed_section(result: Result, rows: int, clients: Sequence[int]) -> Section:
    """Rows a second of each form."""
    shown: list[list[Value]] = [
        [
            FORMS[form].label,
            sessions,
            median_of(result, step, form, "rows_per_second", rows),
            ratio_of(result, step, form, BASELINE, "rows_per_second", rows),
            PUBLISHED_ROWS_PER_SECOND.get((form, rows, sessions)),
            median_of(result, step, form, "tps", rows),
            PUBLISHED_TPS.get((form, rows, sessions)),
        ]
        for step, form, sessions, _ in lines(result, rows, clients)
    ]
    twice = " and ".join(f"{tps:,}" for (_, of_statement, _), tps in PRINTED_TWICE.items() if of_statement == rows)
    caption = f"{SPEED_CAPTION}{PRINTED if rows == BATCH_ROWS else ''} Elsewhere P5 prints {twice} TPS."
    return Section(f"writers_speed_{rows}", f"Writing a log, {rows_text(rows)}", SPEED, shown, caption)


def latency_section(result: Result, rows: int, clients: Sequence[int]) -> Section:
    """How long a transaction of each form takes."""
    shown: list[list[Value]] = [
        [
            FORMS[form].label,
            sessions,
            median_of(result, step, form, "latency_ms", rows),
            PUBLISHED_LATENCY_MS.get((form, rows, sessions)),
            *(
                value
                for name in STATEMENT_WORDS
                for value in (
                    median_of(result, step, form, f"{name}_ms", rows),
                    PUBLISHED_STATEMENTS_MS.get((form, rows, sessions), {}).get(name),
                )
            ),
        ]
        for step, form, sessions, _ in lines(result, rows, clients)
    ]
    return Section(f"writers_latency_{rows}", f"Time of a transaction, {rows_text(rows)}", LATENCY, shown)


def order_section(result: Result, rows: int, clients: Sequence[int]) -> Section:
    """What each form costs, and whether its ids are in order."""
    shown: list[list[Value]] = [
        [
            FORMS[form].label,
            sessions,
            median_of(result, step, form, per("wal_bytes", "written"), rows),
            sum(run.metrics["written"] for run in runs),
            sum(run.metrics["misplaced"] for run in runs),
        ]
        for step, form, sessions, runs in lines(result, rows, clients)
    ]
    return Section(f"writers_order_{rows}", f"Order of its ids, {rows_text(rows)}", ORDER, shown, ORDER_CAPTION)


def sections(result: Result, plan: WritersPlan) -> list[Section]:
    """Speed, time and order, by rows of a statement; what has no run yet is left out."""
    makers = (speed_section, latency_section, order_section)
    made = [make(result, rows, plan.clients) for make in makers for rows in STATEMENT_ROWS]
    return [section for section in made if section.rows]


def in_order(result: Result, form: str) -> bool:
    """Whether none of its rows was misplaced."""
    return not any(run.metrics["misplaced"] for run in result.runs if run.kind == form)


def verdicts(result: Result, plan: WritersPlan, question: str) -> list[Verdict]:
    """What the fastest way to keep ids in order costs, by rows of a statement, and what needs no order."""
    compared, figures = [], []
    shown = [BASELINE, XACT]
    for rows in STATEMENT_ROWS:
        to_plain = {form: speed_of(result, form, rows) for form in SERIAL_FORMS}
        if serial := [form for form in SERIAL_FORMS if to_plain[form].found and in_order(result, form)]:
            best = max(serial, key=lambda form: median(to_plain[form].ratios.values()))
            compared.append(to_plain[best])
            figures.append(f"{capital(rows_text(rows))}: {FORMS[best].label}, {to_plain[best].words}.")
            if rows == 1:
                shown.insert(1, best)
    if not compared:
        return []
    feed = speed_of(result, XACT, 1)
    figures += [f"{FORMS[XACT].label} with a feed, which needs no order: {feed.words}."] if feed.found else []
    holds = f"{plan.clients[0]} sessions, a table that is empty at first, commits do not wait for the disk."
    bars = bars_of(
        ((FORMS[form].label, median_of(result, TOGETHER, form, "rows_per_second", 1), series(0)) for form in shown),
        number(0, "rows/s"),
    )
    return [Verdict(question, answer_of(compared), " ".join(figures), holds, surety(compared), bars)]


def speed_of(result: Result, form: str, rows: int) -> Compared:
    """Rows a second of all sessions, to plain inserts into one table."""
    ratios = ratios_of(result, TOGETHER, form, BASELINE, "rows_per_second", rows)
    return Compared("speed", FORMS[BASELINE].label, ratios, speed=True)
