"""The pictures of README, light and dark, drawn from runs in docs/results.

``python script/docs/results_page.py`` writes them.
"""

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from inorder.commands.catalogue import report_of
from inorder.lab.report.plots import colour
from inorder.lab.results.result import Result

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
STYLE = ROOT / "inorder" / "lab" / "report" / "page" / "style.css"
WIDTH, LEFT, STEP = 760, 170, 34
FONT = "font-family: system-ui, sans-serif"


def colours(theme: str) -> dict[str, str]:
    """The variables of the page's style sheet in a theme: light or dark.

    >>> colours("light")["text"] != colours("dark")["text"], colours("dark")["kind-v7"]
    (True, 'var(--v7)')
    """
    light, _, dark = STYLE.read_text().partition("prefers-color-scheme: dark")
    begins, _, rest = dark.partition("\n}\n")
    variables = re.compile(r"--([a-z0-9-]+): ([^;]+);")
    found = dict(variables.findall(light)) | dict(variables.findall(rest))
    return found | (dict(variables.findall(begins)) if theme == "dark" else {})


def coloured(svg: str, theme: str) -> str:
    """A drawing with colours in place of variables, because it is shown without the style sheet."""
    known = colours(theme)
    variable = re.compile(r"var\(--([a-z0-9-]+)(?:, (var\([^()]*\)))?\)")
    while variable.search(svg):
        svg = variable.sub(lambda found: known.get(found[1]) or found[2], svg)
    return svg


def bars_svg(title: str, rows: Sequence[tuple[str, float, str, str]], right: int = 90) -> str:
    """Bars from zero, each with a label, a value, its text and its colour; ``right`` is the space for the texts."""
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
    (found,) = (one for one in report_of(result).sections(result) if one.name == section)
    names = [column.data or column.name for column in found.columns]
    return [dict(zip(names, row, strict=True)) for row in found.rows]


def inserts(result: Result) -> str:
    found = rows_of(result, "rows_10000000")
    rows = [(str(one["label"]), one["tps"].median, f"{one['tps'].median:,.0f}", f"kind-{one['kind']}") for one in found]
    return bars_svg("Inserts per second", rows)


def lost(result: Result) -> str:
    """Rows lost, and the longest wait, by kind of reader: the last two lose none."""
    rows = []
    for one in rows_of(result, "round_1"):
        says = f"{one['lost']:,} lost; longest wait {one['longest_wait_ms']:,.0f} ms"
        rows.append((str(one["name"]), float(one["lost"]), says, "kind-random" if one["lost"] else "kind-v7"))
    return bars_svg("Rows lost by kind of reader", rows, right=230)


# the run and the function that draws it
PICTURES = {"inserts": ("insert-18-iops", inserts), "lost": ("reader-18", lost)}


def picture(name: str, results: Mapping[str, Result], theme: str) -> str:
    run, draw = PICTURES[name]
    return coloured(draw(results[run]), theme) + "\n"


def write(results: Mapping[str, Result]) -> None:
    IMAGES.mkdir(exist_ok=True)
    for name in PICTURES:
        for theme in ("light", "dark"):
            (IMAGES / f"{name}-{theme}.svg").write_text(picture(name, results, theme), encoding="utf-8")
