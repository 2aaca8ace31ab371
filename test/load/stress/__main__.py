"""The command script/stress."""

import random
import sys
import time

import click
from inorder.installations import find_installation

from load.stress.around import MODES, Around
from load.stress.changes import run_changes
from load.stress.groups import run_groups
from load.stress.report import show
from load.stress.round import run_round
from world.edition import EDITIONS


@click.command()
@click.option(
    "--seconds", default=40.0, show_default=True, type=click.FloatRange(1, 3600), help="How long the writers write."
)
@click.option(
    "--rounds", default=3, show_default=True, type=click.IntRange(1, 1000), help="How many rounds, each on new servers."
)
@click.option("--edition", type=click.Choice(list(EDITIONS)), default="c", show_default=True, help="Which edition.")
@click.option("--short", is_flag=True, help="No crash, no promotion, no restore.")
@click.option("--clock", is_flag=True, help="Set the clock of the servers by up to 20 seconds, about every second.")
@click.option(
    "--pooler", type=click.Choice(MODES), help="Let readers go through PgBouncer in this mode; implies --short."
)
@click.option(
    "--asynchronous", is_flag=True,
    help="Instead, copies by changes: writers commit asynchronously, and the server is killed between batch and rows.",
)  # fmt: skip
@click.option("--seed", type=int, help="Of the first round's randomness; by default another one each time.")
def main(
    seconds: float, rounds: int, edition: str, short: bool, clock: bool, pooler: str | None, asynchronous: bool,
    seed: int | None,
) -> None:  # fmt: skip
    """Writers, readers of every kind, counts and a standby at once. Exit code 1 if a row was lost or came twice."""
    around = Around(clock, pooler)
    if missing := around.missing():
        raise click.UsageError(missing)
    first = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    failed = False
    for number in range(rounds):
        began = time.monotonic()
        click.echo(f"round {number + 1} of {rounds}, seed {first + number}", err=True)
        if asynchronous:
            run = run_changes(find_installation(), seconds, first + number, EDITIONS[edition], asynchronous=True)
            click.echo("\n".join([f"{dict(run.seen)}", *run.faults, "FAILED" if run.faults else "passed"]))
            failed |= bool(run.faults)
            continue
        is_long = not short and pooler is None
        result = run_round(find_installation(), seconds, first + number, is_long, EDITIONS[edition], around)
        click.echo(show(result))
        click.echo(f"took {time.monotonic() - began:.0f} s", err=True)
        groups = run_groups(find_installation(), seconds, first + number, EDITIONS[edition], crashes=is_long)
        click.echo("\n".join([f"counts by group: {dict(groups.seen)}", *groups.faults]))
        failed |= result.failed or bool(groups.faults)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
