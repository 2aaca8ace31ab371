"""The command script/soak."""

import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from inorder.errors import InorderError
from inorder.installations import find_installation
from inorder.interrupts import SIGNALS
from inorder.lab.server.temporary import service_account, temporary_folder
from inorder.options import count, duration, option

from load.soak.piece import run_piece
from load.soak.samples import CURVES, figure, trends
from load.soak.world import diary, replace
from load.stress.report import table
from world.edition import EDITIONS

SAID = ("reader", "table", "due", "delivered", "lost", "repeated", "foreign", "disordered")


def shown(folder: Path, piece: dict[str, Any]) -> str:
    samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    rows: list[tuple[object, ...]] = [("curve", "start", "held", "end", "times")]
    rows += [(f"{CURVES[trend.curve][0]}, {CURVES[trend.curve][1]}: {trend.line}", figure(trend.start),
              figure(trend.held), figure(trend.end), figure(trend.grows)) for trend in trends(samples)]  # fmt: skip
    parts = [table([SAID, *(tuple(line[name] for name in SAID) for line in piece["lines"])]), table(rows)]
    parts += [f"meanwhile: {piece['done']}, {piece['counts']} counts compared"]
    parts += [f"PROBLEM: {problem}" for problem in piece["problems"]]
    return "\n".join([*parts, "FAILED" if piece["problems"] else "passed: each reader got each row once"])


@click.command()
@option("--for", "seconds", default="1h", type=duration(10), help="How long this piece is.")
@option("--rate", type=count(1, 100_000), help="Rows a second.  [default: 2000, or that of the piece before]")
@option("--held", default="1h", type=duration(1), help="How long a transaction is idle, at most two thirds of it.")
@option("--edition", default="c", type=click.Choice(list(EDITIONS)), help="Which edition.")
@option("--resume", "folder", type=click.Path(path_type=Path, exists=True, file_okay=False), help="The folder of an "
        "earlier piece. By default a new one is made in TMPDIR, and its name printed.")  # fmt: skip
def main(seconds: float, rate: int | None, held: float, edition: str, folder: Path | None) -> None:
    """Readers of five kinds under load for hours. Exit code 1 if one of them lost a row, or got one twice."""
    for number in SIGNALS:  # in the background, too, where a shell ignores SIGINT
        signal.signal(number, signal.default_int_handler)
    server = find_installation()
    if folder is None:
        account = service_account()
        folder = Path(tempfile.mkdtemp(prefix="soak-", dir=temporary_folder(account)))
        folder.chmod(0o755)
        replace(folder / "soak.json", {"server": server.version, "edition": edition, "pieces": [], "seconds": 0})
    state = {"rate": 2000} | diary(folder) | ({"rate": rate} if rate else {})
    replace(folder / "soak.json", state)
    if state["server"] != server.version:
        raise InorderError(f"{folder} is of PostgreSQL {state['server']}, and PG_CONFIG of {server.version}")
    click.echo(f"{folder}: piece {len(state['pieces']) + 1}, {state['rate']} rows a second", err=True)
    piece = run_piece(server, folder, seconds, held)
    click.echo(shown(folder, piece))
    sys.exit(1 if piece["problems"] else 0)


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except (click.ClickException, InorderError) as error:
        sys.exit(f"soak: {error}")
