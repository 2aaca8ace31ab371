"""inorder lab check: does a reader lose rows? Schedules that force the overlap of transactions, and a verdict."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import click

from inorder.commands.options import bindir_option, page_option
from inorder.commands.show import output_console, show_sections
from inorder.connection.database import one_row
from inorder.errors import FOUND, InputError
from inorder.files import require_new, write_whole
from inorder.installations import find_installation
from inorder.lab.check import report
from inorder.lab.check.arena import Arena, run_case, run_load
from inorder.lab.check.history import FAULTS
from inorder.lab.check.report import Checked
from inorder.lab.check.ways import Way, built_in, ways_of
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.own_server import OwnServer, require_usable
from inorder.lab.targets.target import Target
from inorder.lab.targets.throw_away import ThrowAway
from inorder.options import DSN, FILE, count, duration, format_option, one_of, option, several

USUAL = ("id", "created", "horizon", "feed")
SETTINGS = {"wal_level": "logical", "max_prepared_transactions": "10", "fsync": "off"}


def asked(names: Sequence[str], sql: str, program: str, start: Sequence[str], file: Path | None) -> list[Way]:
    own = ways_of(file) if file else {}
    known = built_in() | own
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"there is no reader {unknown[0]}; there are {', '.join(known)}")
    values = dict(one.partition("=")[::2] for one in start)
    ways = [known[name] for name in names]
    if sql:
        ways.append(Way("sql", " ".join(sql.split()), sql, start={"last": "0"} | values))
    if program:
        ways.append(Way("program", program, program=program))
    return ways or [known[name] for name in own or USUAL]


@contextmanager
def target_for(dsn: str | None, bindir: Path | None) -> Iterator[tuple[Target, str, bool]]:
    if dsn is None:
        server = find_installation(bindir)
        with Cluster(server) as cluster:
            target = ThrowAway(cluster)
            target.serve(SETTINGS)
            with target.connect() as connection:
                target.create_schema(connection)
            yield target, server.version, True
    else:
        own = OwnServer(dsn, None)
        require_usable(own.found)
        with own:
            yield own, own.found.version, own.found.has_inorder


def possible(target: Target, has_inorder: bool, way: Way) -> str:
    """Why a way cannot be run there; "" if it can."""
    with target.connect() as connection:
        (level,) = one_row(connection, "SELECT current_setting('wal_level')")
    if way.needs == "inorder" and not has_inorder:
        return "the database has no extension inorder"
    return "wal_level is not logical" if way.needs == "logical" and level != "logical" else ""


@click.command("check")
@click.argument("readers", nargs=-1, metavar="[READER]...")
@option("--sql", default="", metavar="QUERY", help="The poll of your reader; :last is its position, :now the time.")
@option("--program", default="", metavar="COMMAND", help="Your reader as a program, which reads a line for each poll.")
@option("--start", multiple=True, metavar="NAME=VALUE", help="Values of the names in --sql at first.  [last=0]")
@option("--ways", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file of readers with their tables, as docs/check.md has it.")  # fmt: skip
@option("--schedules", "most", type=count(1), help="Schedules of each case, at most: those that overlap most.  [all]")
@option("--load", "load", type=duration(0.1, 3600), default="5s", help="How long a random load follows the schedules.")
@option("--seed", type=count(0), default="1", help="Of the random load.")
@option("--fail-on", "fail_on", type=several(one_of(FAULTS)), metavar="FAULT,…",
        help="Exit with 3 if any reader has one of these faults: lost, twice, disorder, stalled, differs.")  # fmt: skip
@option("--script", type=FILE, help="Write the shortest schedule with a fault to this file, a new one, for psql.")
@option("--dsn", type=DSN, help="Run on your own server instead, in a schema inorder_lab that is removed afterwards.")
@bindir_option
@page_option
@format_option(("table", "json"), "What to print.")
def lab_check(
    readers: Sequence[str], sql: str, program: str, start: Sequence[str], file: Path | None, most: int | None,
    load: float, seed: int, fail_on: Sequence[str] | None, script: Path | None, dsn: str | None, bindir: Path | None,
    page: Path | None, output: str,
) -> None:  # fmt: skip
    """Does a reader lose rows? Runs schedules in which transactions overlap, and shows the shortest that loses one.

    READER is one of those built in, or of --ways. Without any: id, created, horizon and feed. docs/check.md explains
    the cases, the faults, and the lines of JSON that a program reads and writes.
    """
    ways = asked(readers, sql, program, start, file)
    if script:
        require_new(script, "remove it, or give another --script")
    with target_for(dsn, bindir) as (target, version, has_inorder):
        checks = [checked for way in ways if (checked := check(target, has_inorder, way, most, load, seed))]
    show(checks, version, output, script, page)
    if any(fault in one.faults for one in checks for fault in fail_on or ()):
        sys.exit(FOUND)


def check(
    target: Target, has_inorder: bool, way: Way, most: int | None, load: float, seed: int
) -> Checked | None:  # fmt: skip
    if reason := possible(target, has_inorder, way):
        click.echo(f"{way.title}: left out, since {reason}", err=True)
        return None
    checked = Checked(way)
    with closing(Arena(target, way)) as arena:
        for case in way.cases:
            click.echo(f"\r{way.title}: {case.name}\033[K", nl=False, err=True) if sys.stderr.isatty() else None
            checked.outcomes.append(run_case(arena, case, most))
        checked.outcomes.append(run_load(arena, load, seed))
    return checked


def show(checks: Sequence[Checked], version: str, output: str, script: Path | None, page: Path | None) -> None:
    sections = [report.readers_section(checks), *([report.cases_section(checks[0])] if len(checks) == 1 else [])]
    show_sections(sections, output, report.records(checks))
    if output == "table":
        for title, drawing in report.diagrams(checks):
            output_console().print(title, drawing, "", sep="\n", highlight=False, markup=False, soft_wrap=True)
    if page:
        write_whole(page, report.page(checks, version))
    if script:
        found = [(one.way, worst[1]) for one in checks for fault in one.faults if (worst := one.worst(fault))]
        write_whole(script, report.script_of(*found[0]) if found else "-- No schedule has a fault.\n")
