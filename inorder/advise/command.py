"""``inorder advise``: its options. The command reads the facts, and shows the findings."""

import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inorder.errors import FOUND, InputError
from inorder.options import FILE, Value, dsn_option, duration, format_option, option, several, size
from inorder.sources import installer
from inorder.text import quoted

if TYPE_CHECKING:
    from inorder.advise.report import Advice

ANY = "any"
PARSER, PAGES = "pglast", "jinja2"
BY_STATEMENTS = ("polling-reader", "cached-sequence", "count-all")


def known_finding(text: str, option: str) -> str:
    from inorder.advise.finding import IDS  # noqa: PLC0415  # loads the driver, which --help does not need

    if text not in (ANY, *IDS):
        raise InputError(f"{option}: unknown value {quoted(text)}; choose from {', '.join(IDS)}, or {ANY}")
    return text


@click.command(epilog="Example: inorder advise --over 1min --fail-on random-key,polling-reader")
@option("--statements", "scripts", multiple=True, type=FILE, excludes=["--over", "--sample", "--least", "--dsn"],
        help="Find readers that lose rows in FILE, a file of SQL, without a server. May be repeated.")  # fmt: skip
@option(
    "--over",
    type=duration(1),
    help="Count rows over this period, such as 10min, instead of since the last reset of the counters.",
)
@option(
    "--sample",
    is_flag=True,
    help="Read some rows of each table that has no keys in pg_stats, if a superuser or your role owns the table.",
)
@option("--least", type=size(1), default="100MB",
        help="Show only findings about keys that save at least this much WAL a day, or this much storage.")  # fmt: skip
@option("--fail-on", "fail_on", type=several(Value("ID", known_finding, str)),
        help=f"Exit with code 3 if there is a finding of one of these IDs; {ANY} stands for all IDs.")  # fmt: skip
@dsn_option()
@format_option(["table", "json", "html"])
def advise(
    scripts: tuple[Path, ...], over: float | None, sample: bool, least: int, fail_on: tuple[str, ...] | None, dsn: str,
    output: str,
) -> None:  # fmt: skip
    """Find tables whose kind of key is expensive, and readers that lose rows.

    Reads the catalog and the server's counters, in READ ONLY transactions, without locking a table. Lists what the
    role may not see; pg_monitor is enough for most facts. docs/advice.md explains each finding.
    """
    if output == "html":
        require("--format html", PAGES)
    if scripts or {ANY, *BY_STATEMENTS} & {*(fail_on or ())}:
        require("--statements" if scripts else "--fail-on", PARSER)
    advice = of_files(scripts) if scripts else of_server(dsn, over, sample, least)
    if output == "html":
        from inorder.advise import pages  # noqa: PLC0415  # requires a package of an extra

        click.echo(pages.page(advice))
    else:
        click.echo(advice.as_text() if output == "table" else json.dumps(advice.as_data(), indent=1))
    if fail_on and any(finding.id in fail_on or ANY in fail_on for finding in advice.findings):
        sys.exit(FOUND)


def require(option: str, package: str) -> None:
    """Raise InputError if a package is missing, before anything is read.

    The modules that need the package import it later.
    """
    if find_spec(package) is None:
        raise InputError(f"{option} needs {package}, which is not installed; HINT: {installer('advise')}")


def of_server(dsn: str, over: float | None, sample: bool, least: int) -> "Advice":
    # These imports load the driver, which --help does not need.
    from inorder.advise import report  # noqa: PLC0415
    from inorder.advise.facts import read  # noqa: PLC0415
    from inorder.advise.findings import advice_of  # noqa: PLC0415

    facts = read(dsn, over, sample)
    return report.of_server(facts, *advice_of(facts, least))


def of_files(paths: Sequence[Path]) -> "Advice":
    from inorder.advise import report, scripts  # noqa: PLC0415  # requires a package of an extra

    files = scripts.read(paths)
    findings = scripts.findings(files)
    return report.of_files(files.names, files.count, findings, files.unseen)
