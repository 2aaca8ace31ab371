"""Draw light and dark pictures for the README and docs/like.md, from the runs in docs/results and from the model.

``python script/docs/results_page.py`` writes them.
"""

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from inorder.commands.catalogue import report_of
from inorder.lab.analysis.figures import middle_of
from inorder.lab.analysis.model import Conditions, predict
from inorder.lab.experiments.insert.summary import WAL_PER_ROW
from inorder.lab.experiments.insert.verdicts import rows_between
from inorder.lab.report.plots import BOTTOM, HEIGHT, SCREEN, TOP, Axis, Chart, Line, colour, rule, words
from inorder.lab.results.result import Result
from inorder.lab.tables.insert_tables import INSERT

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
STYLE = ROOT / "inorder" / "lab" / "report" / "page" / "style.css"
WIDTH, LEFT, STEP = 760, 170, 34
LINE = 18  # height of a legend line in pixels
FONT = "font-family: system-ui, sans-serif"
CHECKPOINT = 300  # seconds between checkpoints
THROTTLED = "insert-18-iops"
MEASURED, LEAST_ROWS = ("insert-18", THROTTLED), 1_000_000


def colours(theme: str) -> dict[str, str]:
    """Return the variables of the report's style sheet for the light or dark theme.

    >>> colours("light")["text"] != colours("dark")["text"], colours("dark")["kind-v7"]
    (True, 'var(--v7)')
    """
    before, _, following = STYLE.read_text().partition("prefers-color-scheme: dark")
    dark, _, after = following.partition("\n}\n")
    variables = re.compile(r"--([a-z0-9-]+): ([^;]+);")
    values = dict(variables.findall(before)) | dict(variables.findall(after))
    return values | (dict(variables.findall(dark)) if theme == "dark" else {})


def coloured(svg: str, theme: str) -> str:
    """Replace the variables in a drawing with colours, because the drawing is shown without the style sheet."""
    palette = colours(theme)
    variable = re.compile(r"var\(--([a-z0-9-]+)(?:, (var\([^()]*\)))?\)")
    while variable.search(svg):
        svg = variable.sub(lambda match: palette.get(match[1]) or match[2], svg)
    return svg


def with_legend(chart: Chart, theme: str) -> str:
    """Draw a chart with the legend below."""
    height = TOP + HEIGHT + BOTTOM + 8
    legend = ""
    for number, line in enumerate(chart.drawn):
        x, y = 52 + number % 2 * 350, height + number // 2 * LINE
        dashes = "6,4" if "dashed" in line.css else ""
        legend += rule(x, y - 4, x + 24, y - 4, f"var(--{line.css.split()[0]})", dashes) + words(
            x + 32, y, line.label, "start"
        )
    height += (len(chart.drawn) + 1) // 2 * LINE
    svg = str(chart.svg()).replace("<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" width="{SCREEN}" style="{FONT}" ')
    svg = svg.replace(f'0 0 {SCREEN} {TOP + HEIGHT + BOTTOM}"', f'0 0 {SCREEN} {height}"').replace("</svg>", "")
    return coloured(f"{svg}{legend}</svg>", theme) + "\n"


def bars_svg(title: str, rows: Sequence[tuple[str, float, str, str]], right: int = 90) -> str:
    """Draw a bar for each (label, value, text, colour). Each text needs up to ``right`` pixels."""
    longest, height, parts = max(value for _, value, _, _ in rows), STEP * len(rows), []
    for place, (label, value, text, css) in enumerate(rows):
        y, width = STEP * place + 4, (WIDTH - LEFT - right) * value / longest
        parts += [
            f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end" fill="var(--text)">{escape(label)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="22" fill="{colour(css)}"/>',
            f'<text x="{LEFT + width + 8:.1f}" y="{y + 16}" fill="var(--text)">{text}</text>',
        ]
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}" font-size="14" style="{FONT}">'
    )
    return "".join([head, f"<title>{title}</title>", *parts, "</svg>"])


