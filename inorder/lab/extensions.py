"""The extensions that experiments need on their server."""

from inorder.database import Connection
from inorder.servers import Server


def create_extensions(connection: Connection, server: Server) -> None:
    """inorder; and pgstattuple, which tells leaf density, where the server has it."""
    connection.execute("CREATE EXTENSION inorder")
    if (server.sharedir / "extension" / "pgstattuple.control").exists():
        connection.execute("CREATE EXTENSION pgstattuple")
