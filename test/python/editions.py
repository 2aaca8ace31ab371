"""Databases for inorder install, and helpers for its tests."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

import preloaded
from extension_objects import difference, installed
from waiting import PATIENCE
from world.sql import run

NUMBERS = count(1)
EVENTS = "CREATE TABLE public.events (id uuid PRIMARY KEY DEFAULT inorder.uuid_xact_nextval(), n int)"
# Objects that an installation could leave behind.
OBJECTS = """
SELECT (SELECT string_agg(nspname, ',' ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^pg_(toast|temp)'),
       (SELECT string_agg(extname, ',' ORDER BY extname) FROM pg_extension), (SELECT count(*) FROM pg_proc),
       (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_type), (SELECT count(*) FROM pg_operator),
       (SELECT count(*) FROM pg_cast)
"""


@contextmanager
def database(cluster: Cluster, owner: str = "") -> Iterator[Connection]:
    name = f"edition_{next(NUMBERS)}"
    with connect(cluster.dsn) as admin:
        owned = f"OWNER {owner}" if owner else ""
        run(admin, f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY file_copy {owned}")
        try:
            with connect(f"{cluster.dsn} dbname={name}") as connection:
                yield connection
        finally:
            run(admin, f"DROP DATABASE {name} WITH (FORCE)")


class Tool:
    def __init__(self, cluster: Cluster, folder: Path, connection: Connection, role: str = "postgres") -> None:
        self.folder = folder
        self.dsn = f"{cluster.dsn} dbname={connection.info.dbname}"
        self.environment = cluster.environment() | {"PGDATABASE": connection.info.dbname, "PGUSER": role}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return preloaded.run(arguments, self.folder, self.environment, PATIENCE)

    def install(self, *arguments: str, code: int = 0) -> str:
        return self.says("install", *arguments, code=code)

    def upgrade(self, *arguments: str, code: int = 0) -> str:
        return self.says("upgrade", *arguments, code=code)

    def uninstall(self, *arguments: str, code: int = 0) -> str:
        return self.says("uninstall", *arguments, code=code)

    def says(self, *arguments: str, code: int) -> str:
        """Run a command, and return its output: stdout after success, otherwise stderr."""
        done = self.run(*arguments)
        out, err = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == code and "Traceback" not in err, out + err
        return err if code else out


def as_new(cluster: Cluster, folder: Path, name: str, edition: str) -> str:
    """Return the differences between an installation's objects and those of a new installation, or an empty string."""
    with database(cluster) as fresh:
        Tool(cluster, folder, fresh).install("--edition", edition)
        return difference(*(installed(cluster, each, edition) for each in (name, fresh.info.dbname)))


@contextmanager
def owned_database(cluster: Cluster) -> Iterator[Connection]:
    with connect(cluster.dsn) as admin:
        run(admin, "DROP ROLE IF EXISTS edition_owner", "CREATE ROLE edition_owner LOGIN")
        with database(cluster, "edition_owner") as connection:
            yield connection
        run(admin, "DROP ROLE edition_owner")
