"""Batches as Parquet files in a directory: a file for each batch, or for each of its folders, named by the batch."""

import hashlib
import os
import resource
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from psycopg.abc import Buffer
from pyarrow import parquet

from inorder.errors import InorderError, InputError, on_error
from inorder.files import failed, sync_folder, write_whole
from inorder.tail.formats import FORMATS
from inorder.tail.request import MOST_ROWS, Partition, Request
from inorder.tail.sinks import Report, Sink
from inorder.tail.source import Source
from inorder.tail.state import Mark

CLAIM = ".inorder"  # the file that says whose directory it is
GROUP_BYTES = 64 * 1024 * 1024  # of Arrow, of the rows that are compressed together
ROW_BYTES = 100  # of a file, before one is known


class Part:
    """The rows of a batch that go to one folder: a file beside its place until it is on the disk."""

    def __init__(self, folder: Path, name: str, schema: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.place, self.partial = folder / f"{name}.parquet", folder / f".{name}.partial"
        self.partial.unlink(missing_ok=True)  # of a run that was killed
        self.file = self.partial.open("xb")
        self.writer = parquet.ParquetWriter(self.file, schema, compression="zstd")

    def sync(self) -> int:
        """The size of the file when it is on the disk."""
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
            self.writer.close()  # else it would write its end when it is collected
        with suppress(OSError):
            self.file.close()
        self.partial.unlink(missing_ok=True)


class ParquetSink(Sink):
    """A directory. A batch that comes again replaces its file by the same rows."""

    waits_for_nobody = can_take_back = True

    def __init__(self, report: Report, request: Request) -> None:
        super().__init__(report, FORMATS[request.output])
        assert request.directory is not None
        self.request, self.directory = request, request.directory
        self.source: Source | None = None
        self.last = self.known = self.given = ""  # a batch: of the directory, of the position file, of this run
        self.accepts = False
        self.name = ""
        self.is_claimed = False
        self.parts: dict[str, Part] = {}  # by folder; that of the directory itself is ""
        self.group: list[Any] = []  # batches that are not written yet
        if request.partition_by is not None:  # each part is an open file
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        try:
            self.directory.mkdir(exist_ok=True)
        except OSError as error:
            raise failed(f"cannot make the directory {self.directory}", error) from error

    def resume(self, source: Source, accept: bool) -> None:
        """Whose files they are. A refusal comes before there is a position, with which the next run would go on."""
        super().resume(source, accept)
        self.source, self.accepts = source, accept
        if self.request.target_file_size is not None:
            source.max_rows = max(self.request.target_file_size // ROW_BYTES, self.request.batch_rows)
        known = source.output()
        self.known = known.last if known else ""
        if self.request.position is not None:
            self.refuse_others(source)

    def claim(self, source: Source) -> None:
        self.refuse_others(source)
        claim = self.directory / CLAIM
        if claim.exists() and not source.is_new:
            self.last = "".join(claim.read_text(encoding="utf-8").splitlines()[1:2])
        for left in self.directory.glob(f"{CLAIM}.*.partial"):  # by a run that was killed
            left.unlink(missing_ok=True)
        self.write_claim(source, self.last)

    def write_claim(self, source: Source, last: str) -> None:
        lines = [self.reader(source), last, self.by]
        write_whole(self.directory / CLAIM, "".join(f"{line}\n" for line in lines))

    def refuse_others(self, source: Source) -> None:
        """An error if the directory has files of another reader, or this one begins anew beside its files."""
        claim, reader = self.directory / CLAIM, self.reader(source)
        try:
            by = self.by
            known = claim.read_text(encoding="utf-8", errors="replace") if claim.exists() else f"{reader}\n\n{by}"
            other, _last, other_by, *_ = [*known.split("\n"), "", ""]
            if other != reader:
                raise InputError(
                    f"{self.directory} has the files of the {other}, not of the {reader}\n"
                    f"HINT:  Give each a directory of its own; or change {claim}, if it is the same under another name."
                )
            if other_by != by and any(self.directory.rglob("*.parquet")):
                raise InputError(
                    f"{self.directory} is partitioned by {other_by or 'nothing'}, not by {by or 'nothing'}: a batch "
                    "that comes again would be in it twice\n"
                    "HINT:  Use --partition-by as before, or give an empty directory."
                )
            if source.is_new and any(self.files("*.parquet")):
                raise InputError(
                    f"{self.directory} has Parquet files, and the {reader} is new: rows would be in it twice\n"
                    "HINT:  Give an empty directory."
                )
        except OSError as error:
            raise failed(f"cannot use the directory {self.directory}", error) from error

    def reader(self, source: Source) -> str:
        if self.request.position is not None:
            return f"position file {self.request.position.resolve()}"
        owner = self.request.owner or source.session.connection.info.user
        return f"feed '{self.request.feed}' of role '{owner}' in database '{source.table.database}'"

    def begin(self, name: str, header: bytes, first: bytes) -> str | None:
        """An error if the directory has files that this reader does not know of, or has forgotten."""
        if self.request.position is None:
            if name != self.last and (in_place := next(self.files(f"{name}.parquet"), None)):
                raise InputError(
                    f"{in_place} exists, and batch {name} of feed '{self.request.feed}' is another one\n"
                    "HINT:  The directory has files of another feed of this name: give an empty one."
                )
        elif self.last not in ("", name) and digest_of(self.last) != self.known and not self.accepts:
            raise InputError(
                f"{self.directory} has batch {self.last}, of which {self.request.position} does not know: it is a "
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
    def by(self) -> str:
        """The partition in a line, also of a column with a line end in its name; "" if there is none."""
        return str(self.request.partition_by or "").replace("\n", "\\n")

    def files(self, pattern: str) -> Iterator[Path]:
        return self.directory.glob(pattern if self.request.partition_by is None else f"*/{pattern}")

    def write(self, rows: Any, content: Buffer, header: Buffer = b"") -> None:
        """Into files beside those of the batch, in groups of many rows."""
        self.group.append(rows)
        if sum(batch.nbytes for batch in self.group) >= GROUP_BYTES:
            self.write_group()
        self.rows += len(rows)
        self.report(len(rows))

    def write_group(self) -> None:
        if not self.group:
            return
        group, self.group = pa.Table.from_batches(self.group), []
        by = self.request.partition_by
        with self.explained():
            for folder, rows in [("", group)] if by is None else split(group, by):
                if folder not in self.parts:
                    self.parts[folder] = Part(self.directory / folder, self.name, group.schema)
                self.parts[folder].writer.write_table(rows)

    def again(self) -> None:
        self.forget()
        self.rows = 0

    def forget(self) -> None:
        self.group = []
        for part in self.parts.values():
            part.forget()
        self.parts = {}

    def arrive(self) -> None:
        """Put the files in their places when all are on the disk."""
        assert self.source is not None
        self.write_group()
        with self.explained():
            sizes = [part.sync() for part in self.parts.values()]
            # First: a file that is there is that of this batch, or of one before.
            self.write_claim(self.source, self.name)
            for part in self.parts.values():
                part.arrive()
            if self.name == self.last:
                self.remove_others()
            sync_folder(self.directory)
        self.parts = {}
        self.last = self.given = self.name
        self.known = digest_of(self.name)
        self.aim(sum(sizes) // len(sizes))

    def remove_others(self) -> None:
        """Of a batch that comes again, the files in folders to which no row of it goes any more, since an UPDATE."""
        for stale in set(self.files(f"{self.name}.parquet")) - {part.place for part in self.parts.values()}:
            stale.unlink()
            sync_folder(stale.parent)

    def aim(self, size: int) -> None:
        """As many rows in the next batch as a file of the size that was asked for has, going by this one."""
        if self.request.target_file_size is not None and self.source is not None:
            rows = self.request.target_file_size * self.rows // size
            self.source.max_rows = min(max(rows, 1), MOST_ROWS)

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            with on_error(self.forget):
                yield
        except (OSError, pa.ArrowException) as error:
            raise InorderError(f"cannot write {self.directory / self.name}.parquet: {error}") from error

    def close(self) -> None:
        self.forget()


def digest_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


NULL = "__HIVE_DEFAULT_PARTITION__"  # the name that Hive, and readers of its folders, give it


def split(rows: pa.Table, by: Partition) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each folder, in their order. The column stays with them."""
    if by.column not in rows.column_names:
        raise InputError(f"--partition-by {by}: the table has no column '{by.column}'")
    values = rows.column(by.column).combine_chunks()
    names = days(values, by) if by.buckets is None else hashes(values, by, by.buckets)
    prefix = f"{quote(by.column, safe='')}_{'day' if by.buckets is None else 'hash'}"
    for name in pc.unique(names).to_pylist():
        of_folder = pc.is_null(names) if name is None else pc.equal(names, name)
        yield f"{prefix}={NULL if name is None else name}", rows.filter(of_folder)


def days(values: Any, by: Partition) -> Any:
    if not (pa.types.is_timestamp(values.type) or pa.types.is_date(values.type)):
        raise InputError(
            f"--partition-by {by}: a value of Arrow's type {values.type} has no day\n"
            "HINT:  Name a column of type date, timestamp or timestamptz, or use hash(COLUMN, COUNT)."
        )
    return pc.strftime(values, format="%Y-%m-%d")


def hashes(values: Any, by: Partition, buckets: int) -> Any:
    """CRC-32 of the value's bytes, or of its text if it is not of bytes, modulo the number of buckets."""
    if pa.types.is_nested(values.type):
        raise InputError(f"--partition-by {by}: a value of Arrow's type {values.type} has no hash")
    distinct = plain(values).dictionary_encode()
    numbers = [None if one is None else str(zlib.crc32(one) % buckets) for one in as_bytes(distinct.dictionary)]
    return pa.array(numbers, pa.string()).take(distinct.indices)


def plain(values: Any) -> Any:
    """Values without what a type of an extension (uuid, json), or of a dictionary (an enum), adds to them."""
    if isinstance(values, pa.ExtensionArray):
        return values.storage
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def as_bytes(values: Any) -> list[bytes | None]:
    has_bytes = pa.types.is_binary(values.type) or pa.types.is_fixed_size_binary(values.type)
    found: list[bytes | None] = (values if has_bytes else values.cast(pa.string()).cast(pa.binary())).to_pylist()
    return found
