"""The command line: reads arguments, calls the rest, prints. Nothing imports this."""

import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click
import psycopg
from rich.console import Console, Group, RenderableType

from inorder import __version__
from inorder.count import count
from inorder.display import Display
from inorder.errors import InorderError, InputError
from inorder.generate.command import generate
from inorder.lab import session
from inorder.lab.experiments import feed, generators, insert, reader, uuid_v1
from inorder.lab.keys import KEY_KINDS, kinds_named
from inorder.lab.machine import available_cores
from inorder.lab.progress import Progress
from inorder.lab.results import Result, load
from inorder.lab.stats import LEAST_ROUNDS
from inorder.report import formats, html, terminal
from inorder.report.feed import feed_tables, summarise_feed
from inorder.report.generators import generators_table, summarise_generators, task_table
from inorder.report.reader import reader_tables, summarise_reader
from inorder.report.summary import headline, memory_note, summarise
from inorder.report.uuid_v1 import summarise_uuid_v1, uuid_v1_table
from inorder.servers import Server, find_server
from inorder.tail.command import tail
from inorder.units import MB, parse_bytes, parse_count

INTERRUPTED = 130  # as a shell reports SIGINT
TERMINATED = 143
LOWEST_MEMORY = MB
FILE_WIDTH = 140
READER_SECONDS = click.IntRange(1, 300)  # every delivery is kept until the round is judged

bindir_option = click.option(
    "--bindir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the PostgreSQL programs to run. "
    "Default: that of PG_CONFIG, a system PostgreSQL with headers, the embedded one.",
)
format_option = click.option(
    "--format", "output", type=click.Choice(formats.FORMATS), default="table", show_default=True, help="What to print."
)
seed_option = click.option("--seed", type=int, default=1, show_default=True, help="Seed of the order of runs.")


