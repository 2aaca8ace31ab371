"""The editions of inorder: how each one is installed, and which capabilities the SQL edition lacks."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from inorder.connection.database import connect
from psycopg.conninfo import make_conninfo

import providers
import sql_edition

STANDBY = "reading on hot standbys"

SCRIPT = Path(__file__).resolve().parents[2] / "script" / "sql-edition"
SCHEMA = "inorder"
# Neither role is a superuser. The first role owns the database and installs the edition. The second role owns the
# tables.
INSTALLER, USER = "s_installer", "s_user"
ROLES = f"""
CREATE ROLE {INSTALLER} LOGIN;
CREATE ROLE {USER} LOGIN;
ALTER DATABASE postgres OWNER TO {INSTALLER};
ALTER DATABASE postgres SET search_path = public, {SCHEMA};
"""


@dataclass(frozen=True)
class Edition:
    name: str
    lacks: frozenset[str] = frozenset()
    roles: str = ""  # statements that create the required roles
    user: str | None = None  # owner of the tables, and user of all sessions; None: the superuser

    def has(self, *needed: str) -> bool:
        return self.lacks.isdisjoint(needed)

    def dsn(self, superuser: str) -> str:
        return make_conninfo(superuser, user=self.user) if self.user else superuser

    def make_roles(self, superuser: str) -> None:
        """Create the required roles on a new server, which may then restore a dump."""
        with connect(superuser) as connection:
            connection.execute(self.roles.encode())

    def install(self, superuser: str) -> None:
        self.make_roles(superuser)
        if self.user is None:
            with connect(superuser) as connection:
                connection.execute("CREATE EXTENSION inorder")
            return
        with connect(superuser) as connection:
            providers.revoke(connection)
        script = subprocess.run([sys.executable, SCRIPT, "--schema", SCHEMA], check=True, capture_output=True).stdout
        with connect(make_conninfo(superuser, user=INSTALLER)) as connection:
            connection.execute(script)
            connection.execute(sql_edition.reading(SCHEMA).encode())
            connection.execute(f"GRANT CREATE ON SCHEMA public TO {USER}".encode())
        self.admit(superuser, USER)

    def admit(self, superuser: str, *roles: str) -> None:
        """Admit roles to the SQL edition. The C extension admits all roles."""
        if self.user:
            with connect(superuser) as connection:
                for role in roles:
                    connection.execute(f"SELECT {SCHEMA}.feed_admit('{role}')".encode())


EDITIONS = {
    edition.name: edition
    for edition in (
        Edition("c"),
        Edition("sql", frozenset({STANDBY}), ROLES, USER),
    )
}
