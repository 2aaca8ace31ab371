"""Command line of script/stress."""

import random
import signal
import sys
import time
from pathlib import Path

import click
from inorder.errors import InorderError
from inorder.installations import find_installation
from inorder.interrupts import SIGNALS
from inorder.options import count, duration, option

from load.soak.piece import run_soak
from load.stress.around import MODES, Around
from load.stress.changes import run_changes
from load.stress.changing import Run
from load.stress.groups import run_groups
from load.stress.report import show
from load.stress.round import run_round
from world.edition import EDITIONS, Edition

PARTS = ("rows", "groups", "changes")


def passed(run: Run, title: str) -> bool:
    click.echo("\n".join([f"{title}: {dict(run.seen)}", *run.faults, "FAILED" if run.faults else "passed"]))
    return not run.faults


def run_parts(
    parts: tuple[str, ...], seconds: float, seed: int, edition: Edition, around: Around, short: bool, asynchronous: bool
) -> bool:
    server, is_long, good = find_installation(), not short and around.pooler is None, True
    if "rows" in parts:
        result = run_round(server, seconds, seed, is_long, edition, around)
        click.echo(show(result))
        good = not result.failed
    if "groups" in parts:
        good &= passed(run_groups(server, seconds, seed, edition, crashes=is_long), "counts by group")
    if "changes" in parts:
        good &= passed(run_changes(server, seconds, seed, edition, asynchronous), "copies by changes")
    return good


@click.command()
@option("--seconds", default="40s", type=duration(1, 3600), help="Duration of the writers' work.")
@option("--rounds", default="3", type=count(1, 1000), help="Number of rounds, each on new servers.")
@option("--edition", type=click.Choice(list(EDITIONS)), default="c", help="Edition: C extension, or SQL.")
@option("--part", "parts", type=click.Choice(PARTS), multiple=True, default=PARTS[:2], help="Parts to run.")
@option("--short", is_flag=True, help="Omit crashes, promotion and restore.")
@option("--clock", is_flag=True, help="Change the clock of the servers by up to 20 seconds, about every second.")
@option("--pooler", type=click.Choice(MODES), help="Connect readers through PgBouncer in this mode; implies --short.")
@option("--asynchronous", is_flag=True, help="Only test copies by changes: writers commit asynchronously, and the "
        "server is killed between a batch and its rows.")  # fmt: skip
@option("--seed", type=int, help="Seed of the first round.  [default: random]")
@option("--for", "length", type=duration(10), help="Instead of rounds, run a soak of this duration.")
@option("--rate", type=count(1, 100_000), help="Rows a second of a soak.  [default: as the previous piece, or 2000]")
@option(
    "--held", default="1h", type=duration(1), help="Duration of an idle transaction, at most two thirds of a piece."
)
@option("--resume", "folder", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Continue the soak "
        "in this folder, by default for an hour. Without it, a new folder is created in TMPDIR.")  # fmt: skip
def main(
    seconds: float, rounds: int, edition: str, parts: tuple[str, ...], short: bool, clock: bool, pooler: str | None,
    asynchronous: bool, seed: int | None, length: float | None, rate: int | None, held: float, folder: Path | None,
) -> None:  # fmt: skip
    """Run writers, readers of every kind, counts and a standby. Exit code 1 if a row is lost or delivered twice."""
    for interrupt in SIGNALS:  # a shell starts background programs with SIGINT ignored
        signal.signal(interrupt, signal.default_int_handler)
    if length is not None or folder is not None:
        sys.exit(0 if run_soak(length or 3600.0, rate, held, edition, folder) else 1)
    around = Around(clock, pooler)
    if missing := around.missing():
        raise click.UsageError(missing)
    first, good = random.SystemRandom().randrange(1_000_000) if seed is None else seed, True
    for number in range(rounds):
        began = time.monotonic()
        click.echo(f"round {number + 1} of {rounds}, seed {first + number}", err=True)
        chosen = ("changes",) if asynchronous else parts
        good &= run_parts(chosen, seconds, first + number, EDITIONS[edition], around, short, asynchronous)
        click.echo(f"took {time.monotonic() - began:.0f} s", err=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except InorderError as error:
        sys.exit(f"stress: {error}")