def out_option(name: str) -> Callable[[Any], Any]:
    """Where the result file goes."""
    file = click.Path(dir_okay=False, path_type=Path)
    return click.option("--out", type=file, default=name, show_default=True, help="The result file.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="inorder")
def cli() -> None:
    """Keys that arrive in order: see on a real PostgreSQL what each kind of key costs.

    Exit codes: 0 done, 1 it failed, 2 it cannot be done as asked, 130 interrupted, 143 terminated.
    """


@cli.command()
@bindir_option
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=".", help="Folder for its files.")
@click.option("--rows", default="4M", show_default=True, help="Rows of each table when it is larger than memory.")
@click.option("--seconds", type=click.IntRange(1, 3600), default=1, show_default=True, help="Seconds of each run.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=LEAST_ROUNDS, show_default=True, help="Runs of each.")
@click.option("--reading", type=READER_SECONDS, default=10, show_default=True, help="Seconds of polling, before that.")
def demo(bindir: Path | None, out: Path, rows: str, seconds: int, rounds: int, reading: int) -> None:
    """Show in about two minutes what polling readers lose and what random keys cost, on a server that is thrown away.

    Writes inorder-report.html, inorder-demo.json and inorder-demo-reader.json, and prints the tables.
    """
    large = parse_count(rows, "--rows", 1000, 10**10)
    plan = insert.InsertPlan(
        rows=(large // 16, large),
        rounds=rounds,
        seconds=seconds,
        threads=available_cores(),
        fill_workers=available_cores(),
        memory_bytes=32 * MB,
    )
    out.mkdir(parents=True, exist_ok=True)
    server = find_server(bindir)
    run_reader_command(server, reader.ReaderPlan(seconds=reading), out / "inorder-demo-reader.json", "table")
    run_insert_command(server, plan, out / "inorder-demo.json", out / "inorder-report.html", "table")


for command in (generate, tail, count):
    cli.add_command(command)


@cli.group()
def lab() -> None:
    """Measure: run experiments, report their results."""


@lab.group("run")
def lab_run() -> None:
    """Run an experiment on a throw-away server."""


@lab_run.command("insert")
@bindir_option
@click.option("--keys", default=",".join(KEY_KINDS), show_default=True, help="Kinds of key, comma-separated.")
@click.option("--rows", default="10M", show_default=True, help="Rows in the table, several comma-separated.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=LEAST_ROUNDS, show_default=True, help="Runs of each.")
@click.option("--seconds", type=click.IntRange(1, 86400), default=10, show_default=True, help="Seconds of each run.")
@click.option("--inserts", help="Inserts of each run, instead of seconds: makes WAL and block counts comparable.")
@click.option("--clients", type=click.IntRange(1, 90), default=8, show_default=True, help="Sessions of pgbench.")
@click.option("--memory", default="128MB", show_default=True, help="shared_buffers while measuring.")
@seed_option
@out_option("inorder-insert.json")
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write a report here, too.")
@format_option
def lab_run_insert(bindir: Path | None, output: str, page: Path | None, out: Path, **options: Any) -> None:
    """Insert TPS and WAL per row, by kind of key and size of table (studies P1 and P3)."""
    plan = insert.InsertPlan(
        kinds=tuple(kind.name for kind in kinds_named(options["keys"])),
        rows=tuple(dict.fromkeys(parse_count(part, "--rows", 1000, 10**11) for part in options["rows"].split(","))),
        rounds=options["rounds"],
        seconds=options["seconds"],
        inserts=parse_count(options["inserts"], "--inserts") if options["inserts"] else None,
        clients=options["clients"],
        threads=available_cores(),
        memory_bytes=parse_bytes(options["memory"], "--memory", LOWEST_MEMORY),
        fill_workers=available_cores(),
        seed=options["seed"],
    )
    run_insert_command(find_server(bindir), plan, out, page, output)


@lab_run.command("generators")
@bindir_option
@click.option("--values", default="1M", show_default=True, help="Values of one call.")
@click.option("--rows", default="500k", show_default=True, help="Rows of one INSERT … SELECT.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=9, show_default=True, help="Times of each.")
@seed_option
@out_option("inorder-generators.json")
@format_option
def lab_run_generators(
    bindir: Path | None, values: str, rows: str, rounds: int, seed: int, out: Path, output: str
) -> None:
    """CPU time to make a key, above a function that returns a constant, and of a bulk insert."""
    plan = generators.GeneratorsPlan(
        parse_count(values, "--values", 1000, 10**9), parse_count(rows, "--rows", 1000, 10**9), rounds, seed
    )
    server = find_server(bindir)
    result = session.generators_result(server, plan)
    run_and_show(
        lambda display: session.generators_session(server, plan, result, display, out),
        lambda: generators_table(result), server, result, out, None, output,
    )  # fmt: skip


@lab_run.command("uuid-v1")
@bindir_option
@click.option("--rows", help="Rows of the first COPY; the second brings a tenth more.  [default: 10M]")
@click.option("--quick", is_flag=True, help="1M rows instead.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=1, show_default=True, help="Times of everything.")
@click.option("--memory", default="128MB", show_default=True, help="shared_buffers.")
@seed_option
@out_option("inorder-uuid-v1.json")
@format_option
def lab_run_uuid_v1(
    bindir: Path | None, rows: str | None, quick: bool, rounds: int, memory: str, seed: int, out: Path, output: str
) -> None:
    """Version-1 UUIDs in time order or not: COPY, VACUUM, REINDEX of a table (study P4)."""
    count = rows_or_quick(rows, quick, "10M", 1000)
    plan = uuid_v1.UuidV1Plan(count, rounds, parse_bytes(memory, "--memory", LOWEST_MEMORY), seed)
    server = find_server(bindir)
    result = session.uuid_v1_result(server, plan)
    run_and_show(
        lambda display: session.uuid_v1_session(server, plan, result, display, out),
        lambda: uuid_v1_table(result), server, result, out, None, output,
    )  # fmt: skip


@lab_run.command("reader")
@bindir_option
@click.option("--writers", type=click.IntRange(1, 90), default=16, show_default=True, help="Sessions of pgbench.")
@click.option("--seconds", type=READER_SECONDS, default=10, show_default=True, help="Seconds of each round.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=1, show_default=True, help="Times of everything.")
@seed_option
@out_option("inorder-reader.json")
@format_option
def lab_run_reader(
    bindir: Path | None, writers: int, seconds: int, rounds: int, seed: int, out: Path, output: str
) -> None:
    """Rows that polling readers lose while transactions of mixed lengths write (study P5)."""
    run_reader_command(find_server(bindir), reader.ReaderPlan(writers, seconds, rounds, seed), out, output)


@lab_run.command("feed")
@bindir_option
@click.option("--rows", help="Rows of each table before the looks.  [default: 20M]")
@click.option("--quick", is_flag=True, help="1M rows instead.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=LEAST_ROUNDS, show_default=True, help="Times of each.")
@seed_option
@out_option("inorder-feed.json")
@format_option
def lab_run_feed(
    bindir: Path | None, rows: str | None, quick: bool, rounds: int, seed: int, out: Path, output: str
) -> None:
    """What a feed and an exact count cost writers, readers, and who looks at a large table (study P5)."""
    plan = feed.FeedPlan(rows_or_quick(rows, quick, "20M", 10_000), rounds, seed)
    server = find_server(bindir)
    result = session.feed_result(server, plan)
    run_and_show(
        lambda display: session.feed_session(server, plan, result, display, out),
        lambda: Group(*feed_tables(result)), server, result, out, None, output,
    )  # fmt: skip


def rows_or_quick(rows: str | None, quick: bool, default: str, lowest: int) -> int:
    """How many rows: those asked for, a million if it is to be quick, or the default."""
    if quick and rows:
        raise InputError("--quick and --rows exclude each other")
    return parse_count(rows or ("1M" if quick else default), "--rows", lowest, 10**10)


@lab.command("report")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write the page here, too.")
@format_option
def lab_report(file: Path, page: Path | None, output: str) -> None:
    """Show a result file again."""
    result = load(file)
    try:
        show(result, output, page)
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise InputError(f"{file} is damaged: {type(error).__name__} {error}") from error


def run_insert_command(server: Server, plan: insert.InsertPlan, out: Path, page: Path | None, output: str) -> None:
    """Run the insert experiment."""
    result = session.insert_result(server, plan)
    run_and_show(
        lambda display: session.insert_session(server, plan, result, display, out),
        lambda: Group(*terminal.insert_tables(summarise(result))), server, result, out, page, output,
    )  # fmt: skip


def run_reader_command(server: Server, plan: reader.ReaderPlan, out: Path, output: str) -> None:
    """Run the reader experiment."""
    result = session.reader_result(server, plan)
    run_and_show(
        lambda display: session.reader_session(server, plan, result, display, out),
        lambda: Group(*reader_tables(result)), server, result, out, None, output,
    )  # fmt: skip


def run_and_show(
    work: Callable[[Progress], None],
    figures: Callable[[], RenderableType],
    server: Server,
    result: Result,
    out: Path,
    page: Path | None,
    output: str,
) -> None:
    """Run an experiment under a live display; what was measured is shown and kept however it ends."""
    check_writable(out, page)
    aside = Console(stderr=True)
    note = f" · {memory_note(result)}" if "memory_bytes" in result.plan else ""
    aside.print(f"{server.name}, private, removed afterwards{note}", highlight=False)
    try:
        with Display(f"starting {server.name}", figures) as display:
            work(display)
    finally:
        if any(run.step != "fill" for run in result.runs):
            show(result, output, page)
            written = [str(path) for path in (out, page) if path and path.exists()]
            aside.print(f"Written: {', '.join(written)}", highlight=False)


def check_writable(*paths: Path | None) -> None:
    """An error now rather than after minutes of work."""
    for path in paths:
        if path is None:
            continue
        probe = path.with_name(path.name + ".partial")
        try:
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from error


def show(result: Result, output: str, page: Path | None) -> None:
    """Print a result as asked, and write its page if asked."""
    if page and result.experiment != insert.NAME:
        raise InputError(f"there is no page for the experiment '{result.experiment}' yet")
    if result.experiment == generators.NAME:
        show_rows(output, summarise_generators(result), generators_table(result), task_table(result))
    elif result.experiment == uuid_v1.NAME:
        show_rows(output, summarise_uuid_v1(result), uuid_v1_table(result))
    elif result.experiment == reader.NAME:
        show_rows(output, summarise_reader(result), *reader_tables(result))
    elif result.experiment == feed.NAME:
        show_rows(output, summarise_feed(result), *feed_tables(result))
    elif result.experiment == insert.NAME:
        show_insert(result, output)
        if page:
            html.write_insert(result, page)
    else:
        raise InputError(f"this inorder knows no experiment '{result.experiment}'")


def output_console() -> Console:
    """Stdout; as wide as its tables need where there is no terminal to fit."""
    return Console(width=None if sys.stdout.isatty() else FILE_WIDTH)


def show_rows(output: str, rows: Sequence[Any], *tables: RenderableType) -> None:
    """An experiment on stdout: as tables, or the rows as data."""
    if output == "table":
        console = output_console()
        for table in tables:
            console.print(table, "")
    else:
        click.echo(formats.as_json(rows) if output == "json" else formats.as_csv(rows))


def show_insert(result: Result, output: str) -> None:
    """The insert experiment on stdout."""
    sizes = summarise(result)
    if output == "table":
        console = output_console()
        for table in terminal.insert_tables(sizes):
            console.print(table, "")
        console.print(headline(list(sizes.values())[-1] if sizes else []), highlight=False)
    else:
        write = formats.as_json if output == "json" else formats.as_csv
        click.echo(write([kind for kinds in sizes.values() for kind in kinds]))


class Terminated(BaseException):
    """SIGTERM or SIGHUP: unwinds like an interrupt, so that every server is stopped."""


def terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    """The handler of SIGTERM and SIGHUP."""
    raise Terminated


def main() -> NoReturn:
    """The console script: errors are one sentence, signals clean up."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit it ignored
    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, terminate)
    try:
        cli(standalone_mode=False)
    except InorderError as error:
        click.echo(f"inorder: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (psycopg.Error, OSError) as error:  # the server went away, the disk is full
        click.echo(f"inorder: {error}", err=True)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        click.echo("inorder: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except Terminated:
        click.echo("inorder: terminated", err=True)
        sys.exit(TERMINATED)
    sys.exit(0)
