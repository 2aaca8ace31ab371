"""Results as one HTML file that needs no network and no scripts, can be printed, and contains all raw numbers."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from markupsafe import Markup, escape

from inorder.files import write_whole
from inorder.lab.analysis.quality import SLOWED, slowest_round
from inorder.lab.analysis.stats import Estimate
from inorder.lab.plan.keys import SHADES
from inorder.lab.report.formats import templates
from inorder.lab.report.plots import colour
from inorder.lab.report.published import STUDIES
from inorder.lab.report.section import Section, Value
from inorder.lab.report.side_by_side import side_by_side
from inorder.lab.report.verdict import UNDECIDED, Bar, Step, Verdict, how_sure
from inorder.lab.results.journal import embedded
from inorder.lab.results.result import CGROUP, DIRECT_IO, LOAD, OWN_SERVER, Result
from inorder.units import MB, short


class Reported(Protocol):
    """The report of a result by its experiment."""

    @property
    def kind(self) -> Any:
        """The experiment's class."""

    def sections(self, result: Result) -> Sequence[Section]: ...

    def verdicts(self, result: Result) -> Sequence[Verdict]: ...


class Labelled(Protocol):
    """A result with its name and its report."""

    @property
    def label(self) -> str: ...

    @property
    def result(self) -> Result: ...

    @property
    def report(self) -> Reported: ...


YOURS = Step("Tables and readers of your own", "inorder advise --dsn service=NAME", "docs/advice.md")


def parts_of(bars: Sequence[Bar]) -> list[dict[str, Any]]:
    """Return bars with their lengths as a percentage of the longest bar, or of the highest end of an interval.

    >>> drawn = parts_of([Bar("a", 2, "", "x", (1, 4)), Bar("b", 1, "")])
    >>> [(bar["length"], bar["interval"]) for bar in drawn]
    [(50.0, (25.0, 75.0)), (25.0, None)]
    """
    longest = max((bar.interval[1] if bar.interval else bar.value for bar in bars), default=0.0) or 1.0
    parts = []
    for bar in bars:
        low, high = (100 * max(end, 0) / longest for end in bar.interval or (0, 0))
        interval = (low, high - low) if bar.interval else None
        length = 100 * max(bar.value, 0) / longest
        parts.append({"bar": bar, "fill": colour(bar.css), "length": length, "interval": interval})
    return parts


def cell_bars(section: Section, both: bool = False) -> list[list[float | None]]:
    """Return the length of each cell's bar, as a percentage of the longest bar on the same scale.

    With ``section.across``, the bars in a row share a scale. With ``both``, the bars in all columns with the same name
    share a scale. Otherwise, the bars in a column share a scale.
    """

    def cells() -> Iterator[tuple[int, int, str, float]]:
        for row, values in enumerate(section.rows):
            for place, (column, value) in enumerate(zip(section.columns, values, strict=True)):
                if column.bar and (amount := number_of(value)) is not None:
                    scale = str(row) if section.across else column.name.rpartition("\n")[0] if both else str(place)
                    yield row, place, scale, max(amount, 0.0)

    longest: dict[str, float] = {}
    for _, _, scale, value in cells():
        longest[scale] = max(value, longest.get(scale, 0.0))
    percents: list[list[float | None]] = [[None] * len(section.columns) for _ in section.rows]
    for row, place, scale, value in cells():
        percents[row][place] = 100 * (value / longest[scale]) if longest[scale] else None
    return percents


def number_of(value: Value) -> float | None:
    value = value.median if isinstance(value, Estimate) else value
    return float(value) if isinstance(value, int | float) else None


