"""Write the tables and pictures of docs/results/queues-18.md, from a run of the job queue benchmark: see bench/harness.

``PYTHONPATH=test:test/python python script/docs/queues_page.py [DIR]`` writes them. With DIR, the run in this folder is
stored first. For each system, the folder contains the output of the benchmark in results/NAME/RUN, and loads-NAME.csv.
Each line of loads-NAME.csv has a time, the load average of the machine, and the CPU seconds of the server so far.
"""

import csv
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from inorder.lab.report.plots import Axis, Chart, Line

from load.soak.samples import figure
from pictures import IMAGES, with_legend
from soak_page import MINUTE, RESULTS, embedded
from study_pages import table, with_parts

PAGE, KEPT = RESULTS / "queues-18.md", RESULTS / "queues-18.json.gz"
CURVES = {
    "completion_rate": ("Jobs completed", "jobs a second"),
    "claim_p50_ms": ("Time until a worker takes the job, median", "ms"),
    "claim_p99_ms": ("Time until a worker takes the job, 99th percentile", "ms"),
    "end_to_end_p50_ms": ("End to end, median", "ms"),
    "end_to_end_p99_ms": ("End to end, 99th percentile", "ms"),
    "queue_depth": ("Jobs waiting", "jobs"),
    "dead": ("Dead tuples", "rows"),
    "size": ("Tables with indexes", "MB"),
    "cpu": ("CPU of the server", "% of a core"),
    "load": ("Load of the machine", "processes"),
}
SUMS = {"n_dead_tup": "dead", "total_relation_size_mb": "size"}  # summed over the tables of a system
DRAWN = ("completion_rate", "claim_p50_ms", "cpu", "dead")
HELD = "idle-in-tx"
LAST = 12  # number of samples in the last minute of a phase
Systems = Mapping[str, Any]  # system -> stored data


def keep(folder: Path) -> None:
    systems = {}
    for run in sorted(folder.glob("results/*/*/manifest.json")):
        manifest = json.loads(run.read_text())
        (name,) = manifest["adapters"]
        with run.with_name("raw.csv").open() as file:
            rows = [*csv.DictReader(file)]
        with (folder / f"loads-{name}.csv").open() as file:
            loads = [(float(at), float(load), float(cpu)) for at, load, cpu in csv.reader(file)]
        systems[name] = {
            "command": " ".join(manifest["cli"][1:]).replace(name, "NAME"),
            "phases": phases_of(rows),
            "samples": samples(rows) | machine(rows, loads),
        }
    KEPT.write_bytes(gzip.compress(json.dumps(systems).encode(), mtime=0))


def phases_of(rows: Sequence[Mapping[str, str]]) -> list[tuple[str, float, float]]:
    """Return the kind, start and end of each phase."""
    by_phase: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        by_phase[row["phase_label"], row["phase_type"]].append(float(row["elapsed_s"]))
    return [(kind, min(times), max(times)) for (_, kind), times in by_phase.items()]


def samples(rows: Iterable[Mapping[str, str]]) -> dict[str, list[tuple[float, float]]]:
    """Return the samples of the adapter, and those of the tables, summed over all tables."""
    curves: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        curve = SUMS.get(row["metric"], row["metric"])
        if curve in CURVES and row["subject_kind"] in ("adapter", "table"):
            curves[curve][round(float(row["elapsed_s"]))] += float(row["value"])
    return {
        curve: [(at, float(f"{value:.3g}")) for at, value in sorted(points.items())] for curve, points in curves.items()
    }


def machine(
    rows: Sequence[Mapping[str, str]], loads: Sequence[tuple[float, float, float]]
) -> dict[str, list[tuple[float, float]]]:
    """Return the load average of the machine, and the server's CPU usage in percent of a core, by second of the run."""
    duration = float(rows[-1]["elapsed_s"])
    start = datetime.fromisoformat(rows[-1]["sampled_at"]).timestamp() - duration
    curves: dict[str, list[tuple[float, float]]] = {"load": [], "cpu": []}
    for (previous_at, _, previous_cpu), (at, load, cpu) in pairwise(loads):
        if 0 <= at - start <= duration:
            curves["load"].append((round(at - start), round(load, 1)))
            curves["cpu"].append((round(at - start), round(100 * (cpu - previous_cpu) / (at - previous_at), 2)))
    return curves


def kept() -> Systems:
    systems: dict[str, Any] = json.loads(gzip.decompress(KEPT.read_bytes()))
    return systems


def between(points: Sequence[Sequence[float]], begins: float, ends: float) -> list[float]:
    return [value for at, value in points if begins <= at <= ends]


def phases(run: Systems) -> Iterator[list[str]]:
    """Yield a row for each phase of each system. Cells show two medians: of the phase, and of its last minute."""
    for name, system in run.items():
        for kind, begins, ends in system["phases"]:
            if kind == "warmup":
                continue
            curves = {curve: between(points, begins, ends) for curve, points in system["samples"].items()}
            cells = [
                f"{figure(median(curves[curve]))} → {figure(median(curves[curve][-LAST:]))}"
                if curves.get(curve)
                else ""
                for curve in (*[*CURVES][:5], "cpu")
            ]
            jobs = median(curves["completion_rate"][-LAST:])
            cells += [figure(10 * median(curves["cpu"][-LAST:]) / jobs if jobs else None)]
            cells += [
                figure(median(curves["queue_depth"][-LAST:])),
                figure(max(curves["dead"])),
                figure(curves["size"][-1]),
            ]
            yield [name, kind, f"{(ends - begins) / MINUTE:.0f}", *cells, f"{median(curves['load']):.0f}"]


def parts(run: Systems) -> dict[str, str]:
    heads = ["system", "phase", "minutes", "jobs/s", "until taken, ms", "99th percentile", "end to end, ms",
             "99th percentile", "CPU, %", "CPU of a job, ms", "waiting", "dead tuples", "MB", "load"]  # fmt: skip
    (command,) = {system["command"] for system in run.values()}
    return {
        "command": f"```text\nbench {command}\n```",
        "phases": table(heads, [*phases(run)]),
        "pictures": "\n\n".join(embedded(f"queues-{name}", *CURVES[name]) for name in DRAWN),
    }


def chart(curve: str, run: Systems) -> Chart:
    """Return a chart with a line for each system, by minutes since the start of its run."""
    lines = [
        Line(name, tuple((at / MINUTE, value) for at, value in means(system["samples"][curve])), f"series-{number}")
        for number, (name, system) in enumerate(run.items(), 1)
    ]
    first = next(iter(run.values()))
    changes_of_hold = [at / MINUTE for kind, *ends in first["phases"] if kind == HELD for at in ends]
    title, unit = CURVES[curve]
    return Chart(title, Axis("minutes"), Axis(unit, unit == "ms"), lines, changes_of_hold, "a transaction is idle")


def means(points: Sequence[Sequence[float]], seconds: float = 15) -> Iterator[tuple[float, float]]:
    """Yield the midpoint of each interval of this many seconds, with the median of its values."""
    places = sorted({at // seconds for at, _ in points})
    for place, after in pairwise([*places, float("inf")]):
        values = [value for at, value in points if place <= at / seconds < min(after, place + 1)]
        yield (place + 0.5) * seconds, median(values)


if __name__ == "__main__":
    if sys.argv[1:]:
        keep(Path(sys.argv[1]))
    PAGE.write_text(with_parts(PAGE.read_text(), parts(kept())))
    for curve_name in DRAWN:
        for theme in ("light", "dark"):
            (IMAGES / f"queues-{curve_name}-{theme}.svg").write_text(with_legend(chart(curve_name, kept()), theme))
