"""Find the databases of a server that still use the library. Without the library, their INSERTs would fail."""

import psycopg

from inorder.connection.database import connect_as_user, one_row, query
from inorder.connection.session import first_line
from inorder.errors import InputError
from inorder.installations import Installation
from inorder.text import listed


def require_unused(server: Installation, dsn: str) -> list[str]:
    """Raise InputError if databases use the library. Return warnings about databases that could not be examined."""
    try:
        with connect_as_user(dsn) as connection:
            names, version = one_row(connection, query("library_databases"))
    except psycopg.Error as error:
        return [f"cannot determine whether a database uses the library: {first_line(error)}; HINT: Give --dsn."]
    if int(version) // 10000 != server.major:
        reason = f"the server at this address is PostgreSQL {int(version) // 10000}, not {server.major}"
        return [f"cannot determine whether a database uses the library: {reason}; HINT: Give --dsn."]
    users, unknown = list[str](), list[str]()
    for name in names:
        try:
            with connect_as_user(psycopg.conninfo.make_conninfo(dsn, dbname=name)) as connection:
                users += [name] if one_row(connection, query("library_used"))[0] else []
        except psycopg.Error as error:
            unknown.append(f"cannot determine whether database {listed([name])} uses the library: {first_line(error)}")
    if users:
        raise InputError(
            f"these databases still use the library: {listed(users)}\n"
            "HINT:  In each of them, run DROP EXTENSION inorder, or inorder uninstall, which lists what would be lost."
        )
    return unknown
