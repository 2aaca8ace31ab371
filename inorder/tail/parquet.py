"""Batches as Parquet files in a directory: a file for each batch, named by it, complete or not there."""

import hashlib
import os
from collections.abc import Sequence
from typing import IO, Any

from inorder.connection.database import query
from inorder.connection.reading import Column, columns_of
from inorder.errors import InorderError, InputError
from inorder.files import sync_folder, write_whole
from inorder.sources import installer
from inorder.tail.formats import FORMATS
from inorder.tail.request import Request
from inorder.tail.sinks import Report
from inorder.tail.sources import Source
from inorder.tail.state import Mark
from inorder.tail.whole import WholeBatches

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv, parquet
except ImportError as error:
    raise InputError(f"--format parquet requires pyarrow ({error})\nHINT:  {installer('parquet')}") from None

CLAIM = ".inorder"  # the file that says whose directory it is
MOST_BYTES = 2**31 - 1  # of the text of a batch, for Arrow

KINDS: dict[str, pa.DataType] = {
    "bool": pa.bool_(), "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "oid": pa.int64(),
    "float4": pa.float32(), "float8": pa.float64(), "date": pa.date32(), "bytea": pa.binary(),
    "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
}  # fmt: skip


class ParquetSink(WholeBatches):
    """A directory. A batch that comes again replaces its file by the same rows."""

    is_separate = True

    def __init__(self, report: Report, request: Request) -> None:
        super().__init__(report, FORMATS[request.output])
        assert request.directory is not None
        self.request, self.directory = request, request.directory
        self.source: Source | None = None
        self.last = self.known = self.given = ""  # a batch: of the directory, of the position file, of this run
        self.accepts = False
        self.columns: list[Column] | None = None
        try:
            self.directory.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the directory {self.directory}: {error.strerror}") from error

    def resume(self, source: Source, accept: bool) -> None:
        """Whose files they are. A refusal comes before there is a position, with which the next run would go on."""
        super().resume(source, accept)
        self.source, self.accepts = source, accept
        self.known = source.output.last if source.output else ""
        if self.request.position is not None:
            self.refuse_others(source)

    def claim(self, source: Source) -> None:
        self.refuse_others(source)
        claim = self.directory / CLAIM
        if claim.exists() and not source.is_new:
            self.last = "".join(claim.read_text(encoding="utf-8").splitlines()[1:2])
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

    def begin(self, name: str, first: bytes) -> str | None:
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
        return super().begin(name, first)

    def mark(self) -> Mark | None:
        return Mark(0, digest_of(self.given)) if self.given else None

    def check(self) -> None:
        assert self.source is not None
        if self.columns is None:
            self.claim(self.source)
        self.columns = self.described(self.source)

    def described(self, source: Source) -> list[Column]:
        return columns_of(source.session.rows(query("reader_columns"), table=source.table.oid))

    def give(self, batch: IO[bytes], size: int) -> None:
        """Write the file beside, and put it in its place when it is on the disk."""
        assert self.source is not None and self.columns is not None
        if self.described(self.source) != self.columns:
            raise InorderError("the columns of the table were changed; run it again, which repeats the batch")
        with open(f"/proc/self/fd/{batch.fileno()}", "rb") as text:
            table = table_of(text, size, self.columns)
        partial = self.directory / f".{self.name}.partial"
        try:
            partial.unlink(missing_ok=True)  # of a run that was killed
            with partial.open("xb") as file:
                parquet.write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            # First: a file that is there is that of this batch, or of one before.
            write_whole(self.directory / CLAIM, f"{self.reader(self.source)}\n{self.name}\n")
            os.replace(partial, self.directory / f"{self.name}.parquet")
            sync_folder(self.directory)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise InorderError(f"cannot write {self.directory / self.name}.parquet: {error}") from error
        self.last = self.given = self.name
        self.known = digest_of(self.name)


def digest_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def kind_of(column: Column) -> pa.DataType:
    """The type in Parquet: that with the same values, or else text, as the server writes it.

    >>> kind_of(Column("n", "numeric(12,2)", "numeric", (12 << 16 | 2) + 4)), kind_of(Column("i", "inet", "inet"))
    (Decimal128Type(decimal128(12, 2)), DataType(string))
    """
    return pa.decimal128(*column.decimal) if column.decimal else KINDS.get(column.type or "", pa.string())


def table_of(text: IO[bytes], size: int, columns: Sequence[Column]) -> pa.Table:
    if size > MOST_BYTES:
        raise InorderError(f"a batch of {size:,} bytes of text is too large for Parquet; --batch-rows makes it smaller")
    names = [str(place) for place in range(len(columns))]
    read = csv.read_csv(
        text,
        csv.ReadOptions(use_threads=False, block_size=size, column_names=names),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False,
        ),
    )  # fmt: skip
    arrays = [column_as(read.column(name), column) for name, column in zip(names, columns, strict=True)]
    return pa.table(arrays, names=[column.name for column in columns])


def column_as(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray | pa.Array:
    """A column in its type; an error that names it if a value has none there."""
    kind = kind_of(column)
    try:
        if pa.types.is_boolean(kind):
            return pc.equal(values, "t")
        if pa.types.is_binary(kind):
            return pa.array([bytes_of(value.as_py()) for value in values], pa.binary())
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"column '{column.name}' of type {column.written} has a value that {kind} has not: {error}\n"
            "HINT:  --format json and csv have all values. Where a time zone's offset had seconds, set PGTZ=UTC."
        ) from error


def bytes_of(text: Any) -> bytes | None:
    """A bytea in hex.

    >>> bytes_of(r"\\x00ff"), bytes_of(None)
    (b'\\x00\\xff', None)
    """
    return None if text is None else bytes.fromhex(text[2:])
