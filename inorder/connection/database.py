"""Connections to a server, and the queries in the package's SQL files."""

import re
from collections.abc import Container, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from importlib.resources import files
from typing import Any, LiteralString

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo

from inorder.errors import InputError

APPLICATION_NAME = "inorder"
# If the server disappears silently, the kernel waits for two hours by default. With these settings, it waits for twenty
# seconds, both for an answer and for a new connection. tcp_user_timeout is in milliseconds, the others are in seconds.
SILENCE = {
    "connect_timeout": "20", "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "2",
    "tcp_user_timeout": "20000",
}  # fmt: skip
# pg_catalog is listed so that it is searched first. pg_temp is listed last: otherwise it would be searched first for
# tables and types, and a temporary table of a trigger or of another client of a pooler could shadow pg_class. No other
# schema is listed, not even at the end, because an operator whose argument types match better is chosen even if its
# schema comes later.
SEARCH_PATH = "pg_catalog, pg_temp"
# Trusted values of pg_settings.source for the path at the start of a session. The path was then set by the client, or
# by a role that may alter the user's role. With any other value, the owner of the database may have set it.
TRUSTED_SOURCES = ("client", "user", "database user")
# Settings that make a server end long statements and sessions, each with the server version that introduced it (0: any
# version).
TIMEOUTS: dict[LiteralString, int] = {
    "statement_timeout": 0, "lock_timeout": 0, "idle_in_transaction_session_timeout": 0, "transaction_timeout": 170000,
}  # fmt: skip
# Connection parameters that must not be shown.
SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")

ServerRow = tuple[Any, ...]
Connection = psycopg.Connection[ServerRow]


def connect(dsn: str) -> Connection:
    """Connect to a server that the lab has started."""
    return psycopg.connect(dsn, autocommit=True, application_name=APPLICATION_NAME)


class UserConnection(psycopg.Connection[ServerRow]):
    """A connection to the user's server, where a role's or database's search_path may lead to objects of other users.

    Each transaction therefore begins with its own settings, including SEARCH_PATH. A statement outside a transaction
    runs in a new transaction. Poolers would refuse a startup option, and a session setting would affect other clients
    of a pooler.
    """

    settings: sql.SQL | sql.Composed | None = None  # statements that take no snapshot, and qualify all names
    keeps_path = False  # True if the path was set for the session

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        is_outermost = self.is_idle
        with super().transaction(savepoint_name, force_rollback) as transaction:
            if is_outermost and self.settings is not None:
                super().execute(self.settings)
            yield transaction

    def execute(self, *statement: Any, **how: Any) -> psycopg.Cursor[ServerRow]:
        if self.keeps_path or not self.is_idle:
            return super().execute(*statement, **how)
        with self.transaction():
            return super().execute(*statement, **how)

    @property
    def is_idle(self) -> bool:
        return self.info.transaction_status == pq.TransactionStatus.IDLE

    def keep_path(self, statement: sql.SQL) -> None:
        """Set the session's path for statements outside transactions.

        This is unsafe behind a pooler in transaction mode.
        """
        self.execute(statement)
        self.keeps_path = True

    def by_users_path(self, text: sql.SQL, name: str) -> Any:
        """Return the OID of a table. Only the table name is resolved with the user's path: other names are qualified.

        Behind a pooler, raise InputError for a name without a schema if the server session has another path than
        requested.
        """
        with super().transaction(force_rollback=True):
            # The path is read before it is set below. SHOW is safe under any path, because it resolves no name of an
            # object.
            (present,) = one_row(self, "SHOW search_path")
            super().execute(query("session_settings"))
            super().execute("SET LOCAL search_path TO DEFAULT")
            path, source = one_row(self, query("path_at_start"))
            requested = asked_path(self.info.get_parameters().get("options", ""))
            if requested is None:
                is_as_requested = source != "client"
            elif is_as_requested := same_path(requested, present):
                super().execute(query("named_path"), (present,))
            else:
                is_as_requested = same_path(requested, path)
            if not is_as_requested and is_unqualified(name):
                raise InputError(
                    f"cannot resolve table {name}: behind a pooler, the session has search_path {path} instead of the "
                    f"requested {requested or 'default'}\nHINT:  Name the table with its schema."
                )
            (number,) = one_row(self, text, (name,))
        return number


def asked_path(options: str) -> str | None:
    r"""Return the last search_path in the options of a connection, which overrides earlier ones.

    Return None if the options do not set it.

    >>> [asked_path(text) for text in ("", "-c geqo=off", r"-csearch_path=a,\ b", "-c search_path=a --search-path=c")]
    [None, None, 'a, b', 'c']
    """
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|\S)+", options)]
    paths = re.findall(r"(?:^|\0)(?:-c\0?|--)search[_-]path=([^\0]*)", "\0".join(words))
    return paths[-1] if paths else None


def same_path(path: str, other: str) -> bool:
    """Return whether two settings name the same schemas in the same order.

    >>> same_path('a,"b"', "a, b"), same_path("a", "b")
    (True, False)
    """
    return [re.sub(r'^"(.*)"$', r"\1", name.strip()) for name in path.split(",")] == [
        re.sub(r'^"(.*)"$', r"\1", name.strip()) for name in other.split(",")
    ]


