"""What a run found, as text."""

from dataclasses import dataclass, field

from fuzz.world import Failure

MOST_FAILURES = 20
LAST_STATEMENTS = 40
MOST_LETTERS = 700


@dataclass
class Result:
    server: str
    seed: int
    seconds: float
    sessions: int = 0
    calls: int = 0
    statements: int = 0
    offered: int = 0  # functions that mallory may execute
    called: int = 0  # of them
    not_called: list[str] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=dict)
    honest: dict[str, int] = field(default_factory=dict)
    evil_runs: int = 0
    failures: list[Failure] = field(default_factory=list)


def listed(counts: dict[str, int]) -> str:
    """The most frequent first.

    >>> listed({"ok": 1, "42": 3})
    '42: 3, ok: 1'
    """
    return ", ".join(f"{name}: {count}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def reproduction(failure: Failure) -> list[str]:
    omitted = len(failure.statements) - LAST_STATEMENTS
    lines = [f"    -- {omitted} statements before are left out; the seed gives them again"] if omitted > 0 else []
    for statement in failure.statements[-LAST_STATEMENTS:]:
        short = (
            statement
            if len(statement) <= MOST_LETTERS
            else f"{statement[:MOST_LETTERS]}... /* {len(statement)} letters */"
        )
        lines.append(f"    {short};")
    return lines


def show(result: Result) -> str:
    shown = [
        f"{result.server}, seed {result.seed}, {result.seconds:.0f} s, {result.sessions} sessions, "
        f"{result.statements} statements, {result.calls} calls ({result.calls / max(result.seconds, 1):.0f} a second)",
        f"{result.called} of {result.offered} functions, operators, casts and types called",
        f"calls by outcome: {listed(result.outcomes)}",
        f"others: {listed(result.honest)}",
        f"functions of mallory's ran {result.evil_runs} times",
    ]
    if result.not_called:
        shown.append(f"never called: {', '.join(result.not_called)}")
    for failure in result.failures[:MOST_FAILURES]:
        shown += [f"FAILURE ({failure.oracle}): {failure.text}", *reproduction(failure)]
    if len(result.failures) > MOST_FAILURES:
        shown.append(f"and {len(result.failures) - MOST_FAILURES} failures more")
    shown.append("FAILED" if result.failures else "passed: no crash, no right gained, nothing of others changed")
    return "\n".join(shown) + "\n"
