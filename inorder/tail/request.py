"""What ``inorder tail`` was asked for."""

from dataclasses import dataclass
from pathlib import Path

MOST_ROWS = 2**31 - 1
OUTPUTS = ("json", "csv", "binary", "arrow", "parquet")


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
