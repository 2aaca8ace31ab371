"""The table of docs/results/soak-18.md and its pictures, from the kept samples of script/soak.

``PYTHONPATH=test/python python script/docs/soak_page.py [DIR]`` writes them; DIR, the folder of a soak, is kept first,
a minute's samples as their medians.
"""

import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from inorder.lab.report.plots import BOTTOM, HEIGHT, SCREEN, TOP, Axis, Chart, Line, rule, words

from pictures import FONT, IMAGES, coloured
from soak.samples import CURVES, FLAT, Sample, figure, trends
from soak.world import diary
from study_pages import table, with_parts

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAGE, KEPT = RESULTS / "soak-18.md", RESULTS / "soak-18.json.gz"
DRAWN = ("delay", "pages", "state", "cpu", "memory")
STEP = 18  # pixels of a line of the legend
MINUTE = 60
Soak = dict[str, Any]  # what soak.json has, and its samples


def keep(folder: Path) -> None:
    samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    kept = diary(folder) | {"samples": [*by_minute(samples)]}
    KEPT.write_bytes(gzip.compress(json.dumps(kept).encode(), mtime=0))


def by_minute(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Medians of each minute of a piece and an act."""
    for (minute, piece, act), group in groupby(samples, lambda one: (one["at"] // MINUTE, one["piece"], one["act"])):
        found = list(group)
        curves: Sample = {}
        for curve in CURVES:
            lines = dict.fromkeys(line for one in found for line in one[curve])
            curves[curve] = {
                line: round(median(one[curve][line] for one in found if line in one[curve]), 3) for line in lines
            }
        yield {"at": minute * MINUTE, "piece": piece, "act": act, **curves}


def kept() -> Soak:
    found: Soak = json.loads(gzip.decompress(KEPT.read_bytes()))
    return found


def chart(curve: str, samples: Sequence[Sample]) -> Chart:
    names = dict.fromkeys(line for one in samples for line in one[curve])
    lines = [
        Line(name, tuple((one["at"] / MINUTE, one[curve][name]) for one in samples if name in one[curve]),
             f"series-{number % 6 + 1}{' dashed' if number >= 6 else ''}")
        for number, name in enumerate(names)
    ]  # fmt: skip
    held = [one["at"] / MINUTE for before, one in pairwise(samples)
            if (one["act"] == "held") != (before["act"] == "held")]  # fmt: skip
    title, unit = CURVES[curve]
    positive = all(y > 0 for line in lines for _, y in line.points)
    return Chart(title, Axis("minutes"), Axis(unit, positive), lines, held, "a transaction is idle")


def picture(curve: str, samples: Sequence[Sample], theme: str) -> str:
    """The chart with its legend below it."""
    drawn = chart(curve, samples)
    height = TOP + HEIGHT + BOTTOM + 8
    legend = ""
    for number, line in enumerate(drawn.drawn):
        x, y = 52 + number % 2 * 350, height + number // 2 * STEP
        dashes = "6,4" if "dashed" in line.css else ""
        legend += rule(x, y - 4, x + 24, y - 4, f"var(--{line.css.split()[0]})", dashes) + words(
            x + 32, y, line.label, "start"
        )
    height += (len(drawn.drawn) + 1) // 2 * STEP
    svg = str(drawn.svg()).replace("<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" width="{SCREEN}" style="{FONT}" ')
    svg = svg.replace(f'0 0 {SCREEN} {TOP + HEIGHT + BOTTOM}"', f'0 0 {SCREEN} {height}"').replace("</svg>", "")
    return coloured(f"{svg}{legend}</svg>", theme) + "\n"


def parts(soak: Soak) -> dict[str, str]:
    pieces = [[f"{one['piece']}", one["began"], f"{one['seconds'] / MINUTE:.0f}", "" if one["clean"] else "interrupted",
               ", ".join(f"{amount} {what}" for what, amount in one["done"].items() if "restart" in what)]
              for one in soak["pieces"]]  # fmt: skip
    last = soak["pieces"][-1]["lines"]
    heads = [*last[0]]
    rows = [[CURVES[one.curve][0], one.line, CURVES[one.curve][1], figure(one.start), figure(one.held),
             figure(one.end), "flat" if one.grows <= FLAT else f"**{one.grows:.1f} times**"]
            for one in trends(soak["samples"])]  # fmt: skip
    return {
        "pieces": table(["piece", "began", "minutes", "end", "restarts"], pieces),
        "readers": table(heads, [[f"{line[head]:,}" if head not in heads[:2] else line[head] for head in heads]
                                 for line in last]),
        "curves": table(["", "of", "unit", "start", "idle", "end", "grows"], rows),
        "pictures": "\n\n".join(embedded(curve) for curve in DRAWN),
    }  # fmt: skip


def embedded(curve: str) -> str:
    title, unit = CURVES[curve]
    return (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="../images/soak-{curve}-dark.svg">\n'
        f'  <img alt="{title}, {unit}" src="../images/soak-{curve}-light.svg">\n</picture>'
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        keep(Path(sys.argv[1]))
    PAGE.write_text(with_parts(PAGE.read_text(), parts(kept())))
    for each in DRAWN:
        for light in ("light", "dark"):
            (IMAGES / f"soak-{each}-{light}.svg").write_text(picture(each, kept()["samples"], light))
