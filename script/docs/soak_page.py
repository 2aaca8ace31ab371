"""Write the tables and pictures of docs/results/soak.md, from the stored samples of script/stress --for.

``PYTHONPATH=test:test/python python script/docs/soak_page.py [DIR]`` writes them. With DIR, the soak in this folder is
first added to the stored soaks, with the medians of each minute as its samples.
"""

import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from inorder.lab.report.plots import Axis, Chart, Line

from load.soak.samples import CURVES, FLAT, Sample, figure, trends
from load.soak.world import diary
from pictures import IMAGES, with_legend
from study_pages import table, with_parts

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAGE, KEPT = RESULTS / "soak.md", RESULTS / "soak.json.gz"
DRAWN = ("delay", "pages", "state", "cpu", "memory")
MINUTE = 60
Soak = dict[str, Any]  # the diary of a soak, and its samples


def keep(folder: Path) -> None:
    samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    latest = diary(folder) | {"samples": [*by_minute(samples)]}
    earlier = [soak for soak in kept() if began(soak) != began(latest)]
    KEPT.write_bytes(gzip.compress(json.dumps([*earlier, latest]).encode(), mtime=0))


def by_minute(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Yield the medians of each minute. If a piece or an act ends within a minute, each part has its own medians."""
    for (minute, piece, act), group in groupby(
        samples, lambda sample: (sample["at"] // MINUTE, sample["piece"], sample["act"])
    ):
        members = list(group)
        curves: Sample = {}
        for curve in CURVES:
            lines = dict.fromkeys(line for sample in members for line in sample[curve])
            curves[curve] = {
                line: round(median(sample[curve][line] for sample in members if line in sample[curve]), 3)
                for line in lines
            }
        yield {"at": minute * MINUTE, "piece": piece, "act": act, **curves}


def kept() -> list[Soak]:
    soaks: list[Soak] = json.loads(gzip.decompress(KEPT.read_bytes()))
    return soaks


def began(soak: Soak) -> str:
    return str(soak["pieces"][0]["began"])


def longest() -> Sequence[Sample]:
    """Return the samples of the longest soak, for the pictures."""
    samples: Sequence[Sample] = max(kept(), key=lambda soak: soak["seconds"])["samples"]
    return samples


def minutes(seconds: float) -> str:
    return f"{seconds / MINUTE:.0f}"


def chart(curve: str, samples: Sequence[Sample]) -> Chart:
    names = dict.fromkeys(line for sample in samples for line in sample[curve])
    lines = [
        Line(name, tuple((sample["at"] / MINUTE, sample[curve][name]) for sample in samples if name in sample[curve]),
             f"series-{number % 6 + 1}{' dashed' if number >= 6 else ''}")
        for number, name in enumerate(names)
    ]  # fmt: skip
    changes_of_hold = [
        sample["at"] / MINUTE
        for before, sample in pairwise(samples)
        if (sample["act"] == "held") != (before["act"] == "held")
    ]
    title, unit = CURVES[curve]
    positive = all(y > 0 for line in lines for _, y in line.points)
    return Chart(title, Axis("minutes"), Axis(unit, positive), lines, changes_of_hold, "a transaction is idle")


def picture(curve: str, samples: Sequence[Sample], theme: str) -> str:
    return with_legend(chart(curve, samples), theme)


def parts(soaks: Sequence[Soak]) -> dict[str, str]:
    pieces = [[soak["server"], f"{piece['piece']}", f"{soak['rate']}", piece["began"], minutes(piece["seconds"]),
               "" if piece["clean"] else "interrupted",
               ", ".join(f"{amount} {event.removeprefix('restart ')}" for event, amount in piece["done"].items()
                         if "restart" in event)]
              for soak in soaks for piece in soak["pieces"]]  # fmt: skip
    heads = [*soaks[0]["pieces"][-1]["lines"][0]]
    return {
        "total": f"{minutes(sum(soak['seconds'] for soak in soaks))} minutes: "
                 + ", ".join(f"{minutes(soak['seconds'])} on PostgreSQL {soak['server']}" for soak in soaks) + ".",
        "pieces": table(["server", "piece", "rows/s", "began", "minutes", "end", "restarts"], pieces),
        "readers": table(["server", *heads], [
            [soak["server"], *(f"{line[head]:,}" if head not in heads[:2] else line[head] for head in heads)]
            for soak in soaks for line in soak["pieces"][-1]["lines"]
        ]),
        "curves": curves(soaks),
        "pictures": "\n\n".join(embedded(f"soak-{curve}", *CURVES[curve]) for curve in DRAWN),
    }  # fmt: skip


def curves(soaks: Sequence[Soak]) -> str:
    """Return a table that shows how each curve develops during each soak."""
    by_line = [{(trend.curve, trend.line): trend for trend in trends(soak["samples"])} for soak in soaks]
    rows = []
    for curve, line in dict.fromkeys(key for soak_trends in by_line for key in soak_trends):
        cells = [CURVES[curve][0], line, CURVES[curve][1]]
        for trend in (soak_trends.get((curve, line)) for soak_trends in by_line):
            if trend is None:
                cells += ["", ""]
                continue
            cells += [" → ".join(map(figure, (trend.start, trend.held, trend.end)))]
            cells += ["flat" if trend.grows <= FLAT else f"**{trend.grows:.1f} times**"]
        rows.append(cells)
    heads = [head for soak in soaks for head in (soak["server"], "grows")]
    return table(["", "of", "unit", *heads], rows)


def embedded(name: str, title: str, unit: str) -> str:
    return (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="../images/{name}-dark.svg">\n'
        f'  <img alt="{title}, {unit}" src="../images/{name}-light.svg">\n</picture>'
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        keep(Path(sys.argv[1]))
    PAGE.write_text(with_parts(PAGE.read_text(), parts(kept())))
    for curve_name in DRAWN:
        for theme_name in ("light", "dark"):
            (IMAGES / f"soak-{curve_name}-{theme_name}.svg").write_text(picture(curve_name, longest(), theme_name))
