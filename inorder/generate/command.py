"""``inorder generate``: options, checks and output."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from inorder.errors import InorderError, InputError
from inorder.files import failed, replacing
from inorder.generate.encode import ENCODERS, Encoder
from inorder.generate.times import TICKS_PER_SECOND, TICKS_TO_1970, Times, ticks_of
from inorder.generate.uuids import CHUNK, KINDS, DataSet, chunks
from inorder.options import count, duration, format_option, option
from inorder.text import quoted
from inorder.units import typed_seconds

DAY = 86_400
USUAL_INTERVAL = 365 * DAY
MOST_INTERVAL = 1_000_000 * DAY
MOST_LAG = DAY
MOST_NODES = 1000
MOST_SEED = 2**63 - 1

# The ticks that a kind can represent, and this range in words.
RANGES = {
    "uuid-v1": (0, 2**60 - 1, "1582-10-15 to 5236-03-31"),
    "uuid-v7": (TICKS_TO_1970, TICKS_TO_1970 + 2**48 * 10_000 - 1, "1970-01-01 to 10889-08-02"),
}


@click.command(epilog="Example: inorder generate uuid-v7 --count 1M --out ids.txt")
@click.argument("kind", type=click.Choice(KINDS))
@option("--count", type=count(), default="10M", help="Number of values.")
@option("--nodes", type=count(1, MOST_NODES), default="9", help="Number of simulated machines.")
@option(
    "--historic/--now", default=True, show_default=False,
    help="Spread times over an interval that ends now (the default), or generate a value per 100 ns from now on.",
)  # fmt: skip
@option("--interval", type=duration(0.001, MOST_INTERVAL), help="Length of the interval.  [default: 365d]")
@option(
    "--until", metavar="TIME",
    help="Use this time instead of the current time, for repeatable values: ISO 8601, by default in UTC.",
)  # fmt: skip
@option(
    "--lag", type=duration(0, MOST_LAG), default="0s",
    help="Lag of the last machine's clock. The other clocks lag proportionally less; the first does not lag.",
)  # fmt: skip
@option("--seed", type=count(0, MOST_SEED, "NUMBER"), default="1", help="Seed of the random number generator.")
@option("-o", "--out", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path), default="-",
        show_default="stdout", help="Output file.")  # fmt: skip
@format_option(ENCODERS)
def generate(kind: str, out: Path, output: str, **options: Any) -> None:
    """Write a data set of UUIDs, one per line, in the order in which simulated machines generate them.

    uuid-v1 values contain node, clock sequence and time. uuid-v7 values contain the same times. uuid-v4 values are
    random: only --count, --seed, --out and --format affect them.
    """
    data_set = data_set_of(kind, **options)
    with opened(out) as stream:
        write(data_set, ENCODERS[output](CHUNK), stream)


def data_set_of(
    kind: str, count: int, nodes: int, historic: bool, interval: float | None, until: str | None, lag: float, seed: int
) -> DataSet:  # fmt: skip
    now = moment(until)
    if interval is not None and not historic:
        raise InputError("--interval requires --historic; --now generates a value per 100 ns")
    times = historic_times(count, now, interval or USUAL_INTERVAL) if historic else Times(now, count, count)
    data_set = DataSet(kind, times, nodes, round(lag * TICKS_PER_SECOND), seed)
    check_range(data_set)
    return data_set


def moment(until: str | None) -> int:
    if until is None:
        return ticks_of(datetime.now(UTC))
    try:
        parsed = datetime.fromisoformat(until)
    except ValueError as error:
        example = "2019-01-01 or 2019-01-01T12:00:00+00:00"
        raise InputError(
            f"--until must be an ISO time such as {example}, years 1 to 9999, not {quoted(until)}"
        ) from error
    return ticks_of(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))


def historic_times(count: int, now: int, seconds: float) -> Times:
    span = round(seconds * TICKS_PER_SECOND)
    if count > span:
        room = f"at most {span:,} for an interval of {typed_seconds(seconds)}, one value per 100 ns"
        raise InputError(f"--count must be {room}, not {count:,}")
    return Times(now - span, span, count)


def check_range(data_set: DataSet) -> None:
    if data_set.kind not in RANGES:
        return
    lowest, highest, name = RANGES[data_set.kind]
    first, last = data_set.times.first - data_set.lag, data_set.times.first + data_set.times.span
    if first < lowest or last > highest:
        raise InputError(
            f"{data_set.kind} represents times from {name}; --until, --interval and --lag must stay within this range"
        )


DASH = Path("-")
STANDARD_OUTPUT = 1


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing, or standard output. A device or a pipe is written directly instead of being replaced."""
    if path == DASH:
        try:
            with open(STANDARD_OUTPUT, "wb", closefd=False) as stream:
                yield stream
        except BrokenPipeError:
            raise
        except OSError as error:
            raise InorderError(f"cannot write to standard output: {error.strerror}") from error
        return
    is_file = path.is_file() or not path.exists()
    with ExitStack() as stack:
        try:
            target: AbstractContextManager[BinaryIO] = replacing(path) if is_file else path.open("wb")
            file = stack.enter_context(target)
        except OSError as error:
            raise failed(f"cannot write {path}", error) from error
        yield file


def write(data_set: DataSet, encoder: Encoder, stream: BinaryIO) -> None:
    """Write the data in chunks. Show a progress bar if stderr is a terminal and the data goes elsewhere."""
    to_terminal = stream.isatty()
    if to_terminal and encoder.binary:
        raise InputError("a terminal cannot show the binary format; give --out, or use a pipe")
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=to_terminal or not console.is_terminal) as bar:
        task = bar.add_task(data_set.kind, total=data_set.times.count)
        stream.write(encoder.header)
        for high, low in chunks(data_set):
            stream.write(encoder.encode(high, low))
            bar.advance(task, len(high))
        stream.write(encoder.trailer)
        stream.flush()