def is_unqualified(name: str) -> bool:
    """Return whether a name in SQL has no schema and is not a number.

    >>> is_unqualified('"a.b"'), is_unqualified('a."b"'), is_unqualified("1259")
    (True, False, False)
    """
    return "." not in re.sub(r'"[^"]*"', "", name) and not name.strip().isdecimal()


def connect_as_user(dsn: str) -> UserConnection:
    """Connect to the user's server in autocommit mode. libpq's environment supplies parameters missing in the DSN.

    Text is UTF-8, regardless of the environment. No statement is prepared, because a pooler may change the session.
    """
    connection = UserConnection.connect(completed(dsn), autocommit=True, prepare_threshold=None)
    connection.settings = query("session_settings")
    return connection


def with_path(dsn: str, path: str = SEARCH_PATH) -> str:
    r"""Return the connection string with the path as a startup option, after the options that the user gave.

    >>> with_path("dbname=shop options='-c geqo=off'")
    "dbname=shop options='-c geqo=off -c search_path=pg_catalog,\\\\ pg_temp'"
    """
    options = given(dsn, ("options",)).get("options", "")
    escaped = path.replace("\\", "\\\\").replace(" ", "\\ ")
    return make_conninfo(dsn, options=f"{options} -c search_path={escaped}".strip())


def pinned(dsn: str) -> str:
    """Return the connection string for a driver that runs its own queries as soon as it is connected.

    The path is set before these queries by a startup option. If a pooler refuses or drops this option, it must be set
    for the role, which has_path() checks.
    """
    plain = completed(dsn)
    refusal = "a pooler drops it"
    try:
        if has_path(with_path(plain)):
            return with_path(plain)
    except psycopg.OperationalError as error:
        refusal = str(error).strip().rpartition("\n")[2]
    if has_path(plain):  # raises an error if the server does not answer
        return plain
    raise InputError(
        f"search_path cannot be set at the start of a connection: {refusal}\n"
        "HINT:  Arrow, Parquet, Spark and dlt need this path before the driver's first query. Connect to the server "
        "itself, or ALTER ROLE ... SET search_path = pg_catalog, pg_temp, and name tables with their schema."
    )


def has_path(dsn: str) -> bool:
    """Return whether sessions begin with SEARCH_PATH, and the owner of the database cannot change this path."""
    with closing(psycopg.connect(dsn, autocommit=True)) as session:
        path, source = one_row(session, query("path_at_start"))
    return path.replace(" ", "") == SEARCH_PATH.replace(" ", "") and source in TRUSTED_SOURCES


def completed(dsn: str) -> str:
    """Return the user's connection string with the parameters of all connections of the tool, for any driver."""
    timeouts = SILENCE | given(dsn, SILENCE)
    return make_conninfo(dsn, fallback_application_name=APPLICATION_NAME, client_encoding="utf8", **timeouts)


def given(dsn: str, names: Container[str]) -> dict[str, str]:
    """Return the parameters among ``names`` that the string, its service or the environment sets, as libpq finds them.

    libpq reports parameters only for a connection. This function therefore connects to a socket that does not exist.

    >>> given("postgresql://db1/shop?keepalives_idle=60", {"keepalives_idle", "keepalives_count"})
    {'keepalives_idle': '60'}
    """
    nowhere = pq.PGconn.connect_start(make_conninfo(dsn, host="/nonexistent", hostaddr="", port=5432).encode())
    options = {option.keyword.decode(): option.val for option in nowhere.info}
    nowhere.finish()
    return {name: value.decode() for name, value in options.items() if value is not None and name in names}


def untimed(version: int, scope: LiteralString = "LOCAL") -> tuple[LiteralString, ...]:
    """Return statements that disable timeouts for a transaction or a session, as pg_dump does.

    Otherwise, a read that a timeout ended would be repeated, and the timeout would end each repetition.

    >>> untimed(150020, "SESSION")[-1]
    'SET SESSION idle_in_transaction_session_timeout = 0'
    """
    return tuple(f"SET {scope} {name} = 0" for name, first in TIMEOUTS.items() if version >= first)


def literal(value: object) -> str:
    return sql.Literal(value).as_string(None)


def identifier(*names: str) -> str:
    return sql.Identifier(*names).as_string(None)


def execute(connection: Connection, *statements: str) -> None:
    """Execute statements one by one with the extended protocol, which refuses an injected second statement."""
    for statement in statements:
        connection.execute(statement.encode(), binary=True)


def one_row(connection: Connection, statement: str | sql.SQL | sql.Composed, parameters: Any = None) -> Sequence[Any]:
    text = statement.encode() if isinstance(statement, str) else statement
    (row,) = connection.execute(text, parameters).fetchall()
    return row


@cache
def queries() -> dict[str, sql.SQL]:
    """Return the queries in the SQL files by name.

    A query has no empty line, and begins with a comment that contains its name.
    """
    texts = [file.read_text(encoding="utf-8") for file in files("inorder").joinpath("queries").iterdir()]
    return {
        statement[3 : statement.index(":")]: sql.SQL(statement)
        for text in texts
        for statement in text.strip().split("\n\n")
    }


def query(name: str) -> sql.SQL:
    return queries()[name]
