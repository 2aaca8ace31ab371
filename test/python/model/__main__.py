"""Check the models of feeds with TLC: see script/model."""

import sys

import click

from model.checks import CHECKS, check


@click.command()
@click.option("--small", is_flag=True, help="Check only the smallest models.")
@click.option("--show", is_flag=True, help="Show the steps that lead to each failure.")
@click.argument("names", nargs=-1)
def main(small: bool, show: bool, names: tuple[str, ...]) -> None:
    """Check the models with these names, or all models."""
    if unknown := set(names) - set(CHECKS):
        raise click.UsageError(f"unknown model {', '.join(sorted(unknown))}: expected {', '.join(CHECKS)}")
    wrong = 0
    print(f"{'model':18}{'must':22}{'found':22}{'states':>10}{'seconds':>9}")
    for name, expected in CHECKS.items():
        if (names and name not in names) or (small and not expected.is_small):
            continue
        result = check(name)
        must = "hold" if not expected.fails else f"fail: {expected.fails}"
        outcome = "held" if not result.failed else f"failed: {result.failed}"
        print(f"{name:18}{must:22}{outcome:22}{result.states:>10,}{result.seconds:>9.0f}", flush=True)
        if show and result.failed:
            print("\n".join(f"    {step}" for step in result.steps), flush=True)
        wrong += result.failed != expected.fails
    if wrong:
        print(f"{wrong} models had another outcome than expected.", file=sys.stderr)
    sys.exit(wrong > 0)


main()
