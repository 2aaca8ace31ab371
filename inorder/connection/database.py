"""Connections to a server, and the SQL files this package runs there."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import psycopg
from psycopg import sql

APPLICATION_NAME = "inorder"
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
    return psycopg.connect(
        dsn, autocommit=True, fallback_application_name=APPLICATION_NAME, client_encoding="utf8", prepare_threshold=None
    )


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
