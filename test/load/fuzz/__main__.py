"""Command line of script/fuzz."""

import random
import sys

import click
from inorder.installations import find_installation

from load.fuzz.report import show
from load.fuzz.run import run


@click.command()
@click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(1, 86400), help="Duration of the calls."
)
@click.option("--seed", type=int, help="Seed of all random choices.  [default: random]")
@click.option("--sessions", type=click.IntRange(1), help="End after this number of sessions, even before --seconds.")
@click.option("--edition", default="c", type=click.Choice(["c", "sql"]), help="Edition: C extension, or SQL.")
def main(seconds: float, seed: int | None, sessions: int | None, edition: str) -> None:
    """Call functions as a hostile role. Exit code 1 if the role gained a privilege, or damaged anything."""
    chosen = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    click.echo(f"seed {chosen}", err=True)
    result = run(find_installation(), seconds, chosen, sessions, edition)
    click.echo(show(result))
    sys.exit(1 if result.failures else 0)


if __name__ == "__main__":
    main()
