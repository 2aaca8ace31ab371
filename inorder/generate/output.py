"""Where a data set goes: a file that is there whole or not at all, a device, a pipe, or standard output."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from inorder.errors import InputError
from inorder.files import replacing
from inorder.generate.encode import Encoder
from inorder.generate.uuids import DataSet, chunks

DASH = Path("-")
STANDARD_OUTPUT = 1


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A stream to write to. What is no file (a device, a pipe) cannot be replaced, and is written straight."""
    if path == DASH:
        with open(STANDARD_OUTPUT, "wb", closefd=False) as stream:
            yield stream
        return
    is_file = path.is_file() or not path.exists()
    with ExitStack() as stack:
        try:
            target: AbstractContextManager[BinaryIO] = replacing(path) if is_file else path.open("wb")
            file = stack.enter_context(target)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from error
        yield file


def write(data_set: DataSet, encoder: Encoder, stream: BinaryIO) -> None:
    """Everything, in chunks; with a bar on stderr where that is a terminal and the data do not go to one."""
    to_terminal = stream.isatty()
    if to_terminal and encoder.binary:
        raise InputError("a terminal cannot show the binary format; give --out, or send it into a pipe")
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
