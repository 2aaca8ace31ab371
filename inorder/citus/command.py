"""``inorder citus``: its options. The command prepares the shards once or repeatedly."""

from typing import Any

import click

from inorder.options import dsn_option, duration, lock_timeout_option, option, tries_option
from inorder.text import lines, plural, print_text


@click.command(epilog="Example: inorder citus app.events --every 1m")
@click.argument("table")
@option("--column", metavar="NAME", excludes=["--undo"],
        help="Column with the transaction number.  [default: the only such column that is generated]")  # fmt: skip
@lock_timeout_option("500ms")
@tries_option(" at a shard")
@option("--every", type=duration(), excludes=["--undo", "--dry-run"],
        help="Repeat at this interval until Ctrl-C, for shards that are moved and split: 5s, 1m.")  # fmt: skip
@option("--undo", is_flag=True, help="Drop the guard of each shard.")
@option("--dry-run", is_flag=True, help="Print the statements that remain to be run, without running them.")
@dsn_option(" of the coordinator")
def citus(every: float | None, **options: Any) -> None:
    """Make each shard of the distributed TABLE readable, on its node, for tail --shards and count show --shards.

    The column with the transaction number must be GENERATED ALWAYS AS (xact_id_generated()) STORED. Run the
    command again after shards were moved or split: readable shards are left as they are.
    """
    # This import loads the driver, which --help does not need.
    from inorder.citus.preparation import Request, repeat, run  # noqa: PLC0415

    request = Request(**options)
    if every is not None:
        repeat(request, every)

    count = run(request, print_text if request.dry_run else lambda text: click.echo(lines(text), err=True))
    if not request.dry_run:
        state = "not guarded" if request.undo else "readable"
        print_text(f"{request.table}: {plural(count, 'shard')} {'is' if count == 1 else 'are'} {state}")
