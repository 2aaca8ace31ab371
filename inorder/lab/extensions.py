"""The extensions that experiments need on their server, and what they remember of an experiment's tables."""

from psycopg import sql

from inorder.connection.database import Connection, query
from inorder.installations import Installation

# pgstattuple reports leaf density, uuid-ossp generates the keys of study P1.
CONTRIB = ("pgstattuple", "uuid-ossp")


def has_extension(server: Installation, name: str) -> bool:
    return (server.sharedir / "extension" / f"{name}.control").exists()


def create_extensions(connection: Connection, server: Installation) -> None:
    for name in ("inorder", *(name for name in CONTRIB if has_extension(server, name))):
        connection.execute(sql.SQL("CREATE EXTENSION {}").format(sql.Identifier(name)))


def release_tables(connection: Connection, schema: str) -> None:
    """Let inorder forget the tables of a schema, before they are dropped: their feeds, and that they can be read."""
    row = connection.execute(query("extension_schema")).fetchone()
    if row is None:
        return
    for name in ("release_feeds", "release_tables"):
        connection.execute(query(name).format(inorder=sql.Identifier(str(row[0]))), {"schema": schema})
