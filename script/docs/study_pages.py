"""Generate docs/results/p1.md to p5.md: the claims and figures of each study, next to our own figures."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from inorder.commands.catalogue import report_of
from inorder.lab.analysis.stats import LEAST_ROUNDS, Estimate
from inorder.lab.experiments import bulk, sequence, uuid_v1, writers
from inorder.lab.plan.keys import KEY_KINDS
from inorder.lab.report.published import RATIO, STUDIES, Published, cells_of, shown
from inorder.lab.report.section import Section, figures, interval_text
from inorder.lab.results.result import Result

from claims import Answer, Claim, overall
from study_claims import CLAIMS
from study_tables import MISSING, distinct, lines, main_tables, place, run_of, size_text, size_words

PLACES = {"18": "PostgreSQL 18", "15": "PostgreSQL 15", "18-iops": "18, throttled"}
# Runs that have their own page, because other pages cite them. Other runs appear only on the pages of the studies.
WITH_PAGE = {
    "feed-18", "generators-18", "insert-18-iops", "lookup-18", "mixed-18", "nodes-18", "reader-18", "uuid-v1-2m-18",
    "uuidv7-18", "uuidv7-bulk-18", "waves-18", "writers-18",
}  # fmt: skip
DISTURBED = {  # run -> the reason why its times are not used
    "uuid-v1-20m-18": "One round on a busy machine: version 7 took 0.39 to 0.70 of the time of uuid_v1 in all eight "
    "steps, with equal WAL, pages and reads. The times of this run show nothing; the counters are exact."
}
NOTED = {
    Answer.IN_PART: ": in part",
    Answer.NOT: ": does not hold",
    Answer.OPEN: ": undecided",
}  # added to the figure of a run
PARTS: dict[str, list[list[str]]] = tomllib.loads(
    Path(__file__).with_name("study_parts.toml").read_text(encoding="utf-8")
)
LABELS: dict[str, Callable[[str, str], str]] = {
    "insert": lambda _, kind: KEY_KINDS[kind].label,
    "bulk": bulk.words,
    "sequence": sequence.words,
    "uuid-v1": uuid_v1.words,
    "writers": writers.words_of,
}

Results = Mapping[str, Result]  # file name without suffix -> result


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, without columns that are empty in all rows."""
    places = [place for place in range(len(heads)) if any(row[place] for row in rows)]
    lines = [[line[place] for place in places] for line in (heads, ["---"] * len(heads), *rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def with_parts(page: str, parts: Mapping[str, str]) -> str:
    """Replace the generated parts of a page. Each part is between <!-- NAME --> and <!-- /NAME -->."""
    for name, content in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, _, following = page.partition(begin)
        _, mark, after = following.partition(end)
        assert mark, f"the page has no {begin} … {end}"
        page = f"{before}{begin}\n{content}\n{end}{after}"
    return page


def with_interval(figure: Estimate) -> str:
    """Format a figure with its interval, or with the number of rounds if there are too few.

    >>> with_interval(Estimate(0.5, 0.4, 0.6, 6)), with_interval(Estimate(1234.0, 1000.0, 1300.0, 3))
    ('0.50 [0.40–0.60]', '1,234, 3 rounds')
    >>> with_interval(Estimate(7, None, None, 1))
    '7.00'
    """
    digits = next(
        (count for count, least in enumerate((100, 10, 0.1)) if figure.median >= least or not figure.median), 3
    )
    if figure.low is None or figure.high is None:
        return f"{figure.median:,.{digits}f}"
    if figure.rounds < LEAST_ROUNDS:
        return f"{figure.median:,.{digits}f}, {figure.rounds} rounds"
    return f"{figure.median:,.{digits}f} [{figure.low:,.{digits}f}–{figure.high:,.{digits}f}]"


def answers(claim: Claim, results: Results) -> dict[str, tuple[Estimate, Answer]]:
    figures = {place: claim.figure(results[name]) for place in PLACES if (name := f"{claim.run}-{place}") in results}
    return {place: (figure, claim.answer(figure)) for place, figure in figures.items() if figure is not None}


def answered(claim: Claim, results: Results) -> Answer:
    return overall([answer for _, answer in answers(claim, results).values()])


def claim_row(claim: Claim, results: Results) -> list[str]:
    by_place = answers(claim, results)
    cells = [
        with_interval(by_place[place][0]) + NOTED.get(by_place[place][1], "") if place in by_place else ""
        for place in PLACES
    ]
    return [claim.says, claim.published, *cells, f"**{answered(claim, results).value}**", linked(claim.run, results)]


def linked(run: str, results: Results) -> str:
    """Return the name of a run on the newest server, as a link if the run has a page."""
    places = [place for place in PLACES if f"{run}-{place}" in results]
    return run_link(f"{run}-{places[0]}") if places else f"`{run}`"


def run_link(name: str) -> str:
    return f"[{name}]({name}.md)" if name in WITH_PAGE else f"`{name}`"


def folded(title: str, *parts: str) -> Iterator[str]:
    """Yield a title, followed by details that are collapsed at first."""
    yield from (f"<details>\n<summary>{title}</summary>", *parts, "</details>")


def claims_part(study: str, results: Results) -> Iterator[str]:
    heads = ["claim", "published", *PLACES.values(), "answer", "run"]
    for has_figure, title in ((True, "Claims of the study"), (False, "Measured here; the study has no figure")):
        claims = [claim for claim in CLAIMS if claim.study == study and claim.has_figure == has_figure]
        rows = [claim_row(claim, results) for claim in claims]
        if rows:
            yield f"## {title}"
            yield table(heads, rows)


def published_rows(
    results: Results, study_table: Mapping[str, Any]
) -> dict[str, dict[tuple[str, ...], dict[str, Any]]]:
    """Return our figures for a table of a study: for each run, the figures by label, number of rows and detail."""
    by_run: dict[str, dict[tuple[str, ...], dict[str, Any]]] = {}
    for name, result in results.items():
        used = result.experiment == study_table["experiment"] and name not in DISTURBED
        sections = report_of(result).sections(result) if used else []
        for section in sections:
            if section.name == f"published_{study_table['name']}":
                by_run[name] = {
                    (row["figure"], shown(row.get("rows")), row.get("detail") or ""): row for row in named_rows(section)
                }
    return by_run


def named_rows(section: Section) -> list[dict[str, Any]]:
    names = [column.name.replace("\n", " ") for column in section.columns]
    return [dict(zip(names, row, strict=True)) for row in section.rows]


def there(cell: Published) -> str:
    """Format a published figure, with its ratio to the base of its table."""
    value = shown(cell.value)
    ratio = cell.ratio if cell.unit != RATIO else None
    return f"{value} ({ratio:,.2f})" if isinstance(ratio, int | float) else value


def marked(cell: Published) -> str:
    """Format a published figure. If the study does not print it, add how it was obtained."""
    return there(cell) if cell.how == "printed" else f"{there(cell)}, {cell.how}"


def here(row: Mapping[str, Any], rows: int | str) -> str:
    """Format a measured figure with its ratio, and with the size of our table if it differs from the study's."""
    value, ratio = row.get("here"), row.get("ratio here")
    paired = interval_text(ratio) if isinstance(ratio, Estimate) else ""
    differs = isinstance(rows, int) and rows and row.get("rows here") not in (None, rows)
    text = f"{figures(value)} ({paired})" if value and paired else figures(value) or paired
    return f"{text} at {size_text(row['rows here'])}" if differs else text


def main_part(study: str, results: Results) -> Iterator[str]:
    """Yield the main tables of a study, with our figure below each published figure."""
    yield "## Published figures, and **ours** below"
    missing = False
    for study_table in main_tables(study):
        runs = published_rows(results, study_table)
        cells, links = [], dict[str, str]()
        for cell in distinct(study, study_table):
            label = LABELS[study_table["experiment"]](cell.step, cell.kind)
            name = run_of(label, runs, results)
            row = runs.get(name, {}).get((label, shown(cell.rows), cell.detail), {})
            cells.append((*place(label, cell.rows, size_words(cell.rows)), marked(cell), here(row, cell.rows)))
            if row and name not in links:
                link = link_with_size(name, cell, row)
                links[name] = f"{label}: {link}" if links else link
        yield table(*lines(study_table["title"], cells))
        missing = missing or not all(ours for *_, ours in cells)
        yield f"Ours: {'; '.join(links.values())}." if links else ""
    if missing:
        yield (
            f"{MISSING}: not measured yet, because such a run takes hours on an otherwise idle machine. "
            "`script/studies` lists these runs."
        )


def link_with_size(run: str, cell: Published, row: Mapping[str, Any]) -> str:
    """Return a link to a run, with the size of our table if the study does not state the size of its own."""
    has_size = cell.rows == "" and row.get("rows here")
    return f"{run_link(run)}, {size_words(row['rows here'])}" if has_size else run_link(run)


def figures_part(study: str, results: Results) -> Iterator[str]:
    """Yield a table for each experiment, with the study's figures next to ours.

    A figure with values for several table sizes takes one row.
    """
    for experiment, group in groupby(STUDIES[study]["tables"], key=lambda study_table: study_table["experiment"]):
        tables = list(group)
        runs_of_tables = [published_rows(results, study_table) for study_table in tables]
        runs = sorted({name for by_run in runs_of_tables for name in by_run})
        rows, notes = [], []
        for study_table, by_run in zip(tables, runs_of_tables, strict=True):
            of_table: list[list[str]] = []
            for label, cells in groupby(
                cells_of(study, study_table), key=lambda cell: LABELS[experiment](cell.step, cell.kind)
            ):
                of_table += [line_of(label, line_cells, by_run, runs) for line_cells in by_size(list(cells))]
            rows += [[study_table["title"] if place == 0 else "", *line] for place, line in enumerate(of_table)]
            notes += [f"* **{study_table['title']}.** {study_table['note']}"] if "note" in study_table else []
        links = [run_link(run) for run in runs]
        yield from folded(
            f"Published figures, and figures of <code>inorder lab run {experiment}</code>",
            table(["table", "figure", "rows", "published", "printed or computed", "detail", *links], rows),
            "\n".join(notes),
        )  # fmt: skip


def by_size(cells: Sequence[Published]) -> list[list[Published]]:
    """Group the cells of a figure if all have different table sizes; otherwise, return each cell by itself."""
    sizes = [cell.rows for cell in cells]
    return [list(cells)] if len(set(sizes)) == len(sizes) else [[cell] for cell in cells]


def line_of(label: str, cells: Sequence[Published], by_run: Mapping[str, Any], runs: Sequence[str]) -> list[str]:
    def joined(parts: Sequence[str]) -> str:
        return " / ".join(text or "–" for text in parts) if any(parts) else ""

    our_cells = [
        joined([here(by_run.get(run, {}).get((label, shown(cell.rows), cell.detail), {}), cell.rows) for cell in cells])
        for run in runs
    ]
    how = " / ".join(dict.fromkeys(cell.how for cell in cells if cell.how != "printed"))
    sizes = joined([size_text(cell.rows) for cell in cells])
    details = "; ".join(cell.detail for cell in cells if cell.detail)
    return [label, sizes, joined([there(cell) for cell in cells]), how, details, *our_cells]


def parts_part(study: str) -> Iterator[str]:
    yield from folded(
        "Which command reproduces what?",
        "`bulk --full` is short for `inorder lab run bulk --full`.",
        table(["part", "description", "command, or why there is none", "table of the report"], PARTS[study]),
    )


def page(study: str, results: Results) -> str:
    about = STUDIES[study]
    original = f", in the original *{about['original']}*" if "original" in about else ""
    introduction = " ".join([
        f"{about['author']}: *{about['title']}*{original}; {about['address']}. The study measures {about['summary']}",
        "The study's machine and server differ from ours: compare ratios, not speeds. Ratios in parentheses are "
        "computed.",
        "Cells are empty where nothing was measured.",
        "[All studies, and the meaning of the answers](README.md).",
    ])  # fmt: skip
    parts = [
        f"# {study}: {about['title']}",
        introduction,
        *main_part(study, results),
        *claims_part(study, results),
        *figures_part(study, results),
    ]
    return "\n\n".join(filter(None, [*parts, *parts_part(study)])) + "\n"
