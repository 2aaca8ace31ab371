"""``inorder demo``: show in three minutes the rows that polling readers lose, and the cost of random keys."""

import itertools
from pathlib import Path

import click

from inorder.commands.catalogue import Labelled
from inorder.commands.options import bindir_option
from inorder.commands.run import run_and_show, writing
from inorder.errors import InputError
from inorder.installations import Installation, embedded_installation, find_installation
from inorder.lab.analysis.stats import LEAST_ROUNDS
from inorder.lab.experiments import experiment_named
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.reader.readers import ReaderPlan
from inorder.lab.results.journal import usual_name
from inorder.lab.results.result import EXACT_COUNTERS, Result
from inorder.lab.run.hosts import ThrowAwayHost
from inorder.lab.run.runner import WholeRun
from inorder.options import FOLDER, count, option
from inorder.units import MB

LEAST_ROWS, MOST_ROWS = 1000, 10**10
MOST_SECONDS, MOST_ROUNDS, MOST_READING = 3600, 1000, 300


@click.command()
@bindir_option
@option("-o", "--out", type=FOLDER, default=".", help="Folder for the files.")
@option(
    "--rows",
    type=count(LEAST_ROWS, MOST_ROWS),
    default="4M",
    help="Rows of each table. The index should be larger than memory.",
)
@option("--seconds", type=count(1, MOST_SECONDS, "SECONDS"), default="1", help="Seconds of each measurement.")
@option("--rounds", type=count(1, MOST_ROUNDS), default=str(LEAST_ROUNDS),
        help="Number of rounds; each measures every kind of key once.")  # fmt: skip
@option("--reading", type=count(1, MOST_READING, "SECONDS"), default="10",
        help="Seconds of the polling experiment, which comes first.")  # fmt: skip
@option("--embedded", is_flag=True, excludes=["--bindir"],
        help="Run the embedded PostgreSQL even if another PostgreSQL is installed.")  # fmt: skip
def demo(bindir: Path | None, embedded: bool, out: Path, rows: int, seconds: int, rounds: int, reading: int) -> None:
    """Show in about three minutes what polling readers lose and what random keys cost, on a throw-away server.

    Runs PostgreSQL from an installation on this machine, in a temporary folder. Writes inorder-report.html,
    inorder-demo.jsonl and inorder-demo-reader.jsonl, with a number if these files exist, and prints the tables.
    """
    out.mkdir(parents=True, exist_ok=True)
    server = embedded_installation() if embedded else find_installation(bindir)
    if server is None:
        raise InputError("the embedded PostgreSQL is not installed; HINT: Run script/bootstrap --embedded.")
    host = ThrowAwayHost(server)
    page, *files = new_files(out)
    earlier_results: list[Labelled] = []
    for name, plan, file in zip(("reader", "insert"), plans(rows, seconds, rounds, reading), files, strict=True):
        kind = experiment_named(name)
        result = host.result(kind, plan)
        result.notes += hidden(result, server)
        with writing(file, page):
            run_and_show(WholeRun(kind, plan, host, result, file), page, "table", earlier_results)
        earlier_results.append(Labelled(file.name, result))


def plans(rows: int, seconds: int, rounds: int, reading: int) -> tuple[ReaderPlan, InsertPlan]:
    """Return the plans of the two experiments. Each plan is complete, so each run can be resumed separately."""
    sizes = tuple(dict.fromkeys((max(rows // 16, LEAST_ROWS), rows)))
    insert = InsertPlan(rows=sizes, rounds=rounds, seconds=seconds, memory_bytes=32 * MB, dump_wal=False)
    return ReaderPlan(seconds=reading), insert


def new_files(folder: Path) -> tuple[Path, Path, Path]:
    for number in itertools.count(1):
        end = f"-{number}" if number > 1 else ""
        names = (f"inorder-report{end}.html", usual_name(f"demo-reader{end}"), usual_name(f"demo{end}"))
        page, reader, insert = (folder / name for name in names)
        if not any(path.exists() for path in (page, reader, insert)):
            break
    return page, reader, insert


def hidden(result: Result, server: Installation) -> list[str]:
    """Return a note on an effect that this machine cannot show, and on how to see it. Return [] if there is none."""
    if result.method != EXACT_COUNTERS:
        return []
    where = "Run inorder demo --embedded." if not server.has_direct_io else "Set TMPDIR to a folder on a disk."
    return [
        "This machine cannot show how much slower random keys are once an index is larger than memory, because the "
        f"kernel's page cache holds the whole index. The WAL is exact. HINT: {where}"
    ]
