"""The reader experiment as tables, one a round: what each reader lost, and how long it kept rows waiting."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from rich.table import Table

from inorder.lab.experiments.reader import READ, READERS
from inorder.lab.results import Result, Run
from inorder.report.terminal import plain_table

COLUMNS = ("committed", "delivered", "lost", "twice", "longest\nwait", "median\nwait", "longest\npoll")
CAPTION = (
    "lost: committed, never delivered. twice: delivered more than once. wait: from a row's commit to its delivery. "
    "xmin horizon: rows below the oldest open transaction of the server."
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
    longest_wait_ms: float
    median_wait_ms: float
    longest_poll_ms: float
    polls: int


def row_of(run: Run) -> ReaderRow:
    """The figures of a run."""
    names = [field.name for field in fields(ReaderRow) if field.name not in ("reader", "round")]
    return ReaderRow(run.kind, run.round, **{name: run.metrics[name] for name in names})  # type: ignore[arg-type]


def summarise_reader(result: Result) -> list[ReaderRow]:
    """Every round, the readers in the order they are told of."""
    names = list(READERS)
    return sorted(map(row_of, result.select(READ)), key=lambda row: (row.round, names.index(row.reader)))


def milliseconds(value: float) -> str:
    """With a digit behind the point where it matters.

    >>> milliseconds(2.34), milliseconds(1834.2)
    ('2.3 ms', '1,834 ms')
    """
    return f"{value:,.1f} ms" if value < 100 else f"{value:,.0f} ms"


def round_table(result: Result, rows: list[ReaderRow]) -> Table:
    """One round."""
    writers, rounds = int(result.plan["writers"]), int(result.plan["rounds"])
    seconds = min(rows[0].seconds, float(result.plan["seconds"]))  # less after an interrupt
    which = f", round {rows[0].round} of {rounds}" if rounds > 1 else ""
    table = plain_table(f"Losing rows: {writers} writers, {seconds:.0f} s{which}", CAPTION)
    table.add_column("reader", no_wrap=True, vertical="bottom")
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        counts = [f"{count:,}" for count in (row.committed, row.delivered, row.lost, row.twice)]
        times = [milliseconds(time) for time in (row.longest_wait_ms, row.median_wait_ms, row.longest_poll_ms)]
        table.add_row(READERS[row.reader], *counts, *times)
    return table


def reader_tables(result: Result) -> Iterator[Table]:
    """For the terminal."""
    rows = summarise_reader(result)
    for number in dict.fromkeys(row.round for row in rows):
        yield round_table(result, [row for row in rows if row.round == number])
