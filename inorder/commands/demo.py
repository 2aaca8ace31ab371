"""inorder demo: what polling readers lose and what random keys cost, in two minutes."""

from pathlib import Path

import click

from inorder.commands.options import bindir_option
from inorder.commands.show import named, run_and_show
from inorder.lab.analysis.stats import LEAST_ROUNDS
from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.insert import InsertPlan
from inorder.lab.experiments.reader import ReaderPlan
from inorder.lab.session import new_result
from inorder.report.beside import Labelled
from inorder.servers import find_server
from inorder.units import MB, parse_count


@click.command()
@bindir_option
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=".", help="Folder for its files.")
@click.option("--rows", default="4M", show_default=True, help="Rows of each table when it is larger than memory.")
@click.option("--seconds", type=click.IntRange(1, 3600), default=1, show_default=True, help="Seconds of each run.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=LEAST_ROUNDS, show_default=True, help="Runs of each.")
@click.option(
    "--reading", type=click.IntRange(1, 300), default=10, show_default=True, help="Seconds of polling, before that."
)
def demo(bindir: Path | None, out: Path, rows: str, seconds: int, rounds: int, reading: int) -> None:
    """Show in about two minutes what polling readers lose and what random keys cost, on a server that is thrown away.

    Writes inorder-report.html, inorder-demo.json and inorder-demo-reader.json, and prints the tables.
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
    server = find_server(bindir)
    before: list[Labelled] = []
    for kind, its_plan, file in (
        (all_experiments()["reader"], ReaderPlan(seconds=reading), out / "inorder-demo-reader.json"),
        (all_experiments()["insert"], plan, out / "inorder-demo.json"),
    ):
        result = new_result(kind, its_plan, server)
        run_and_show(kind, its_plan, server, result, file, out / "inorder-report.html", "table", before)
        before.append(named(file, result))
