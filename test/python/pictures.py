"""The picture of README, light and dark: a chart of a run in docs/results, as the report of that run draws it.

``python test/python/results_page.py`` writes it.
"""

import re
from pathlib import Path

from inorder.lab.report.catalogue import report_of
from inorder.lab.results import Result

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
STYLE = ROOT / "inorder" / "lab" / "report" / "page" / "style.css"
RUN, SECTION, CAPTION = "insert-18-iops", "rows_10000000", "Inserts per second"
WIDTH = 760
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


def picture(result: Result, theme: str) -> str:
    (section,) = (one for one in report_of(result).sections(result) if one.name == SECTION)
    (chart,) = (one for one in section.charts if one.caption == CAPTION)
    svg = coloured(str(chart.svg.svg(WIDTH)), theme)
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert box
    size = f'xmlns="http://www.w3.org/2000/svg" width="{box[1]}" height="{box[2]}" style="{FONT}"'
    return svg.replace("<svg ", f"<svg {size} ", 1) + "\n"


def write(result: Result) -> None:
    IMAGES.mkdir(exist_ok=True)
    for theme in ("light", "dark"):
        (IMAGES / f"inserts-{theme}.svg").write_text(picture(result, theme), encoding="utf-8")
