"""The picture of README, light and dark: speeds of a run in docs/results.

``python test/python/results_page.py`` writes it.
"""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from inorder.lab.report.catalogue import report_of
from inorder.lab.report.plots import colour
from inorder.lab.results import Result

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
STYLE = ROOT / "inorder" / "lab" / "report" / "page" / "style.css"
RUN, SECTION, TITLE = "insert-18-iops", "rows_10000000", "Inserts per second"
WIDTH, LEFT, STEP = 760, 170, 34
FONT = "font-family: system-ui, sans-serif"


def colours(theme: str) -> dict[str, str]:
    """The variables of the page's style sheet, as they are in a theme: light or dark.

    >>> colours("light")["text"] != colours("dark")["text"], colours("dark")["kind-v7"]
    (True, 'var(--v7)')
    """
    light, _, dark = STYLE.read_text().partition("prefers-color-scheme: dark")
    begins, _, rest = dark.partition("\n}\n")
    variables = re.compile(r"--([a-z0-9-]+): ([^;]+);")
    found = dict(variables.findall(light)) | dict(variables.findall(rest))
    return found | (dict(variables.findall(begins)) if theme == "dark" else {})


def coloured(svg: str, theme: str) -> str:
    """A drawing with colours in the place of variables: where it is shown there is no style sheet."""
    known = colours(theme)
    variable = re.compile(r"var\(--([a-z0-9-]+)(?:, (var\([^()]*\)))?\)")
    while variable.search(svg):
        svg = variable.sub(lambda found: known.get(found[1]) or found[2], svg)
    return svg


def bars_svg(title: str, rows: Sequence[tuple[str, float, str, str]]) -> str:
    """Bars from zero: a label, a value, its text and its colour each."""
    longest, height, parts = max(value for _, value, _, _ in rows), STEP * len(rows), []
    for place, (label, value, text, css) in enumerate(rows):
        y, width = STEP * place + 4, (WIDTH - LEFT - 90) * value / longest
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


def picture(result: Result, theme: str) -> str:
    """The speeds of a table as a file of its own."""
    (section,) = (one for one in report_of(result).sections(result) if one.name == SECTION)
    names = [column.data or column.name for column in section.columns]
    found = [dict(zip(names, row, strict=True)) for row in section.rows]
    rows = [(str(one["label"]), one["tps"].median, f"{one['tps'].median:,.0f}", f"kind-{one['kind']}") for one in found]  # type: ignore[union-attr]
    return coloured(bars_svg(TITLE, rows), theme) + "\n"


def write(result: Result) -> None:
    IMAGES.mkdir(exist_ok=True)
    for theme in ("light", "dark"):
        (IMAGES / f"inserts-{theme}.svg").write_text(picture(result, theme), encoding="utf-8")
