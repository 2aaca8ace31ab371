"""A session in the user's own database: where the extension lives there, what it is asked, what its errors mean."""

from collections.abc import Generator
from dataclasses import dataclass

import psycopg
from psycopg import sql

from inorder.database import connect_as_user, query
from inorder.errors import InorderError, InputError

OTHER_ORIGIN = "this position is of another server or timeline"

# Classes of SQLSTATE that tell of the server's state, not of what it was asked.
FAILURES = ("53", "54", "57", "58", "XX")
PASSING = ("08", "40", "57P")  # connection, conflicts (with a standby's recovery, too), shutdown and start


@dataclass(frozen=True)
class Table:
    """A table, found by the server."""

    oid: int
    schema: str
    name: str
    quoted: str
    database: str

    @property
    def identifier(self) -> sql.Identifier:
        """For use in a statement."""
        return sql.Identifier(self.schema, self.name)


class Session:
    """A connection to a database that has the extension, in whatever schema."""

    def __init__(self, dsn: str) -> None:
        self.connection = connect_as_user(dsn)
        row = self.connection.execute(query("extension_schema")).fetchone()
        if row is None:
            name = self.connection.info.dbname
            self.connection.close()
            raise InputError(f"the database '{name}' has no extension inorder; CREATE EXTENSION inorder makes it")
        self.schema_name = str(row[0])
        self.schema = sql.Identifier(self.schema_name)

    def close(self) -> None:
        """Leave the server."""
        self.connection.close()

    def statement(self, text: sql.SQL, **parts: object) -> sql.Composed:
        """A statement with the extension's schema and its values in it, quoted."""
        values = {name: part if isinstance(part, sql.Composable) else sql.Literal(part) for name, part in parts.items()}
        return text.format(inorder=self.schema, **values)

    def row(self, text: sql.SQL, **parts: object) -> tuple[object, ...]:
        """The one row of a query, in a transaction of its own that is committed."""
        row = self.connection.execute(self.statement(text, **parts)).fetchone()
        assert row is not None
        return row

    def table(self, name: str) -> Table:
        """The table of a name, written as in SQL."""
        row = self.connection.execute(query("table"), (name,)).fetchone()
        if row is None:
            raise InputError(f"table {name} does not exist")
        oid, schema, relation, quoted, database = row
        return Table(int(str(oid)), str(schema), str(relation), str(quoted), str(database))

    def copy(self, statement: sql.Composed) -> Generator[bytes, None, None]:
        """The rows of a COPY as the server writes them, under settings that are the same everywhere."""
        with self.connection.transaction():
            self.connection.execute(query("output_settings"))
            with self.connection.cursor().copy(statement) as copy:
                for row in copy:
                    yield bytes(row)


def may_pass(error: psycopg.Error) -> bool:
    """Whether the same may well succeed later: the server is away, restarts, or resolved a conflict.

    >>> may_pass(psycopg.errors.AdminShutdown()), may_pass(psycopg.errors.UndefinedTable())
    (True, False)
    """
    if error.sqlstate is None:  # said by the client: the connection is lost, or was not to be had
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(PASSING)


def explained(error: psycopg.Error) -> InorderError:
    """A server's error in its own words, with the advice it gives; exit code 2 where the fault is in the question."""
    diagnosis = error.diag
    message = diagnosis.message_primary or first_line(error)
    for label, text in (("DETAIL", diagnosis.message_detail), ("HINT", diagnosis.message_hint)):
        message += f"\n{label}:  {text}" if text else ""
    if diagnosis.message_primary == OTHER_ORIGIN:
        message += "\nThat is what --accept-origin does, once. After a dump was restored, see feed_rebase() first."
    failed = error.sqlstate is None or error.sqlstate.startswith((*FAILURES, *PASSING))
    return InorderError(message) if failed else InputError(message)


def first_line(error: BaseException) -> str:
    """What a message begins with."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
