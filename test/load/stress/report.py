"""The result of a round, formatted as text."""

from dataclasses import astuple, fields

from load.stress.compare import Line, Result

MOST_PROBLEMS = 20


def table(rows: list[tuple[object, ...]]) -> str:
    """Return aligned columns: the first one left-aligned, the others right-aligned.

    >>> print(table([("name", "n"), ("a", 10.4)]))
    name   n
    a     10
    """
    texts = [[f"{cell:.0f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in texts
    )


def show(result: Result) -> str:
    """Return a line for each reader, the counts, and the problems."""
    head = tuple(field.name.replace("_", " ") for field in fields(Line))
    shown = [
        f"{result.server}, {result.seconds:.0f} s, seed {result.seed}",
        table([head, *(astuple(line) for line in result.lines)]),
        f"{result.checks} checks of exact_count, {result.reread} past batches read again on each server, "
        f"{result.partitions} partitions",
        f"meanwhile: {result.done}",
    ]
    shown += [f"PROBLEM: {problem}" for problem in result.problems[:MOST_PROBLEMS]]
    if len(result.problems) > MOST_PROBLEMS:
        shown.append(f"and {len(result.problems) - MOST_PROBLEMS} more problems")
    shown.append("FAILED" if result.failed else "passed: no row lost or delivered twice, every count exact")
    return "\n".join(shown) + "\n"
