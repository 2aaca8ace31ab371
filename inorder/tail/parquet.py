"""Batches as Parquet files: one file per batch, named after the batch.

A file appears in the directory only when it is complete.
"""

import hashlib
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from psycopg.abc import Buffer
from pyarrow import parquet

from inorder.errors import InorderError, InputError, on_error
from inorder.files import failed, sync_folder, write_whole
from inorder.tail.formats import FORMATS
from inorder.tail.request import MOST_ROWS, Request
from inorder.tail.sinks import Report, Sink
from inorder.tail.source import Source
from inorder.tail.state import Mark
from inorder.text import one_line, quoted

CLAIM = ".inorder"  # the file that names the reader to which the directory belongs
GROUP_BYTES = 64 * 1024 * 1024  # size of a row group in memory; a row group is compressed as a whole
ROW_BYTES = 100  # assumed size of a row until a file has been written


class File:
    """The Parquet file of a batch. It has a temporary name until its content is on disk."""

    def __init__(self, folder: Path, name: str, schema: Any) -> None:
        self.place, self.partial = folder / f"{name}.parquet", folder / f".{name}.partial"
        self.partial.unlink(missing_ok=True)  # a killed run may have left this file
        self.file = self.partial.open("xb")
        self.writer = parquet.ParquetWriter(self.file, schema, compression="zstd")

    def sync(self) -> int:
        """Flush the file to disk, and return its size."""
        self.writer.close()
        self.file.flush()
        os.fsync(self.file.fileno())
        return self.file.tell()

    def arrive(self) -> None:
        os.replace(self.partial, self.place)
        sync_folder(self.place.parent)
        self.file.close()

    def forget(self) -> None:
        with suppress(OSError, pa.ArrowException):
            self.writer.close()  # otherwise it would write the footer when it is garbage-collected
        with suppress(OSError):
            self.file.close()
        self.partial.unlink(missing_ok=True)


