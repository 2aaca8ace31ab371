"""The result of a run, formatted as text."""

from collections import Counter
from dataclasses import dataclass, field

from load.fuzz.world import Failure
from load.stress.compare import counted

MOST_FAILURES = 20
LAST_STATEMENTS = 40
MOST_LETTERS = 700


@dataclass
class Result:
    server: str
    seed: int
    seconds: float
    sessions: int = 0
    statements: int = 0
    offered: int = 0  # number of functions, operators, casts and types that mallory may use
    functions: list[str] = field(default_factory=list)  # the functions among them
    called: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    honest: Counter[str] = field(default_factory=Counter)
    evil_runs: int = 0
    failures: list[Failure] = field(default_factory=list)


def reproduction(failure: Failure) -> list[str]:
    omitted = len(failure.statements) - LAST_STATEMENTS
    lines = [f"    -- {omitted} earlier statements are omitted; the seed repeats them"] if omitted > 0 else []
    for statement in failure.statements[-LAST_STATEMENTS:]:
        more = f"... /* {len(statement)} characters */" if len(statement) > MOST_LETTERS else ""
        lines.append(f"    {statement[:MOST_LETTERS]}{more};")
    return lines


def show(result: Result) -> str:
    calls = result.outcomes.total()
    shown = [
        f"{result.server}, seed {result.seed}, {result.seconds:.0f} s, {result.sessions} sessions, "
        f"{result.statements} statements, {calls} calls ({calls / max(result.seconds, 1):.0f} a second)",
        f"{len(result.called)} of {result.offered} functions, operators, casts and types called",
        f"calls by outcome: {counted(result.outcomes)}",
        f"others: {counted(result.honest)}",
        f"functions of mallory ran {result.evil_runs} times",
    ]
    if never := [name for name in result.functions if name not in result.called]:
        shown.append(f"never called: {', '.join(never)}")
    for failure in result.failures[:MOST_FAILURES]:
        shown += [f"FAILURE ({failure.oracle}): {failure.text}", *reproduction(failure)]
    if len(result.failures) > MOST_FAILURES:
        shown.append(f"and {len(result.failures) - MOST_FAILURES} more failures")
    shown.append("FAILED" if result.failures else "passed: no crash, no right gained, nothing of others changed")
    return "\n".join(shown) + "\n"
