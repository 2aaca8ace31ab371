"""Batches as Parquet files in a directory: a file for each batch, named by it, complete or not there."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from psycopg.abc import Buffer
from pyarrow import parquet

from inorder.errors import InorderError, InputError
from inorder.files import sync_folder, write_whole
from inorder.tail.formats import FORMATS
from inorder.tail.request import MOST_ROWS, Request
from inorder.tail.sinks import Report, Sink
from inorder.tail.sources import Source
from inorder.tail.state import Mark

CLAIM = ".inorder"  # the file that says whose directory it is
GROUP_BYTES = 64 * 1024 * 1024  # of Arrow, of the rows that are compressed together
ROW_BYTES = 100  # of a file, before one is known


class ParquetSink(Sink):
    """A directory. A batch that comes again replaces its file by the same rows."""

    def __init__(self, report: Report, request: Request) -> None:
        super().__init__(report, FORMATS[request.output])
        assert request.directory is not None
        self.request, self.directory = request, request.directory
        self.source: Source | None = None
        self.last = self.known = self.given = ""  # a batch: of the directory, of the position file, of this run
        self.accepts = False
        self.name = ""
        self.is_claimed = False
        self.file: IO[bytes] | None = None
        self.writer: Any = None
        self.group: list[Any] = []  # batches that are not written yet
        try:
            self.directory.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the directory {self.directory}: {error.strerror}") from error

    def resume(self, source: Source, accept: bool) -> None:
        """Whose files they are. A refusal comes before there is a position, with which the next run would go on."""
        super().resume(source, accept)
        self.source, self.accepts = source, accept
        if self.request.target_file_size is not None:
            source.max_rows = max(self.request.target_file_size // ROW_BYTES, self.request.batch_rows)
        self.known = source.output.last if source.output else ""
        if self.request.position is not None:
            self.refuse_others(source)

    def claim(self, source: Source) -> None:
        self.refuse_others(source)
        claim = self.directory / CLAIM
        if claim.exists() and not source.is_new:
            self.last = "".join(claim.read_text(encoding="utf-8").splitlines()[1:2])
        for left in self.directory.glob(f"{CLAIM}.*.partial"):  # by a run that was killed
            left.unlink(missing_ok=True)
        write_whole(claim, f"{self.reader(source)}\n{self.last}\n")

    def refuse_others(self, source: Source) -> None:
        """An error if the directory has files of another reader, or this one begins anew beside its files."""
        claim, reader = self.directory / CLAIM, self.reader(source)
        try:
            other = claim.read_text(encoding="utf-8", errors="replace").split("\n")[0] if claim.exists() else reader
            if other != reader:
                raise InputError(
                    f"{self.directory} has the files of the {other}, not of the {reader}\n"
                    f"HINT:  Give each a directory of its own; or change {claim}, if it is the same under another name."
                )
            if source.is_new and any(self.directory.glob("*.parquet")):
                raise InputError(
                    f"{self.directory} has Parquet files, and the {reader} is new: rows would be in it twice\n"
                    "HINT:  Give an empty directory."
                )
        except OSError as error:
            raise InputError(f"cannot use the directory {self.directory}: {error.strerror}") from error

    def reader(self, source: Source) -> str:
        if self.request.position is not None:
            return f"position file {self.request.position.resolve()}"
        owner = self.request.owner or source.session.connection.info.user
        return f"feed '{self.request.feed}' of role '{owner}' in database '{source.table.database}'"

    def begin(self, name: str, header: bytes, first: bytes) -> str | None:
        """An error if the directory has files that this reader does not know of, or has forgotten."""
        in_place = self.directory / f"{name}.parquet"
        if self.request.position is None:
            if name != self.last and in_place.exists():
                raise InputError(
                    f"{in_place} exists, and batch {name} of feed '{self.request.feed}' is another one\n"
                    "HINT:  The directory has files of another feed of this name: give an empty one."
                )
        elif self.last not in ("", name) and digest_of(self.last) != self.known and not self.accepts:
            raise InputError(
                f"{self.directory} has {self.last}.parquet, of which {self.request.position} does not know: it is a "
                "copy from before that batch, or has written elsewhere since\n"
                "HINT:  Put the newest copy back. Or give an empty directory. Or remove the files with rows after that "
                "position, which come again, and use --accept-output."
            )
        self.name = name
        return None

    def mark(self) -> Mark | None:
        return Mark(0, digest_of(self.given)) if self.given else None

    def check(self) -> None:
        if not self.is_claimed:
            assert self.source is not None
            self.claim(self.source)
            self.is_claimed = True

    @property
    def partial(self) -> Path:
        return self.directory / f".{self.name}.partial"

    def write(self, rows: Any, content: Buffer, header: Buffer = b"") -> None:
        """Into a file beside that of the batch, in groups of many rows."""
        if self.writer is None:
            self.partial.unlink(missing_ok=True)  # of a run that was killed
            with self.explained():
                self.file = self.partial.open("xb")
            self.writer = parquet.ParquetWriter(self.file, rows.schema, compression="zstd")
        self.group.append(rows)
        if sum(batch.nbytes for batch in self.group) >= GROUP_BYTES:
            self.write_group()
        self.rows += len(rows)
        self.report(len(rows))

    def write_group(self) -> None:
        group, self.group = self.group, []
        with self.explained():
            self.writer.write_table(pa.Table.from_batches(group))

    def again(self) -> None:
        self.forget()
        self.rows = 0

    def forget(self) -> None:
        self.writer, self.group = None, []
        if self.file is not None:
            self.file.close()
            self.file = None
            self.partial.unlink(missing_ok=True)

    def arrive(self) -> None:
        """Put the file in its place when it is on the disk."""
        assert self.source is not None and self.file is not None
        self.write_group()
        with self.explained():
            self.writer.close()
            self.file.flush()
            os.fsync(self.file.fileno())
            size = self.file.tell()
            # First: a file that is there is that of this batch, or of one before.
            write_whole(self.directory / CLAIM, f"{self.reader(self.source)}\n{self.name}\n")
            os.replace(self.partial, self.directory / f"{self.name}.parquet")
            sync_folder(self.directory)
        self.file.close()
        self.file = self.writer = None
        self.last = self.given = self.name
        self.known = digest_of(self.name)
        self.aim(size)

    def aim(self, size: int) -> None:
        """As many rows in the next batch as a file of the size that was asked for has, going by this one."""
        if self.request.target_file_size is not None and self.source is not None:
            rows = self.request.target_file_size * self.rows // size
            self.source.max_rows = min(max(rows, 1), MOST_ROWS)

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            self.forget()
            raise InorderError(f"cannot write {self.directory / self.name}.parquet: {error}") from error

    def close(self) -> None:
        self.forget()


def digest_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