class Terms:
    """Names with their meanings. A name may appear twice, because its meaning may differ between two tables."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.ids: dict[tuple[str, str], str] = {}

    def link(self, name: str, meaning: str) -> str:
        if not meaning:
            return ""
        return self.ids.setdefault((name, meaning), f"{self.prefix}-term-{len(self.ids) + 1}")

    def all(self) -> list[dict[str, str]]:
        return [{"name": name, "meaning": meaning, "id": id} for (name, meaning), id in self.ids.items()]


def table_of(section: Section, prefix: str, terms: Terms, both: bool = False) -> dict[str, Any]:
    shown = section.of_columns(lambda column: column.page)
    rows = shown.shown()
    heads = []
    for column in shown.columns:
        name, label = column.name, ""
        if both and column is not shown.columns[0]:
            name, _, label = name.rpartition("\n")  # side_by_side appends the label of the result as the last line
        name = name.replace("\n", " ")
        heads.append({"name": name, "label": label, "link": terms.link(name or "first column", column.meaning)})
    return {
        "id": f"{prefix}-{section.name}",
        "title": section.title,
        "note": section.note,
        "caption": section.caption,
        "charts": [chart for chart in section.charts if chart],
        "heads": heads,
        "rows": [list(zip(*row, strict=True)) for row in zip(rows, cell_bars(shown, both), strict=True)],
        "gaps": any(cell == "" for row in rows for cell in row[1:]),
    }


def with_options(words: str) -> Markup:
    """Return HTML in which no command-line option is broken across lines.

    >>> with_options("Repeat with --rounds 6, <b>")
    Markup('Repeat with <span class="option">--rounds 6</span>, &lt;b&gt;')
    """
    return Markup(re.sub(r"--[a-z-]+( \d+)?", r'<span class="option">\g<0></span>', str(escape(words))))


def setting_text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(setting_text, value))
    if value is None:
        return "none"
    return short(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)


def machine_text(machine: dict[str, Any]) -> str:
    cores, memory, kernel = (machine.get(name) for name in ("cores", "memory_bytes", "kernel"))
    facts = [
        machine.get("cpu"),
        f"{cores} cores" if cores else None,
        f"{memory / 2**30:.0f} GB" if memory else None,
        f"kernel {kernel}" if kernel else None,
        machine.get("filesystem"),
    ]
    return ", ".join(str(fact) for fact in facts if fact and fact != "unknown")


def load_range(result: Result) -> str:
    """Return the range of the machine's load average during the measurements, or "" if it was not stored.

    The measurements themselves add to the load average.

    >>> from inorder.lab.results.result import Run
    >>> result = Result("insert", "now", "0", 1, {}, {}, {}, "")
    >>> result.runs = [Run("insert", "v7", 1, n, {"load": load}) for n, load in enumerate((2.04, 17.0, 3.0))]
    >>> load_range(result)
    '2.0 to 17.0'
    """
    loads = result.metric(LOAD, result.runs)
    return f"{min(loads):.1f} to {max(loads):.1f}" if loads else ""


def memory_note(result: Result) -> str:
    memory = f"{result.plan['memory_bytes'] / MB:.0f} MB of shared buffers"
    if result.method == DIRECT_IO:
        iops = result.plan.get("iops")
        limit = f", which is limited to {iops:,} reads and {iops:,} writes a second for the server" if iops else ""
        return f"The server has {memory} and no page cache: other blocks are read from the device{limit}."
    if page_cache := result.plan.get("page_cache"):
        return (
            f"The server has {memory} and {page_cache / MB:.0f} MB of page cache, which a memory control group limits."
        )
    if result.method == CGROUP:
        return (
            f"A memory control group limits the server to {result.plan['memory_bytes'] / MB:.0f} MB, including the "
            f"page cache; {result.plan['memory_bytes'] / MB / 4:.0f} MB of these are shared buffers."
        )
    if result.method == OWN_SERVER:
        pages, _, unit = str(result.server.get("settings", {}).get("shared_buffers", "")).partition(" ")
        is_known = pages.isdigit() and unit == "8kB"
        buffers = f"{int(pages) * 8192 / MB:.0f} MB of shared buffers" if is_known else "its own shared buffers"
        return f"Your server was measured as it is, with {buffers} and the page cache of its machine."
    return (
        f"The server has {memory}, and uses the kernel's page cache in addition. Speeds do not show the cost of a "
        "table larger than all memory; WAL, full-page images and block counts are exact. Direct I/O, which bypasses "
        "the page cache, needs PostgreSQL 16 and a file system on a device. A memory control group, which limits the "
        "page cache, needs 64 MB and the right to create a group."
    )


def article(labelled: Labelled, number: int) -> dict[str, Any]:
    result, prefix = labelled.result, f"r{number}"
    report, terms = labelled.report, Terms(prefix)
    method = [f"{result.method}."] if result.method else []
    if "memory_bytes" in result.plan:
        method.append(memory_note(result))
    method.append(report.kind.order)
    if load := load_range(result):
        method.append(f"Load average of the machine: {load}.")
    shown = sorted(report.sections(result), key=lambda section: not section.main)  # first the section of the verdict
    return {
        "id": prefix,
        "label": labelled.label,
        "title": report.kind.summary.removesuffix("."),
        "studies": {name: words for name, words in STUDIES.items() if name in report.kind.studies},
        "result": result,
        "verdicts": report.verdicts(result),
        "slowed": slowed_text(result),
        "question": report.kind.question,
        "sure": how_sure(result),
        "method": " ".join(method),
        "sections": [table_of(section, prefix, terms) for section in shown],
        "terms": terms.all(),
        "plan": {name: setting_text(value) for name, value in result.plan.items() if not isinstance(value, dict)},
        "machine": machine_text(result.machine),
        "raw": Markup(embedded(result, number)),
    }


def slowed_text(result: Result) -> str:
    times = slowest_round(result)
    if times < SLOWED:
        return ""
    return (
        f"In the median of the measurements, the fastest round was {times:.0f} times as fast as the slowest round: the "
        "machine had other work. Repeat the run on an idle machine."
    )


def steps_of(articles: Sequence[dict[str, Any]]) -> list[Step]:
    """Return the steps of all verdicts without duplicates.

    The steps of the last result come first, because a table is created before it is read.
    """
    steps = [step for article in reversed(articles) for verdict in article["verdicts"] for step in verdict.steps]
    return [*dict.fromkeys(steps), YOURS] if steps else []


def comparisons(results: Sequence[Labelled]) -> dict[str, Any] | None:
    terms, tables = Terms("both"), []
    for name in dict.fromkeys(labelled.result.experiment for labelled in results):
        same = [labelled for labelled in results if labelled.result.experiment == name]
        pairs = [(labelled.label, labelled.report.sections(labelled.result)) for labelled in same]
        for section in side_by_side(pairs):
            tables.append(table_of(section, "both", terms, both=True) | {"id": f"both-{name}-{section.name}"})
    return {"sections": tables, "terms": terms.all()} if tables else None


def render(results: Sequence[Labelled]) -> str:
    environment = templates()
    environment.filters |= {"parts_of": parts_of, "options": with_options}
    articles = [article(labelled, number) for number, labelled in enumerate(results, start=1)]
    return environment.get_template("report.html").render(
        articles=articles,
        steps=steps_of(articles),
        shades=SHADES,
        undecided=UNDECIDED,
        both=comparisons(results),
        many_servers=len(
            {str((labelled.result.server.get("version"), labelled.result.machine)) for labelled in results}
        )
        > 1,
        many_labels=len({labelled.result.experiment for labelled in results}) < len(results),
    )


def write(results: Sequence[Labelled], path: Path) -> None:
    write_whole(path, render(results))
