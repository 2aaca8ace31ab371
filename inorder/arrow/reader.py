"""Read the rows of a batch as Arrow, in an ADBC transaction parallel to the session that found the batch.

The driver converts binary COPY to Arrow in C, in a third of the CPU time that rows in Python take.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count

import adbc_driver_manager
import psycopg
import pyarrow as pa
from adbc_driver_postgresql import StatementOptions, dbapi
from psycopg import sql

from inorder.arrow.types import Field, fields_of, select_list, text_or_null
from inorder.arrow.values import converted
from inorder.connection.database import ServerRow, pinned, query
from inorder.connection.patience import changed
from inorder.connection.reading import TableColumn, columns_of
from inorder.connection.session import Session, Table, same_server
from inorder.connection.unsent import named
from inorder.errors import on_error

UNCHECKED = "SQL_ASCII"  # with this encoding, a server accepts arbitrary bytes as text
BATCH_BYTES = 4 * 1024 * 1024  # size of an Arrow batch; several batches are in memory at a time


class Connection:
    """An ADBC connection that runs all statements in transactions, which begin and end with a simple query.

    Outside a transaction, a pooler could send the two steps of a statement, prepare and describe, to different
    sessions.
    """

    def __init__(self, dsn: str) -> None:
        self.connection = dbapi.connect(pinned(dsn), autocommit=True)
        with on_error(self.connection.close):
            self.cursor = self.connection.cursor(
                adbc_stmt_kwargs={StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)}
            )
        # the columns of each table, keyed by OID, when this connection last read it
        self.columns: dict[int, list[TableColumn]] = {}

    def run(self, text: str | sql.Composable, **parts: object) -> None:
        statement = sql.SQL(text) if isinstance(text, str) else text
        values = {
            name: value if isinstance(value, sql.Composable) else sql.Literal(value) for name, value in parts.items()
        }
        composed = statement.format(**values) if isinstance(statement, sql.SQL) else statement
        self.cursor.execute(composed.as_string(None))

    def rows(self, text: str | sql.SQL, **parts: object) -> list[ServerRow]:
        self.run(text, **parts)
        return list(self.cursor.fetchall())

    def row(self, text: str | sql.SQL, **parts: object) -> ServerRow:
        (row,) = self.rows(text, **parts)
        return row

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result of the query. If reading fails, raise the ADBC error, which has an SQLSTATE.

        fetch_record_batch() would wrap the reader, and raise pyarrow errors or OSError without an SQLSTATE.
        """
        yield from self.cursor._results.reader

    def begin(self) -> None:
        self.connection.adbc_connection.set_autocommit(False)

    def commit(self) -> None:
        self.connection.adbc_connection.set_autocommit(True)

    def asked(self, text: str | sql.SQL, **parts: object) -> list[ServerRow]:
        """Run a query in its own transaction, and return the rows."""
        self.begin()
        rows = self.rows(text, **parts)
        self.commit()
        return rows

    def hold(self, table: sql.Identifier, settings: Sequence[str] = ()) -> None:
        """Begin a transaction with a single snapshot and fixed settings, and lock the table against changes."""
        self.begin()
        self.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY NOT DEFERRABLE")
        for setting in settings:
            self.run(setting)
        self.run(query("hold_tree"), table=table)
        self.rows(query("session_settings"))  # unread rows would make the driver end the transaction
        self.run("SET LOCAL timezone = 'UTC'")

    def close(self) -> None:
        for resource in (self.cursor, self.connection):
            with suppress(adbc_driver_manager.Error):
                resource.close()


# Called in a transaction. Returns the FROM item with the rows of a batch.
Question = Callable[[Connection], sql.Composable]
Fields = Callable[[list[TableColumn]], list[Field]]  # maps table columns to Arrow fields