class ParquetSink(Sink):
    """A directory with one file per batch. A repeated batch replaces its file.

    When a batch of changes is repeated, the new file may differ from the replaced file.
    """

    waits_for_nobody = can_take_back = True

    def __init__(self, report: Report, request: Request) -> None:
        super().__init__(report, FORMATS[request.output])
        assert request.directory is not None
        self.request, self.directory = request, request.directory
        self.source: Source | None = None
        # The last batch is recorded three times: its name in the file CLAIM, the hash of its name in the position file,
        # and its name in this object if this run has written it.
        self.last = self.recorded = self.given = ""
        self.accepts = False
        self.name = ""
        self.is_claimed = False
        self.file: File | None = None
        self.group: list[Any] = []  # Arrow batches that were not written yet

    def resume(self, source: Source, accept: bool) -> None:
        """Check that the files belong to this reader.

        The check comes before a position is saved, because the next run continues at the saved position.
        """
        super().resume(source, accept)
        self.source, self.accepts = source, accept
        if self.request.target_file_size is not None:
            self.wanted_rows = max(self.request.target_file_size // ROW_BYTES, self.request.batch_rows)
        mark = source.output()
        self.recorded = mark.last if mark else ""
        if self.request.position is not None:
            self.refuse_others(source)
            if mark is not None and not accept and not last_batch_in(self.directory):
                self.refuse_new_directory(mark)
        try:
            self.directory.mkdir(exist_ok=True)
        except OSError as error:
            raise failed(f"cannot create the directory {self.directory}", error) from error

    def refuse_new_directory(self, mark: Mark) -> None:
        """Raise InputError: the earlier batches are in another directory, or in a file."""
        if not mark.is_directory:
            raise InputError(
                f"{self.request.position} belongs to a file, not to the directory {self.directory}\n"
                "HINT:  Append to that file with its --format, or use --accept-output to continue in this directory."
            )
        raise InputError(
            f"{self.directory} is not the directory that {self.request.position} belongs to: it has no batch\n"
            f"HINT:  {self.hint_for(mark)}"
        )

    def hint_for(self, mark: Mark) -> str:
        previous = "the directory with the last batch"
        if (path := self.previous(mark)) is not None:
            previous = f"--directory {shlex.quote(one_line(str(path)))}"
        return (
            f"Use {previous}. Or use --accept-output to continue in {self.directory}; move the earlier files there "
            "to have all rows in one directory."
        )

    def previous(self, mark: Mark) -> Path | None:
        """Return the directory in which the last batch was written, if the batch is still there."""
        if mark.id is None or not Path(mark.id).is_absolute() or Path(mark.id) == self.directory.resolve():
            return None
        with suppress(OSError, ValueError):
            return Path(mark.id) if digest_of(last_batch_in(Path(mark.id))) == mark.last else None
        return None

    def claim(self, source: Source) -> None:
        self.refuse_others(source)
        if not source.is_new:
            self.last = last_batch_in(self.directory)
        for partial in self.directory.glob(f"{CLAIM}.*.partial"):  # left by a killed run
            partial.unlink(missing_ok=True)
        self.write_claim(source, self.last)

    def write_claim(self, source: Source, last: str) -> None:
        write_whole(self.directory / CLAIM, f"{self.reader(source)}\n{last}\n")

    def refuse_others(self, source: Source) -> None:
        """Raise InputError if the directory belongs to another reader, or if the position is new but files exist."""
        claim, reader = self.directory / CLAIM, self.reader(source)
        try:
            claimant = claim.read_text(encoding="utf-8", errors="replace").split("\n")[0] if claim.exists() else reader
            if claimant != reader:
                raise InputError(
                    f"{self.directory} has the files of the {claimant}, not of the {reader}\n"
                    f"HINT:  Give each reader its own directory; if the reader was renamed, change {claim}."
                )
            if source.is_new and any(self.directory.glob("*.parquet")):
                raise InputError(
                    f"{self.directory} has Parquet files, but the {reader} is new: rows would be duplicated\n"
                    "HINT:  Give an empty directory."
                )
        except OSError as error:
            raise failed(f"cannot use the directory {self.directory}", error) from error

    def reader(self, source: Source) -> str:
        if self.request.position is not None:
            return f"position file {self.request.position.resolve()}"
        owner = self.request.owner or source.session.connection.info.user
        return f"feed {quoted(self.request.feed)} of role {quoted(owner)} in database {quoted(source.table.database)}"

    def begin(self, name: str, header: bytes, first: bytes) -> str | None:
        """Raise InputError if the directory has files of another feed, or files of batches after the saved position."""
        if self.request.position is None:
            in_place = self.directory / f"{name}.parquet"
            if name != self.last and in_place.exists():
                raise InputError(
                    f"{in_place} exists, and was not written for batch {name} of feed {quoted(self.request.feed)}\n"
                    "HINT:  Give an empty directory: this one has files of another feed with this name."
                )
        elif self.last not in ("", name) and digest_of(self.last) != self.recorded and not self.accepts:
            assert self.source is not None
            if (mark := self.source.output()) is not None and self.previous(mark) is not None:
                raise InputError(
                    f"{self.directory} does not have the last batch of {self.request.position}\n"
                    f"HINT:  {self.hint_for(mark)}"
                )
            raise InputError(
                f"{self.directory} has batch {self.last}, which {self.request.position} does not have: the position "
                "file is a copy from before that batch, or has since been used with another output\n"
                "HINT:  Restore the newest copy. Or use --accept-output with an empty directory, or after removing the "
                "files with rows after the position: these rows are delivered again."
            )
        self.name = name
        return None

    def mark(self) -> Mark | None:
        return Mark(0, digest_of(self.given), path_text(self.directory)) if self.given else None

    def check(self) -> None:
        if not self.is_claimed:
            assert self.source is not None
            self.claim(self.source)
            self.is_claimed = True

    def write(self, rows: Any, content: Buffer, header: Buffer = b"") -> None:
        """Collect rows, and write them to a temporary file in large row groups."""
        self.group.append(rows)
        if sum(batch.nbytes for batch in self.group) >= GROUP_BYTES:
            self.write_group()
        self.rows += len(rows)
        self.report(len(rows))

    def write_group(self) -> None:
        if not self.group:
            return
        group, self.group = pa.Table.from_batches(self.group), []
        with self.explained():
            if self.file is None:
                self.file = File(self.directory, self.name, group.schema)
            self.file.writer.write_table(group)

    def again(self) -> None:
        self.forget()
        self.rows = 0

    def forget(self) -> None:
        self.group = []
        if self.file is not None:
            self.file.forget()
            self.file = None

    def arrive(self) -> None:
        """Flush the file to disk, then rename it to its final name."""
        self.write_group()
        assert self.source is not None and self.file is not None
        with self.explained():
            size = self.file.sync()
            # The claim is written first. An existing file then belongs to this batch or to an earlier batch.
            self.write_claim(self.source, self.name)
            self.file.arrive()
        self.file = None
        self.last = self.given = self.name
        self.recorded = digest_of(self.name)
        self.aim(size)

    def aim(self, size: int) -> None:
        """Estimate the number of rows for the next batch from the size of this file."""
        if self.request.target_file_size is not None:
            rows = self.request.target_file_size * self.rows // size
            self.wanted_rows = min(max(rows, 1), MOST_ROWS)

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            with on_error(self.forget):
                yield
        except (OSError, pa.ArrowException) as error:
            raise InorderError(f"cannot write {self.directory / self.name}.parquet: {error}") from error

    def close(self) -> None:
        self.forget()


def last_batch_in(directory: Path) -> str:
    """Return the name of the last batch in a directory, or "" if it has none."""
    claim = directory / CLAIM
    return "".join(claim.read_text(encoding="utf-8", errors="replace").splitlines()[1:2]) if claim.exists() else ""


def path_text(directory: Path) -> str:
    """Return the path for the position file, in which each string must be valid Unicode."""
    return os.fsencode(directory.resolve()).decode(errors="replace")


def digest_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
