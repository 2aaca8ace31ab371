"""Read a slice of a batch on an executor. The rows are read in one transaction, as Arrow batches."""

import atexit
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import adbc_driver_manager
import psycopg
import pyarrow as pa
from adbc_driver_postgresql import StatementOptions
from psycopg import sql

from inorder.arrow import reader as arrow
from inorder.arrow.reader import as_of_the_session, kept_rows
from inorder.arrow.reader import read as read_batches
from inorder.citus.shards import SETTINGS
from inorder.connection.database import query, untimed
from inorder.connection.patience import CONFLICTS, attempts
from inorder.connection.reading import columns_of
from inorder.errors import InorderError, InputError, on_error
from inorder.spark.columns import wanted
from inorder.spark.driver import Task
from inorder.text import quoted

# Parts of the messages of libpq and psycopg when no server answers.
ABSENT = "Failed to connect", "connection is bad", "connection failed", "connection timeout expired"
MISFIT = "To read the column as text, declare {column!r} as string in schema()."
LONGEST_PAUSE = 0.1  # seconds between two polls of a standby older than version 19
HAS_WAIT_FOR_LSN = 190000


class Connection(arrow.Connection):
    def find_extension(self) -> None:
        rows = self.asked(query("extension_schema"))
        if not rows:
            raise InputError("the server of read_dsn has no extension inorder in this database")
        ((schema, is_standby, _),) = rows
        self.extension, self.is_standby = sql.Identifier(str(schema)), bool(is_standby)
        ((version,),) = self.asked("SELECT pg_catalog.current_setting('server_version_num')::pg_catalog.int4")
        self.version = int(version)

    def wait_for_lsn(self, lsn: str, seconds: int) -> bool:
        """Wait until a standby of version 19 or later has replayed the WAL. Return False after a timeout.

        COPY does not accept the statement WAIT FOR, so the ADBC driver must not wrap it in COPY.
        """
        options = self.cursor.adbc_statement.set_options
        options(**{StatementOptions.USE_COPY.value: "false"})
        (status,) = self.row("WAIT FOR LSN {lsn} WITH (TIMEOUT {time}, NO_THROW)", lsn=lsn, time=f"{seconds}s")
        options(**{StatementOptions.USE_COPY.value: "true"})
        return status in ("success", "not in recovery")


KEPT: dict[str, Connection] = {}  # the connection that read the previous slice in this process


@contextmanager
def connected(dsn: str) -> Iterator[Connection]:
    """Yield the connection of the previous slice if it still works, or else a new connection.

    A new connection costs client and server as much CPU time as 100,000 rows, because the driver queries all types.
    """
    connection = still_there(dsn) or checked(Connection(dsn))
    with on_error(connection.close):
        yield connection
    close_kept()
    with suppress(adbc_driver_manager.Error):  # all rows were read
        connection.commit()
    KEPT[dsn] = connection


def still_there(dsn: str) -> Connection | None:
    with suppress(adbc_driver_manager.Error, InputError):
        return checked(KEPT.pop(dsn)) if dsn in KEPT else None
    return None  # the caller opens a new connection, and reports an error if that fails


def checked(connection: Connection) -> Connection:
    with on_error(connection.close):
        connection.find_extension()
    return connection


@atexit.register
def close_kept() -> None:
    while KEPT:
        KEPT.popitem()[1].close()


def read(dsn: str, task: Task, schema: dict[str, str], wait: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice. A temporary error before the first row is retried."""
    for _ in attempts():
        began = False
        try:
            with as_of_the_session(), connected(dsn) as connection:
                wait_for(connection, task.slice.lsn, wait)
                for batch in batches(connection, task, schema):
                    began = True
                    yield batch
        except psycopg.Error as error:
            if began or not may_pass(error):
                raise explained(error) from error
            reason = error
        else:
            return
    raise explained(reason) from reason


def batches(connection: Connection, task: Task, schema: dict[str, str]) -> Iterator[pa.RecordBatch]:
    table = task.table
    ((database,),) = connection.asked("SELECT pg_catalog.current_database()::pg_catalog.text")
    if database != table.database:  # another database may have a table of the same name and OID
        raise InputError(f"read_dsn connects to the database {quoted(database)}, but dsn to {quoted(table.database)}")
    connection.hold(table.identifier, (*untimed(connection.version), *(SETTINGS if task.node else ())))
    columns = columns_of(connection.rows(query("reader_columns"), table=table.oid))
    name = f"{table.schema}.{table.name}"

    def question(at: arrow.Connection) -> sql.Composable:
        return kept_rows(at, connection.extension, table.oid, task.slice.batch)

    yield from read_batches(connection, wanted(columns, schema, name), question, table.oid, name, MISFIT)


def wait_for(connection: Connection, lsn: str, seconds: int) -> None:
    """Wait until a standby has replayed the WAL. On a primary, return at once."""
    if not connection.is_standby:
        return
    if connection.version >= HAS_WAIT_FOR_LSN:
        reached = connection.wait_for_lsn(lsn, seconds)
    else:
        reached = replayed(connection, lsn, seconds)
    if not reached:
        raise InorderError(
            f"the standby has not replayed the WAL up to {lsn} in {seconds} s\n"
            "HINT:  The option wait sets the number of seconds."
        )


def replayed(connection: Connection, lsn: str, seconds: int) -> bool:
    """Poll until the WAL is replayed. Return False after a timeout, which also ends the wait after a promotion."""
    end, pause = time.monotonic() + seconds, 0.005
    while True:
        ((reached,),) = connection.asked(
            "SELECT pg_catalog.pg_last_wal_replay_lsn() OPERATOR(pg_catalog.>=) {lsn}::pg_catalog.pg_lsn", lsn=lsn
        )
        if reached or time.monotonic() >= end:
            return bool(reached)
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def may_pass(error: psycopg.Error) -> bool:
    """Return whether a retry may succeed: after a conflict, or while no server answers or the server is starting."""
    text = str(error)
    if error.sqlstate is None and any(word in text for word in ABSENT):
        return "FATAL" not in text or "the database system is" in text
    return error.sqlstate in CONFLICTS or "could not open relation with OID" in text


def explained(error: psycopg.Error) -> InorderError:
    return InorderError(f"cannot read a part of the batch: {error}")
