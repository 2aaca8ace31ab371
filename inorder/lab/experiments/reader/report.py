"""The report on readers, a table for each round: rows lost, and how long rows waited."""

from collections.abc import Callable, Mapping, Sequence
from math import fsum

from inorder.lab.analysis.figures import per
from inorder.lab.experiments.reader.readers import READERS, ReaderPlan
from inorder.lab.report.section import Figure, Section, data_only, number, table
from inorder.lab.report.verdict import PLAIN, Bar, Verdict
from inorder.lab.results import Result, Run

READ = "read"  # the only step

CAPTION = (
    "lost: committed, never delivered. twice: delivered more than once. wait: from a row's commit to its delivery. "
    "xmin horizon: rows below the oldest open transaction of the server."
)
NO_WAIT = "wait: left out, since the server's clock could not be compared with this machine's to 5 ms."


milliseconds = number(lambda size: int(size < 100), "ms")


def of(metric: str) -> Callable[[Run], float | None]:
    return lambda run: run.metrics.get(metric)


FIGURES = (
    data_only("reader", lambda run: run.kind),
    Figure("reader", "How the reader keeps its place: what it has read already.", data="name",
           value=lambda run: READERS[run.kind]),
    data_only("round", lambda run: run.round),
    data_only("seconds", lambda run: run.metrics["seconds"]),
    data_only("held", lambda run: run.metrics["held"]),
    Figure("lost", "Committed, never delivered: the reader's place had moved past them.", number(), bar=True,
           value=of("lost"), better="none", compared=per("lost", "committed")),
    Figure("twice", "Delivered more than once.", number(), value=of("twice"), better="none",
           compared=per("twice", "committed")),
    Figure("longest\nwait", "The longest time from a row's commit to its first delivery.", milliseconds,
           "longest_wait_ms", bar=True, value=of("longest_wait_ms"), better="less", compared="longest_wait_ms"),
    Figure("median\nwait", "The median of these times.", milliseconds, "median_wait_ms", value=of("median_wait_ms"),
           better="less", compared="median_wait_ms"),
    Figure("longest\npoll", "The longest time of one query of the reader.", milliseconds, "longest_poll_ms",
           value=of("longest_poll_ms"), compared="longest_poll_ms"),
    Figure("committed", "Rows that the table holds in the end.", number(), value=of("committed")),
    Figure("delivered", "Of these, given to the reader at least once.", number(), value=of("delivered"),
           compared="delivered"),
    Figure("polls", "Queries of the reader.", number(), terminal=False, value=of("polls"), compared="polls"),
)  # fmt: skip


def caption(runs: Sequence[Run]) -> str:
    words = [CAPTION] if any("longest_wait_ms" in run.metrics for run in runs) else [CAPTION, NO_WAIT]
    words += [
        f"{READERS[run.kind]}: {held:,.0f} rows were not lost but held back, by a transaction open elsewhere."
        for run in runs if (held := run.metrics.get("held", 0))
    ]  # fmt: skip
    return " ".join(words)


def round_section(runs: Sequence[Run], plan: ReaderPlan) -> Section:
    took = min(runs[0].metrics["seconds"], float(plan.seconds))  # less after an interrupt
    which = f", round {runs[0].round} of {plan.rounds}" if plan.rounds > 1 else ""
    return table(
        f"round_{runs[0].round}",
        f"Losing rows: {plan.writers} writers, {took:.0f} s{which}",
        FIGURES,
        runs,
        caption(runs),
    )


def sections(result: Result, plan: ReaderPlan) -> list[Section]:
    numbers = sorted({run.round for run in result.select(READ)})
    runs = [run for name in READERS for run in result.select(READ, name)]
    return [round_section([run for run in runs if run.round == number], plan) for number in numbers]


LOSING = "series-6"
WAIT, LOSELESS = "longest_wait_ms", ("horizon", "feed")
SHOWN = ("id", "created", "feed")  # the two usual ways of polling, and what loses nothing


def longest_waits(runs: Mapping[str, Sequence[Run]]) -> str:
    waits = {name: [run.metrics[WAIT] for run in runs.get(name, ()) if WAIT in run.metrics] for name in LOSELESS}
    words = [f"{milliseconds(max(some))} by '{READERS[name]}'" for name, some in waits.items() if some]
    return f" Longest wait of a row: {', '.join(words)}." if len(words) == len(LOSELESS) else ""


def verdicts(result: Result, _plan: ReaderPlan, question: str) -> list[Verdict]:
    runs = {name: runs for name in READERS if (runs := result.select(READ, name))}
    if not runs:
        return []
    lost = {name: int(sum(run.metrics["lost"] for run in its_runs)) for name, its_runs in runs.items()}
    committed = sum(run.metrics["committed"] for run in next(iter(runs.values())))
    shown = [name for name in SHOWN if name in lost] or list(lost)[:3]
    words = ", ".join(f"{lost[name]:,} by '{READERS[name]}'" for name in shown)
    seconds = fsum(run.metrics["seconds"] for run in next(iter(runs.values())))
    waits = longest_waits(runs)
    some = any(lost.values())
    return [
        Verdict(
            question,
            "Yes" if some else "Not seen",
            f"Of {committed:,.0f} committed rows lost for good: {words}.{waits}",
            f"{result.plan['writers']} writers, {seconds:.0f} s.",
            "Counted row by row." if some else "That none was lost here does not rule it out: --seconds 60.",
            [Bar(READERS[name], lost[name], f"{lost[name]:,}", LOSING if lost[name] else PLAIN)
             for name in shown],
        )
    ]  # fmt: skip
