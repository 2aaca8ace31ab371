"""inorder demo: what polling readers lose and what random keys cost, in two minutes."""

from itertools import count
from pathlib import Path

import click

from inorder.commands.options import bindir_option
from inorder.commands.show import named, run_and_show
from inorder.errors import InputError
from inorder.lab.analysis.stats import LEAST_ROUNDS
from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.insert import InsertPlan
from inorder.lab.experiments.reader.readers import ReaderPlan
from inorder.lab.journal import usual_name
from inorder.lab.results import EXACT_COUNTERS, Result
from inorder.lab.server.servers import Server, embedded_server, find_server
from inorder.lab.session import new_result
from inorder.report.side_by_side import Labelled
from inorder.units import MB, parse_count


@click.command()
@bindir_option
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=".", help="Folder for its files.")
@click.option(
    "--rows", metavar="COUNT", default="4M", show_default=True, help="Rows of each table when it is larger than memory."
)
@click.option("--seconds", type=click.IntRange(1, 3600), default=1, show_default=True, help="Seconds of each run.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=LEAST_ROUNDS, show_default=True, help="Runs of each.")
@click.option(
    "--reading", type=click.IntRange(1, 300), default=10, show_default=True, help="Seconds of polling, before that."
)
@click.option("--embedded", is_flag=True, help="Run the embedded PostgreSQL, also where the system has one.")
def demo(bindir: Path | None, embedded: bool, out: Path, rows: str, seconds: int, rounds: int, reading: int) -> None:
    """Show in about two minutes what polling readers lose and what random keys cost, on a server that is thrown away.

    Writes inorder-report.html, inorder-demo.jsonl and inorder-demo-reader.jsonl, with a number if there are such files,
    and prints the tables.
    """
    large = parse_count(rows, "--rows", 1000, 10**10)
    plan = InsertPlan(
        rows=(large // 16, large),
        rounds=rounds,
        seconds=seconds,
        memory_bytes=32 * MB,
        dump_wal=False,
    )
    out.mkdir(parents=True, exist_ok=True)
    server = embedded_one(bindir) if embedded else find_server(bindir)
    page, reader, insert = new_files(out)
    before: list[Labelled] = []
    for kind, its_plan, file in (
        (all_experiments()["reader"], ReaderPlan(seconds=reading), reader),
        (all_experiments()["insert"], plan, insert),
    ):
        result = new_result(kind, its_plan, server)
        result.notes += hidden(result, server)
        run_and_show(kind, its_plan, server, result, file, page, "table", before)
        before.append(named(file, result))


def embedded_one(bindir: Path | None) -> Server:
    """The embedded PostgreSQL; an error if there is none, or another is asked for, too."""
    if bindir is not None:
        raise InputError("--embedded and --bindir exclude each other")
    server = embedded_server()
    if server is None:
        raise InputError("the embedded PostgreSQL is not installed; HINT: script/bootstrap --embedded")
    return server


def new_files(folder: Path) -> tuple[Path, Path, Path]:
    """The page and both result files, with the same number."""
    for number in count(1):
        end = f"-{number}" if number > 1 else ""
        names = (f"inorder-report{end}.html", usual_name(f"demo-reader{end}"), usual_name(f"demo{end}"))
        page, reader, insert = (folder / name for name in names)
        if not any(path.exists() for path in (page, reader, insert)):
            break
    return page, reader, insert


def hidden(result: Result, server: Server) -> list[str]:
    """Which effect this machine does not show, and how to see it; nothing where it does."""
    if result.method != EXACT_COUNTERS:
        return []
    where = "inorder demo --embedded" if not server.has_direct_io else "set TMPDIR to a folder on a disk"
    return [
        "Not shown on this machine: the speed that random keys lose once an index is larger than memory; the kernel's "
        f"page cache holds all of it. The WAL is exact. HINT: {where}"
    ]
