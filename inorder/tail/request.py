"""The options of ``inorder tail`` as one object."""

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
    owner: str | None = None  # owner of the feed
    changes: bool = False  # read the changes of a table with updates and deletes
    output: str = "json"
    directory: Path | None = None  # directory for Parquet files
    target_file_size: int | None = None  # size of each Parquet file
    misfits: str = "error"  # how to handle values that Arrow cannot represent: error, or null
    batch_rows: int = 10_000
    start: str = "beginning"
    shards: bool = False  # read a table that Citus has distributed
    order_by: str | None = None  # order of a new position
    whole: bool = False  # batches of a table contain whole transactions
    accept_origin: bool = False
    accept_table: bool = False  # accept the key, guard and partitions that the table has now
    accept_output: bool = False
    follow: bool = False
    interval: float | None = None  # seconds between polls; None: the server reports new rows
    command: str | None = None
    retries: int = 0  # retries of a failed command
    frame: bool = False
