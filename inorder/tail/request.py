"""The options of ``inorder tail`` as an object."""

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
    changes: bool = False  # read the changes of a table that is updated
    output: str = "json"
    directory: Path | None = None  # directory for the Parquet files
    target_file_size: int | None = None  # size of each Parquet file
    misfits: str = "error"  # how to handle values that Arrow cannot represent: error or null
    batch_rows: int = 10_000
    start: str = "beginning"
    shards: bool = False  # read a table that Citus distributes
    order_by: str | None = None  # column that orders the rows of a new position
    whole: bool = False  # do not split transactions
    accept_origin: bool = False
    accept_table: bool = False  # accept the current key, guard and partitions of the table
    accept_output: bool = False
    follow: bool = False
    interval: float | None = None  # seconds between polls; None: wait for the server to report rows
    command: str | None = None
    retries: int = 0  # number of retries of a failed command
    frame: bool = False
