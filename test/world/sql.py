"""Helpers that execute SQL statements."""

from typing import Any

from inorder.connection.database import Connection


def run(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(statement.encode())


def rows(connection: Connection, statement: str, *parameters: object) -> list[Any]:
    return connection.execute(statement.encode(), parameters or None).fetchall()


def value(connection: Connection, statement: str, *parameters: object) -> Any:
    row = connection.execute(statement.encode(), parameters or None).fetchone()
    assert row is not None
    return row[0]


def numbers(connection: Connection, statement: str, *parameters: object) -> list[int]:
    return [number for (number,) in rows(connection, statement, *parameters)]
