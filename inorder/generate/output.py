"""Where a data set goes: a file that is there whole or not at all, a device, a pipe, or standard output."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from inorder.errors import InputError
from inorder.generate.encode import Encoder
from inorder.generate.uuids import Plan, chunks

DASH = Path("-")
STANDARD_OUTPUT = 1


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A stream to write to.

    A file is written beside its name and put there at the end, so that an interruption leaves neither half of
    it. What is no file (a device, a pipe) cannot be renamed, and is written straight.
    """
    if path == DASH:
        with open(STANDARD_OUTPUT, "wb", closefd=False) as stream:
            yield stream
    elif os.path.exists(path) and not os.path.isfile(path):
        with open_for_writing(path, path) as stream:
            yield stream
    else:
        target = Path(os.path.realpath(path))  # the file behind a link such as /dev/stdout, not the link
        partial = target.with_name(target.name + ".partial")
        try:
            with open_for_writing(partial, path) as stream:
                yield stream
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)


def open_for_writing(path: Path, asked: Path) -> BinaryIO:
    """Open, or say in one sentence why what was asked for cannot be written."""
    try:
        return path.open("wb")
    except OSError as error:
        raise InputError(f"cannot write {asked}: {error.strerror}") from error


def write(plan: Plan, encoder: Encoder, stream: BinaryIO) -> None:
    """Everything, in chunks; with a bar on stderr where that is a terminal and the data do not go to one."""
    to_terminal = stream.isatty()
    if to_terminal and encoder.binary:
        raise InputError("a terminal cannot show the binary format; give --out, or send it into a pipe")
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=to_terminal or not console.is_terminal) as bar:
        task = bar.add_task(plan.kind, total=plan.times.count)
        stream.write(encoder.header)
        for high, low in chunks(plan):
            stream.write(encoder.encode(high, low))
            bar.advance(task, len(high))
        stream.write(encoder.trailer)
        stream.flush()
