"""The reader experiment as sections, one a round: what each reader lost, and how long it kept rows waiting."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from inorder.lab.experiments.reader import READ, READERS
from inorder.lab.results import Result, Run
from inorder.report import charts
from inorder.report.section import Chart, Column, Section, data_only, number

CAPTION = (
    "lost: committed, never delivered. twice: delivered more than once. wait: from a row's commit to its delivery. "
    "xmin horizon: rows below the oldest open transaction of the server."
)


NO_WAIT = "wait: left out, since the server's clock could not be compared with this machine's to 5 ms."


def milliseconds(value: float | None) -> str:
    """With a digit behind the point where it matters.

    >>> milliseconds(2.34), milliseconds(1834.2), milliseconds(None)
    ('2.3 ms', '1,834 ms', '')
    """
    if value is None:
        return ""
    return f"{value:,.1f} ms" if value < 100 else f"{value:,.0f} ms"


COLUMNS = (
    data_only("reader"),
    Column("reader", "How the reader keeps its place: what it has read already.", data="name"),
    data_only("round"),
    data_only("seconds"),
    data_only("held"),
    Column("committed", "Rows that the table holds in the end.", number()),
    Column("delivered", "Of these, given to the reader at least once.", number()),
    Column("lost", "Committed, never delivered: the reader's place had moved past them.", number()),
    Column("twice", "Delivered more than once.", number()),
    Column(
        "longest\nwait", "The longest time from a row's commit to its first delivery.", milliseconds, "longest_wait_ms"
    ),
    Column("median\nwait", "The median of these times.", milliseconds, "median_wait_ms"),
    Column("longest\npoll", "The longest time of one query of the reader.", milliseconds, "longest_poll_ms"),
    Column("polls", "Queries of the reader.", number(), terminal=False),
)


@dataclass(frozen=True)
class ReaderRow:
    """One reader in one round."""

    reader: str
    round: int
    seconds: float
    committed: int
    delivered: int
    lost: int
    twice: int
    longest_poll_ms: float
    polls: int
    held: int = 0  # of results made before it was counted: all servers were throw-away ones
    longest_wait_ms: float | None = None
    median_wait_ms: float | None = None


def row_of(run: Run) -> ReaderRow:
    """The figures of a run."""
    names = [field.name for field in fields(ReaderRow) if field.name not in ("reader", "round")]
    return ReaderRow(run.kind, run.round, **{name: run.metrics[name] for name in names if name in run.metrics})  # type: ignore[arg-type]


def summarise_reader(result: Result) -> list[ReaderRow]:
    """Every round, the readers in the order they are told of."""
    names = list(READERS)
    return sorted(map(row_of, result.select(READ)), key=lambda row: (row.round, names.index(row.reader)))


def lost_bars(rows: Sequence[ReaderRow]) -> list[charts.Bar]:
    """What each reader lost."""
    return [
        charts.Bar(READERS[row.reader], row.lost, f"{row.lost:,.0f}", charts.series(5 if row.lost else 0))
        for row in rows
    ]


def wait_bars(rows: Sequence[ReaderRow]) -> list[charts.Bar]:
    """The longest that each reader kept a row waiting."""
    return [
        charts.Bar(READERS[row.reader], row.longest_wait_ms, milliseconds(row.longest_wait_ms), charts.series(0))
        for row in rows
        if row.longest_wait_ms is not None
    ]


def caption(rows: Sequence[ReaderRow]) -> str:
    """What the columns are, and why rows or waits are missing in them."""
    told = [CAPTION] if wait_bars(rows) else [CAPTION, NO_WAIT]
    told += [
        f"{READERS[row.reader]}: {row.held:,.0f} rows were not lost but held back, by a transaction open elsewhere."
        for row in rows
        if row.held
    ]
    return " ".join(told)


def round_section(result: Result, rows: Sequence[ReaderRow]) -> Section:
    """One round."""
    writers, rounds = int(result.plan["writers"]), int(result.plan["rounds"])
    seconds = min(rows[0].seconds, float(result.plan["seconds"]))  # less after an interrupt
    which = f", round {rows[0].round} of {rounds}" if rounds > 1 else ""
    drawn = {"Rows lost": lost_bars(rows), "Longest wait from commit to delivery": wait_bars(rows)}
    return Section(
        f"round_{rows[0].round}",
        f"Losing rows: {writers} writers, {seconds:.0f} s{which}",
        COLUMNS,
        [
            [
                row.reader, READERS[row.reader], row.round, row.seconds, row.held, row.committed, row.delivered,
                row.lost, row.twice, row.longest_wait_ms, row.median_wait_ms, row.longest_poll_ms, row.polls,
            ]
            for row in rows
        ],
        caption(rows),
        [Chart(title, charts.bar_chart(title, bars)) for title, bars in drawn.items() if bars],
    )  # fmt: skip


def reader_sections(result: Result) -> list[Section]:
    """A table a round."""
    rows = summarise_reader(result)
    numbers = dict.fromkeys(row.round for row in rows)
    return [round_section(result, [row for row in rows if row.round == number]) for number in numbers]


def reader_headline(result: Result) -> str:
    """Who lost rows, of how many, over all rounds.

    What was lost is counted row by row, so it needs no interval; that nothing was is only true of these rounds.
    """
    rows = summarise_reader(result)
    lost = {name: sum(row.lost for row in rows if row.reader == name) for name in dict.fromkeys(r.reader for r in rows)}
    if not lost:
        return ""
    committed = sum(row.committed for row in rows if row.reader == rows[0].reader)
    losing = [f"'{READERS[name]}' {count:,.0f}" for name, count in lost.items() if count]
    whole = [f"'{READERS[name]}'" for name, count in lost.items() if not count]
    told = f"Of {committed:,.0f} rows committed, " + ("; ".join(losing) if losing else "none")
    told += " were lost for good." if losing else " was lost."
    return told + (f" Nothing was lost by {', '.join(whole)}." if losing and whole else "")
