"""The report on readers, a table for each round: rows lost, and how long rows waited."""

from collections.abc import Sequence
from math import fsum

from inorder.lab.experiments.reader.readers import READERS, ReaderPlan
from inorder.lab.results import Result, Run
from inorder.report import charts
from inorder.report.section import Chart, Column, Section, data_only, number
from inorder.report.verdict import Verdict

READ = "read"  # the only step

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
    Column("lost", "Committed, never delivered: the reader's place had moved past them.", number(), bar=True),
    Column("twice", "Delivered more than once.", number()),
    Column(
        "longest\nwait",
        "The longest time from a row's commit to its first delivery.",
        milliseconds,
        "longest_wait_ms",
        bar=True,
    ),
    Column("median\nwait", "The median of these times.", milliseconds, "median_wait_ms"),
    Column("longest\npoll", "The longest time of one query of the reader.", milliseconds, "longest_poll_ms"),
    Column("polls", "Queries of the reader.", number(), terminal=False),
)


def lost_bars(runs: Sequence[Run]) -> list[charts.Bar]:
    """What each reader lost."""
    lost = {run.kind: run.metrics["lost"] for run in runs}
    return [charts.Bar(READERS[name], rows, f"{rows:,.0f}", charts.series(5 if rows else 0))
            for name, rows in lost.items()]  # fmt: skip


def wait_bars(runs: Sequence[Run]) -> list[charts.Bar]:
    """The longest that each reader kept a row waiting."""
    waits = {run.kind: run.metrics["longest_wait_ms"] for run in runs if "longest_wait_ms" in run.metrics}
    return [charts.Bar(READERS[name], wait, milliseconds(wait), charts.series(0)) for name, wait in waits.items()]


def caption(runs: Sequence[Run]) -> str:
    """What the columns are, and why rows or waits are missing in them."""
    words = [CAPTION] if wait_bars(runs) else [CAPTION, NO_WAIT]
    words += [
        f"{READERS[run.kind]}: {held:,.0f} rows were not lost but held back, by a transaction open elsewhere."
        for run in runs if (held := run.metrics.get("held", 0))
    ]  # fmt: skip
    return " ".join(words)


def row_of(run: Run) -> list[float | int | str | None]:
    """One reader. Results made before rows held back were counted are of throw-away servers, where none is."""
    found = run.metrics
    counted = [found[name] for name in ("committed", "delivered", "lost", "twice")]
    waits = [found.get(name) for name in ("longest_wait_ms", "median_wait_ms")]
    return [
        run.kind, READERS[run.kind], run.round, found["seconds"], found.get("held", 0), *counted, *waits,
        found["longest_poll_ms"], found["polls"],
    ]  # fmt: skip


def round_section(runs: Sequence[Run], plan: ReaderPlan) -> Section:
    """One round."""
    took = min(runs[0].metrics["seconds"], float(plan.seconds))  # less after an interrupt
    which = f", round {runs[0].round} of {plan.rounds}" if plan.rounds > 1 else ""
    drawn = {"Rows lost": lost_bars(runs), "Longest wait from commit to delivery": wait_bars(runs)}
    return Section(
        f"round_{runs[0].round}",
        f"Losing rows: {plan.writers} writers, {took:.0f} s{which}",
        COLUMNS,
        [row_of(run) for run in runs],
        caption(runs),
        [Chart(title, charts.bar_chart(title, bars)) for title, bars in drawn.items() if bars],
    )


def sections(result: Result, plan: ReaderPlan) -> list[Section]:
    """A table a round."""
    numbers = sorted({run.round for run in result.select(READ)})
    runs = [run for name in READERS for run in result.select(READ, name)]
    return [round_section([run for run in runs if run.round == number], plan) for number in numbers]


SHOWN = ("id", "created", "feed")  # the two usual ways of polling, and what loses nothing


def verdicts(result: Result, _plan: ReaderPlan, question: str) -> list[Verdict]:
    """Whether polling loses rows, over all rounds: lost rows are counted, so one is enough for a yes."""
    runs = {name: runs for name in READERS if (runs := result.select(READ, name))}
    if not runs:
        return []
    lost = {name: int(sum(run.metrics["lost"] for run in its_runs)) for name, its_runs in runs.items()}
    committed = sum(run.metrics["committed"] for run in next(iter(runs.values())))
    shown = [name for name in SHOWN if name in lost] or list(lost)[:3]
    words = ", ".join(f"{lost[name]:,} by '{READERS[name]}'" for name in shown)
    seconds = fsum(run.metrics["seconds"] for run in next(iter(runs.values())))
    some = any(lost.values())
    return [
        Verdict(
            question,
            "Yes" if some else "Not seen",
            f"Of {committed:,.0f} committed rows lost for good: {words}.",
            f"{result.plan['writers']} writers, {seconds:.0f} s.",
            "Counted row by row." if some else "That none was lost here does not rule it out: --seconds 60.",
            [charts.Bar(READERS[name], lost[name], f"{lost[name]:,}", charts.series(5 if lost[name] else 0))
             for name in shown],
        )
    ]  # fmt: skip
