"""The command script/fuzz."""

import random
import sys

import click
from inorder.installations import find_installation

from load.fuzz.report import show
from load.fuzz.run import run


@click.command()
@click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(1, 86400), help="How long the calls go on."
)
@click.option("--seed", type=int, help="Of all randomness; by default another one each time.")
@click.option("--sessions", type=click.IntRange(1), help="End after so many sessions, whatever the time.")
@click.option("--edition", default="c", type=click.Choice(["c", "sql"]), help="The C extension, or the SQL edition.")
def main(seconds: float, seed: int | None, sessions: int | None, edition: str) -> None:
    """Calls by a hostile role. Exit code 1 if it gained or broke something."""
    chosen = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    click.echo(f"seed {chosen}", err=True)
    result = run(find_installation(), seconds, chosen, sessions, edition)
    click.echo(show(result))
    sys.exit(1 if result.failures else 0)


if __name__ == "__main__":
    main()
