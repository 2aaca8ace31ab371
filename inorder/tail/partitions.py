"""Which folder of a directory rows go to, named as Hive names them: column_day=2026-11-26, column_hash=7."""

import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from inorder.errors import InputError
from inorder.tail.request import Partition

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