class ArrowReader:
    """Reads tables repeatedly. Connections are kept, because the driver queries all types when it connects.

    ``hint`` belongs to the error for a value that Arrow cannot represent. Without a hint, the value is read as null.
    """

    def __init__(self, hint: str | None, fields: Fields = fields_of, rows: str = "reader_rows") -> None:
        self.hint, self.fields, self.query_name = hint, fields, rows
        self.connections: dict[Session, Connection] = {}

    def of_batch(
        self, session: Session, table: Table, batch: str, after: str | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of a batch. For changes, ``after`` is the position after the batch, as JSON."""
        return self.rows(
            session,
            table,
            lambda connection: kept_rows(connection, session.schema, table.oid, batch, self.query_name, after),
        )

    def rows(self, session: Session, table: Table, question: Question) -> Generator[pa.RecordBatch, None, None]:
        questions = list[sql.Composable]()

        def remembered(connection: Connection) -> sql.Composable:
            questions.append(question(connection))
            return questions[-1]

        with named(session, table, questions), as_of_the_session(), on_error(self.close):
            connection, fields = self.begun(session, table)
            yield from read(connection, fields, remembered, table.oid, table.shown, self.hint)
            connection.commit()

    def empty(self, session: Session, table: Table) -> pa.RecordBatch:
        with as_of_the_session():
            connection, fields = self.begun(session, table)
            connection.commit()
        schema = schema_of(fields)
        return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)

    def begun(self, session: Session, table: Table) -> tuple[Connection, list[Field]]:
        """Begin a transaction that locks the table. Return its connection and the fields.

        If the columns of the table have changed since the connection last read it, the connection is replaced.
        """
        connection, columns = self.columns_in(session, table)
        if connection.columns.setdefault(table.oid, columns) != columns:
            self.close()
            connection, columns = self.columns_in(session, table)
        connection.columns[table.oid] = columns
        fields = self.fields(columns)
        is_unchecked = session.connection.info.parameter_status("server_encoding") == UNCHECKED
        return connection, list(map(text_or_null, fields)) if is_unchecked and self.hint is None else fields

    def columns_in(self, session: Session, table: Table) -> tuple[Connection, list[TableColumn]]:
        for ended in [session for session in self.connections if session.connection.closed]:
            self.connections.pop(ended).close()
        if session not in self.connections:
            self.connections[session] = Connection(same_server(session))
        connection = self.connections[session]
        connection.hold(table.identifier, session.settings)
        return connection, columns_of(connection.rows(query("reader_columns"), table=table.oid))

    def close(self) -> None:
        while self.connections:
            self.connections.popitem()[1].close()


def read(
    connection: Connection, fields: Sequence[Field], question: Question, table: int, shown: str, hint: str | None
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows as the server returns them. At the end, raise an error if the table may have changed."""
    rows = question(connection)
    connection.run("SELECT {columns} FROM {rows} AS e", columns=select_list(fields), rows=rows)
    width = sum(field.width + bool(field.extra) for field in fields)
    for batch in connection.batches():
        if batch.num_columns != width:
            raise changed(shown)
        yield converted(batch, fields, schema_of(fields), hint)
    if question(connection) != rows or not has_same_types(connection, fields, table):
        raise changed(shown)


def has_same_types(connection: Connection, fields: Sequence[Field], table: int) -> bool:
    """Return whether a new snapshot has the same enum labels and composite attributes. No lock protects their names."""
    names = names_in(field.column for field in fields)
    if not names:
        return True
    connection.run("COMMIT AND CHAIN")
    return names <= names_in(columns_of(connection.rows(query("reader_columns"), table=table)))


def names_in(columns: Iterable[TableColumn]) -> set[tuple[object, ...]]:
    """Return the enum labels and the composite attributes of columns with user-defined types.

    Type names are left out, because their spelling depends on settings.
    """
    return {
        (column.name, column.labels, *((field.name, field.type, field.modifier) for field in column.fields))
        for column in columns if column.labels or column.fields
    }  # fmt: skip


def kept_rows(
    connection: Connection, inorder: sql.Identifier, table: int, batch: str, question: str = "reader_rows",
    after: str | None = None,
) -> sql.Composable:  # fmt: skip
    (text,) = connection.row(query(question), inorder=inorder, table=table, batch=batch, after=after)
    return sql.SQL(f"({text})")


def fields_of_changes(columns: list[TableColumn], fields: Fields = fields_of) -> list[Field]:
    """Return the columns "op" and "version" of a change, followed by the columns of the table.

    If the table has a column with one of these names, underscores are appended to "op" or "version".

    >>> [field.name for field in fields_of_changes([TableColumn("op", "integer", "int4")])]
    ['op_', 'version', 'op']
    """
    names = {column.name for column in columns}
    added = [
        TableColumn(name_beside("op", names), "text", "text"),
        TableColumn(name_beside("version", names), "bigint", "int8"),
    ]
    return fields([*added, *columns])


def name_beside(base: str, names: Collection[str]) -> str:
    return next(name for n in count() if (name := base + "_" * n) not in names)


def schema_of(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema([(field.name, field.type) for field in fields])


@contextmanager
def as_of_the_session() -> Iterator[None]:
    """Convert ADBC errors to psycopg errors with the same SQLSTATE, which retries depend on."""
    try:
        yield
    except adbc_driver_manager.Error as error:
        is_lost = isinstance(error, adbc_driver_manager.OperationalError)
        kind: type[psycopg.Error] = psycopg.OperationalError if is_lost else psycopg.DatabaseError
        with suppress(KeyError, TypeError):
            kind = psycopg.errors.lookup(str(error.sqlstate))
        raise kind(str(error)) from error
