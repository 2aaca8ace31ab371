"""A connection of ADBC: it makes Arrow of the binary COPY in C, at a third of the CPU time of rows of Python."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

import adbc_driver_manager
import pyarrow as pa
from adbc_driver_postgresql import StatementOptions, dbapi
from psycopg import sql

from inorder.connection.database import APPLICATION_NAME, query

STANDARD_ERROR = 2
BATCH_BYTES = 4 * 1024 * 1024  # of Arrow, in memory several times


class Silence:
    """No standard error: the driver's libpq writes to it what a server notices, and a terminal would obey it.

    Threads may be in it at the same time; the last one that leaves it ends it.
    """

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.inside, self.kept = 0, -1

    def __enter__(self) -> None:
        with self.turn:
            if self.inside == 0:
                self.kept = os.dup(STANDARD_ERROR)
                with open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), STANDARD_ERROR)
            self.inside += 1

    def __exit__(self, *_error: object) -> None:
        with self.turn:
            self.inside -= 1
            if self.inside == 0:
                os.dup2(self.kept, STANDARD_ERROR)
                os.close(self.kept)


silenced = Silence()


class Connection:
    def __init__(self, dsn: str) -> None:
        with silenced:
            self.connection = dbapi.connect(dsn, autocommit=True)
        self.cursor = self.connection.cursor(
            adbc_stmt_kwargs={StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)}
        )
        self.run("SET application_name = {name}", name=APPLICATION_NAME)
        self.run("SET client_encoding = 'UTF8'")

    def run(self, text: str | sql.Composable, **parts: object) -> None:
        statement = sql.SQL(text) if isinstance(text, str) else text
        values = {name: part if isinstance(part, sql.Composable) else sql.Literal(part) for name, part in parts.items()}
        whole = statement.format(**values) if isinstance(statement, sql.SQL) else statement
        with silenced:
            self.cursor.execute(whole.as_string(None))

    def rows(self, text: str | sql.SQL, **parts: object) -> list[tuple[object, ...]]:
        self.run(text, **parts)
        with silenced:
            return list(self.cursor.fetchall())

    def row(self, text: str | sql.SQL, **parts: object) -> tuple[object, ...]:
        (row,) = self.rows(text, **parts)
        return row

    def found(self) -> Iterator[pa.RecordBatch]:
        """What the query returns; an error while it is read is one of ADBC's, with its SQLSTATE.

        fetch_record_batch() is the reader below, whose errors are pyarrow's and OSError.
        """
        batches = iter(self.cursor._results.reader)
        while True:
            with silenced:
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def begin(self, table: sql.Identifier, settings: Sequence[str] = ()) -> None:
        """A transaction of one snapshot, in which nobody changes the table, under the same settings everywhere."""
        self.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY NOT DEFERRABLE")
        for setting in settings:
            self.run(setting)
        self.run(query("hold_tree"), table=table)
        self.run(query("session_settings"))
        self.run("SET LOCAL timezone = 'UTC'")

    def cancel(self) -> None:
        with silenced, suppress(adbc_driver_manager.Error):
            self.cursor.adbc_cancel()

    def commit(self) -> None:
        self.run("COMMIT")

    def close(self) -> None:
        with silenced, suppress(adbc_driver_manager.Error):
            self.cursor.close()
            self.connection.close()
