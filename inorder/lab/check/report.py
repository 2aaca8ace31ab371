"""The result of a check as tables, as data, and as an HTML page."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

from inorder.lab.check.arena import RANDOM_LOAD, Failure, Outcome
from inorder.lab.check.diagram import psql_script
from inorder.lab.check.history import FAULTS
from inorder.lab.check.schedule import in_text
from inorder.lab.check.verdict import MEANINGS, Checked, drawn, in_words, sentence
from inorder.lab.check.ways import Way
from inorder.lab.report.formats import sections_page
from inorder.lab.report.section import Figure, Section, number, table


def summed(value: Callable[[Outcome], int], checked: Checked) -> int:
    return sum(map(value, checked.outcomes))


def of_reader(fault: str, checked: Checked) -> str:
    if fault not in checked.way.faults:
        return "not judged"
    case, failure = checked.worst.get(fault, ("", None))
    return f"{in_words(fault, failure)} ({case})" if failure else "no"


def fault_figures(value: Any, checks: Sequence[Checked]) -> list[Figure]:
    names = [name for name in FAULTS if any(name in checked.way.faults for checked in checks)]
    return [Figure(name, MEANINGS[name], value=partial(value, name), wrap=True, alarming=True) for name in names]


COSTS = [
    Figure("writers\nwait", "Schedules in which a writer waited for another session.", number(),
           "waited", value=attrgetter("waited")),
    Figure("writers\nfail", "Schedules in which a writer's transaction failed.", number(),
           "failed", value=attrgetter("failed")),
    Figure("schedules", "Schedules that were run.", number(), value=attrgetter("schedules")),
]  # fmt: skip


def readers_section(checks: Sequence[Checked]) -> Section:
    figures = [
        Figure("reader", "How the reader keeps its position.", value=lambda checked: checked.way.title, wrap=True),
        *fault_figures(of_reader, checks),
        *(replace(figure, value=partial(summed, figure.value)) for figure in COSTS),
    ]  # fmt: skip
    return table("readers", "Does the reader lose rows?", figures, checks)


def cases_section(checked: Checked) -> Section:
    def value(fault: str, outcome: Outcome) -> str:
        if fault in outcome.failures:
            return in_words(fault, outcome.failures[fault])
        if outcome.case == RANDOM_LOAD:
            return "not judged" if fault == "stalled" else "no"
        return "skipped" if outcome.note else "no"

    figures = [
        Figure("case", "What the transactions do.", value=lambda outcome: outcome.case),
        *fault_figures(value, [checked]),
        *COSTS,
    ]
    return table(f"cases_{checked.way.name}", f"{checked.way.title}: cases", figures, checked.outcomes)


def diagrams(checks: Sequence[Checked]) -> list[tuple[str, str]]:
    """Return the title and the diagram of the first fault of each reader that has a fault."""
    first = [(checked.way, *next(iter(checked.worst.items()))) for checked in checks if checked.worst]
    return [
        (f"{way.title}: {fault} ({case})", drawn(failure)) for way, fault, (case, failure) in first if failure.schedule
    ]


def script(checks: Sequence[Checked], _server: str) -> str:
    """Return the schedule of the first fault as a psql script."""
    scripts = (script_of(checked.way, failure) for checked in checks for _case, failure in checked.worst.values())
    return next(scripts, "-- No schedule has a fault.\n")


def script_of(way: Way, failure: Failure) -> str:
    cases = " ".join(event.sql for event in failure.history.events)
    more = ["CREATE TABLE elsewhere (n int)"] * ("elsewhere" in cases) + [way.listens] * bool(way.listen)
    return psql_script([way.setup, *more], failure.history, failure.judged)


def records(checks: Sequence[Checked], server: str) -> list[dict[str, Any]]:
    return [
        {"reader": checked.way.name, "server": server, "verdict": sentence(checked)}
        | {name: getattr(checked.way, name) for name in ("title", "project", "version", "source", "run", "note")}
        | {"faults": {fault: finding_record(checked.way, fault, *worst) for fault, worst in checked.worst.items()}}
        | {"cases": [
            {"case": case.case, "schedules": case.schedules, "faults": sorted(case.failures),
             "writers_wait": case.waited, "writers_fail": case.failed, "note": case.note}
            for case in checked.outcomes
        ]}
        for checked in checks
    ]  # fmt: skip


def finding_record(way: Way, fault: str, case: str, failure: Failure) -> dict[str, Any]:
    record = {"case": case, "words": in_words(fault, failure)}
    if not failure.schedule:
        return record
    schedule = in_text(failure.schedule)
    return record | {"schedule": schedule, "diagram": drawn(failure), "psql": script_of(way, failure)}


def sentences(checks: Sequence[Checked]) -> list[str]:
    """Return the verdict on each reader, preceded by its title if there are several readers."""
    return [f"{checked.way.title}: {sentence(checked)}" if len(checks) > 1 else sentence(checked) for checked in checks]


def page(checks: Sequence[Checked], server: str) -> str:
    sections = [readers_section(checks), *map(cases_section, checks)]
    return sections_page("inorder lab check", f"PostgreSQL {server}", sections, diagrams(checks), sentences(checks))
