"""Which databases of a server still use the library, that is to be removed: each INSERT that calls it would fail."""

import psycopg

from inorder.connection.database import connect_as_user, one_row, query
from inorder.connection.session import first_line
from inorder.errors import InputError
from inorder.installations import Installation
from inorder.text import listed


def require_unused(server: Installation, dsn: str) -> list[str]:
    """An error that names the databases which use it; what could not be looked into is returned."""
    try:
        with connect_as_user(dsn) as connection:
            names, version = one_row(connection, query("library_databases"))
    except psycopg.Error as error:
        return [f"whether a database uses it is unknown: {first_line(error)}; HINT: --dsn"]
    if int(version) // 10000 != server.major:
        found = f"the server that answers is PostgreSQL {int(version) // 10000}, not {server.major}"
        return [f"whether a database uses it is unknown: {found}; HINT: --dsn"]
    users, unknown = list[str](), list[str]()
    for name in names:
        try:
            with connect_as_user(psycopg.conninfo.make_conninfo(dsn, dbname=name)) as connection:
                users += [name] if one_row(connection, query("library_used"))[0] else []
        except psycopg.Error as error:
            unknown.append(f"whether database {listed([name])} uses it is unknown: {first_line(error)}")
    if users:
        raise InputError(
            f"these databases still use the library: {listed(users)}\n"
            "HINT:  DROP EXTENSION inorder in each, or inorder uninstall --dsn dbname=NAME, which names what "
            "would be lost."
        )
    return unknown
