"""Connections to a server, and the SQL files this package runs there."""

from functools import cache
from importlib.resources import files

import psycopg
from psycopg import sql

APPLICATION_NAME = "inorder"

Connection = psycopg.Connection[tuple[object, ...]]


def connect(dsn: str) -> Connection:
    """An autocommit connection that says who it is."""
    return psycopg.connect(dsn, autocommit=True, application_name=APPLICATION_NAME)


def connect_as_user(dsn: str) -> Connection:
    """An autocommit connection to the user's own server: what the string leaves out, libpq's environment says.

    Text is UTF-8 whatever the environment says, and nothing is prepared, so that a pooler may stand in between.
    """
    return psycopg.connect(
        dsn, autocommit=True, fallback_application_name=APPLICATION_NAME, client_encoding="utf8", prepare_threshold=None
    )


@cache
def query(name: str, package: str = "inorder", folder: str = "queries") -> sql.SQL:
    """The text of one of our own SQL files."""
    return sql.SQL(files(package).joinpath(folder, f"{name}.sql").read_text(encoding="utf-8"))
