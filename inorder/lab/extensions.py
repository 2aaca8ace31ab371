"""The extensions that experiments need on their server, and what they remember of an experiment's tables."""

from psycopg import sql

from inorder.database import Connection, query
from inorder.lab.server.servers import Server


def create_extensions(connection: Connection, server: Server) -> None:
    """inorder; and pgstattuple, which tells leaf density, where the server has it."""
    connection.execute("CREATE EXTENSION inorder")
    if (server.sharedir / "extension" / "pgstattuple.control").exists():
        connection.execute("CREATE EXTENSION pgstattuple")


def release_tables(connection: Connection, schema: str) -> None:
    """Let inorder forget the tables of a schema, before they are dropped: their feeds, and that they can be read."""
    row = connection.execute(query("extension_schema")).fetchone()
    if row is None:
        return
    for name in ("release_feeds", "release_tables"):
        connection.execute(query(name).format(inorder=sql.Identifier(str(row[0]))), {"schema": schema})
