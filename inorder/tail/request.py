"""What ``inorder tail`` was asked for."""

import re
from dataclasses import dataclass
from pathlib import Path

from inorder.errors import InputError

MOST_ROWS = 2**31 - 1
OUTPUTS = ("json", "csv", "binary", "arrow", "parquet")

MOST_BUCKETS = 1000  # of a hash


@dataclass(frozen=True)
class Partition:
    """The day of a column, or a hash of its value, which is below the number of buckets."""

    column: str
    buckets: int | None = None

    def __str__(self) -> str:
        return f"day({self.column})" if self.buckets is None else f"hash({self.column}, {self.buckets})"


def read_partition(text: str, option: str) -> Partition:
    """What was typed after an option.

    >>> str(read_partition("hash(id,16)", "by")), read_partition("day(at)", "by").column
    ('hash(id, 16)', 'at')
    >>> read_partition("hour", "by")
    Traceback (most recent call last):
    inorder.errors.InputError: by must be day(COLUMN), or hash(COLUMN, COUNT) with COUNT from 1 to 1,000, not 'hour'
    """
    found = re.fullmatch(r"day\((?P<day>.+)\)|hash\((?P<hashed>.+), *(?P<buckets>[0-9]{1,4})\)", text, re.DOTALL)
    if found and found["day"]:
        return Partition(found["day"])
    if found and 1 <= int(found["buckets"]) <= MOST_BUCKETS:
        return Partition(found["hashed"], int(found["buckets"]))
    allowed = f"day(COLUMN), or hash(COLUMN, COUNT) with COUNT from 1 to {MOST_BUCKETS:,}"
    raise InputError(f"{option} must be {allowed}, not '{text}'")


@dataclass(frozen=True)
class Request:
    dsn: str
    table: str | None
    position: Path | None
    feed: str | None
    owner: str | None = None  # of the feed
    changes: bool = False  # of a table that is updated and deleted from
    output: str = "json"
    directory: Path | None = None  # of Parquet files
    target_file_size: int | None = None  # of each of them
    partition_by: Partition | None = None  # of which each value has a folder of files
    misfits: str = "error"  # values that Arrow has not; or null
    batch_rows: int = 10_000
    start: str = "beginning"
    shards: bool = False  # of a table that Citus has distributed
    order_by: str | None = None  # of a new position
    whole: bool = False  # transactions, in batches of a table
    accept_origin: bool = False
    accept_table: bool = False  # its key, guard and partitions, as they are now
    accept_output: bool = False
    follow: bool = False
    interval: float | None = None  # seconds between polls; None: the server reports new rows
    command: str | None = None
    retries: int = 0  # of a command that failed
    frame: bool = False
