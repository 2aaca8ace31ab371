"""Connections to a server, and the SQL files this package runs there."""

from collections.abc import Container, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo

APPLICATION_NAME = "inorder"
# Where nobody answers any more, and nobody says so, the kernel alone would wait for two hours; with these it is twenty
# seconds, whether an answer is waited for or a connection. Milliseconds where libpq has them, else seconds.
SILENCE = {
    "connect_timeout": "20", "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "2",
    "tcp_user_timeout": "20000",
}  # fmt: skip
# What nobody else may see of a connection string.
SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")

ServerRow = tuple[Any, ...]
Connection = psycopg.Connection[ServerRow]


def connect(dsn: str) -> Connection:
    return psycopg.connect(dsn, autocommit=True, application_name=APPLICATION_NAME)


def connect_as_user(dsn: str) -> Connection:
    """An autocommit connection to the user's own server: what the string leaves out, libpq's environment says.

    Text is UTF-8 whatever the environment says, and nothing is prepared, so that a pooler may stand in between.
    """
    return psycopg.connect(completed(dsn), autocommit=True, prepare_threshold=None)


def completed(dsn: str) -> str:
    """The connection string of the user's with what each of our connections has, whichever driver opens it."""
    timeouts = SILENCE | given(dsn, SILENCE)
    return make_conninfo(dsn, fallback_application_name=APPLICATION_NAME, client_encoding="utf8", **timeouts)


def given(dsn: str, names: Container[str]) -> dict[str, str]:
    """Those of some parameters that the string, its service or the environment sets, as libpq finds them.

    libpq says so of a connection only: this one leads to a socket that is not there.

    >>> given("postgresql://db1/shop?keepalives_idle=60", {"keepalives_idle", "keepalives_count"})
    {'keepalives_idle': '60'}
    """
    nowhere = pq.PGconn.connect_start(make_conninfo(dsn, host="/nonexistent", hostaddr="", port=5432).encode())
    options = {option.keyword.decode(): option.val for option in nowhere.info}
    nowhere.finish()
    return {name: value.decode() for name, value in options.items() if value is not None and name in names}


def literal(value: object) -> str:
    return sql.Literal(value).as_string(None)


def identifier(*names: str) -> str:
    return sql.Identifier(*names).as_string(None)


def execute(connection: Connection, *statements: str) -> None:
    """One statement after the other, by the extended protocol: what another server put into one cannot be a second."""
    for statement in statements:
        connection.execute(statement.encode(), binary=True)


def one_row(connection: Connection, statement: str | sql.SQL | sql.Composed, parameters: Any = None) -> Sequence[Any]:
    text = statement.encode() if isinstance(statement, str) else statement
    (row,) = connection.execute(text, parameters).fetchall()
    return row


@cache
def queries() -> dict[str, sql.SQL]:
    """The queries of the SQL files by name: each begins with a comment, its name first, and has no empty line."""
    texts = [file.read_text(encoding="utf-8") for file in files("inorder").joinpath("queries").iterdir()]
    return {one[3 : one.index(":")]: sql.SQL(one) for text in texts for one in text.strip().split("\n\n")}


def query(name: str) -> sql.SQL:
    return queries()[name]