def rows_of(result: Result, section: str) -> list[dict[str, Any]]:
    (chosen,) = (candidate for candidate in report_of(result).sections(result) if candidate.name == section)
    names = [column.data or column.name for column in chosen.columns]
    return [dict(zip(names, row, strict=True)) for row in chosen.rows]


def inserts(results: Mapping[str, Result]) -> Chart:
    """Return a chart of inserts per second by table size, with a line for each kind of key."""
    result = results[THROTTLED]
    sizes = sorted({run.rows for run in result.select(INSERT)})
    rows = {size: rows_of(result, f"rows_{size}") for size in sizes}
    lines = [
        Line(str(row["label"]), tuple((size, kinds[place]["tps"].median) for size, kinds in rows.items()),
             f"kind-{row['kind']}")
        for place, row in enumerate(rows[sizes[0]])
    ]  # fmt: skip
    return Chart("Inserts", Axis("rows in the table", True), Axis("inserts per second"), lines)


def lost(result: Result) -> str:
    """Draw the number of rows that each kind of reader lost, labelled with its longest wait."""
    rows = []
    for reader in rows_of(result, "round_1"):
        says = f"{reader['lost']:,} lost; longest wait {reader['longest_wait_ms']:,.0f} ms"
        rows.append((str(reader["name"]), float(reader["lost"]), says, "kind-random" if reader["lost"] else "kind-v7"))
    return bars_svg("Rows lost by kind of reader", rows, right=230)


def wal_factor(rows: float, between: float) -> float:
    """Predict the WAL of random keys relative to version 7, if ``between`` rows are inserted between checkpoints.

    >>> [round(wal_factor(1e7, between), 1) for between in (1e4, 1e5, 1e6)]
    [29.4, 14.7, 2.7]
    """
    conditions = Conditions(rows, between / CHECKPOINT, 1e12, CHECKPOINT)
    return predict("random", conditions).wal_per_row / predict("v7", conditions).wal_per_row


def wal(results: Mapping[str, Result]) -> Chart:
    """Return a chart of the WAL of random keys relative to version 7, as predicted and as measured.

    The x axis is the number of rows inserted between checkpoints, as a percentage of the table's rows. The size of the
    table itself hardly matters.
    """
    shares = [10 ** (power / 20) for power in range(-20, 41)]
    model = tuple((share, wal_factor(1e7, share / 100 * 1e7)) for share in shares)
    measured = []
    for result in (results[name] for name in MEASURED):
        for rows in (rows for rows in result.plan["rows"] if rows >= LEAST_ROWS):
            random, ordered = (middle_of(result, INSERT, kind, WAL_PER_ROW, rows) for kind in ("random", "v7"))
            share = 100 * rows_between(result, "random", rows) / rows
            measured += [(share, random / ordered)] if random and ordered else []
    lines = [
        Line("by the model", model, "series-1"),
        Line(f"measured, {LEAST_ROWS:,} and 10,000,000 rows", tuple(sorted(measured)), "series-6"),
    ]
    axis = Axis("rows inserted between two checkpoints, in percent of the rows in the table", logarithmic=True)
    return Chart("WAL of random keys", axis, Axis("times the WAL of version 7", logarithmic=True), lines)


# Each picture has a run, and a function that draws the picture from this run.
PICTURES = {"lost": ("reader-18", lost)}
CHARTS = {"inserts": inserts, "wal": wal}


def picture(name: str, results: Mapping[str, Result], theme: str) -> str:
    if name in CHARTS:
        return with_legend(CHARTS[name](results), theme)
    run, draw = PICTURES[name]
    return coloured(draw(results[run]), theme) + "\n"


def write(results: Mapping[str, Result]) -> None:
    IMAGES.mkdir(exist_ok=True)
    for name in (*PICTURES, *CHARTS):
        for theme in ("light", "dark"):
            (IMAGES / f"{name}-{theme}.svg").write_text(picture(name, results, theme), encoding="utf-8")
