"""``inorder lab check``: run schedules of overlapping transactions, and judge whether a reader loses rows."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from inorder.commands.options import bindir_option, page_option
from inorder.commands.show import output_console, show_sections
from inorder.errors import FOUND, InputError
from inorder.files import require_new, write_whole
from inorder.lab.check import outputs, report
from inorder.lab.check.history import FAULTS
from inorder.lab.check.programs import command_of
from inorder.lab.check.run import Amount, Place, check, impossible, place_for
from inorder.lab.check.verdict import Checked
from inorder.lab.check.ways import FATAL, Way, built_in, ways_of
from inorder.options import DSN, FILE, count, duration, format_option, one_of, option, several
from inorder.text import print_text, quoted

# Errors of a query for another table, and the hint.
UNDEFINED = ("(UndefinedTable)", "(UndefinedColumn)")
OF_EVENTS = "HINT:  --sql polls the table events (id, created_at, xact). For another table, write a file for --ways."
USUAL = ("id", "created", "horizon", "feed")


def asked(names: Sequence[str], sql: str, program: str, start: Sequence[str], file: Path | None) -> list[Way]:
    own_readers = ways_of(file) if file else {}
    readers = built_in() | own_readers
    if unknown := [name for name in names if name not in readers]:
        raise InputError(f"unknown reader {quoted(unknown[0])}; choose from {', '.join(readers)}")
    values = dict(assignment.partition("=")[::2] for assignment in start)
    ways = [readers[name] for name in names]
    if sql:
        ways.append(Way("sql", " ".join(sql.split()), sql, start={"last": "0"} | values))
    if program:
        ways.append(Way("program", program, program=program))
    ways = ways or [readers[name] for name in own_readers or USUAL]
    for way in ways:
        if way.program:
            command_of(way.program)
    return ways


@click.command("check")
@click.argument("readers", nargs=-1, metavar="[READER]...")
@option(
    "--sql",
    default="",
    metavar="QUERY",
    help="Check a reader that polls the table events (id, created_at, xact) with this query; :last is its position, "
    ":now the current time.",
)
@option("--program", default="", metavar="COMMAND", help="Check a program that polls once for each line of its input.")
@option("--start", multiple=True, metavar="NAME=VALUE", help="Initial values of the names in --sql.  [last=0]")
@option("--ways", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file that defines readers and their tables; docs/check.md describes it.")  # fmt: skip
@option(
    "--schedules", "most", type=count(1), help="In each case, run only the COUNT schedules that overlap most.  [all]"
)
@option(
    "--load", "load", type=duration(0.1, 3600), default="5s", help="Duration of the random load after the schedules."
)
@option("--seed", type=count(0), default="1", help="Seed of the random load.")
@option("--fail-on", "fail_on", type=several(one_of(FAULTS)), metavar="FAULT,…",
        help="Exit with code 3 if any reader has one of these faults: lost, twice, disorder, stalled, differs.  "
             "[lost,twice,differs with --sql, --program or --ways]")  # fmt: skip
@option("--script", type=FILE, help="Write the shortest schedule with a fault to a new file, for psql.")
@option(
    "--record", type=FILE, help="Write a file for version control: versions, seed, hash of the reader, cases, verdict."
)
@option(
    "-d", "--dsn", type=DSN, help="Run on your own server instead, in a schema inorder_lab that is removed afterwards."
)
@bindir_option
@page_option
@format_option(("table", "json", "junit", "sarif"), "What to print.")
def lab_check(
    readers: Sequence[str], sql: str, program: str, start: Sequence[str], file: Path | None, most: int | None,
    load: float, seed: int, fail_on: Sequence[str] | None, script: Path | None, record: Path | None, dsn: str | None,
    bindir: Path | None, page: Path | None, output: str,
) -> None:  # fmt: skip
    """Check if a reader loses rows: run schedules of overlapping transactions, and show the shortest that loses rows.

    READER is a built-in reader, or a reader that --ways defines; by default id, created, horizon and feed. An unknown
    name prints all names. docs/check.md explains the readers, cases and faults; docs/check-protocol.md explains the
    lines of JSON that a program reads and writes.
    """
    ways, amount = asked(readers, sql, program, start, file), Amount(most, load, seed)
    if script:
        require_new(script, "Remove the file, or give another --script.")
    with place_for(ways, dsn, bindir) as place:
        checks = [checked for way in ways if (checked := checked_there(place, way, amount))]
    fatal = fail_on or (FATAL if sql or program or file else ())
    if output in ("junit", "sarif"):
        where = outputs.place_of(ways, file)
        print_text(outputs.as_junit(checks, fatal) if output == "junit" else outputs.as_sarif(checks, where))
    else:
        show(checks, place.version, output)
    for path, text in ((page, report.page), (script, report.script)):
        if path:
            write_whole(path, text(checks, place.version))
    if record:
        write_whole(record, outputs.as_record(checks, place.version, amount))
    if any(fault in check.worst for check in checks for fault in fatal):
        sys.exit(FOUND)


def checked_there(place: Place, way: Way, amount: Amount) -> Checked | None:
    if reason := impossible(place, way):
        click.echo(f"{way.title}: left out, because {reason}", err=True)
        return None

    def progress(case: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{way.title}: {case}\033[K", nl=False, err=True)

    try:
        return check(place.target, way, amount, progress)
    except InputError as error:
        if way.name == "sql" and any(kind in str(error) for kind in UNDEFINED):
            raise InputError(f"{error}\n{OF_EVENTS}") from error
        raise


def show(checks: Sequence[Checked], version: str, output: str) -> None:
    sections = [report.readers_section(checks), *([report.cases_section(checks[0])] if len(checks) == 1 else [])]
    console = output_console()
    if output == "table":
        console.print(*report.sentences(checks), "", sep="\n", style="bold", highlight=False, markup=False)
    show_sections(sections, output, report.records(checks, version))
    if output == "table":
        for title, drawing in report.diagrams(checks):
            console.print(title, drawing, "", sep="\n", highlight=False, markup=False, soft_wrap=True)
