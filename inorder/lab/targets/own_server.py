"""The user's own server as a target of experiments, which only create a schema and remove it afterwards."""

import os
import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from inorder.connection.database import SECRETS, Connection, completed, connect_as_user, one_row, query, with_path
from inorder.connection.session import explained, first_line
from inorder.errors import InorderError, InputError, on_error
from inorder.installations import OLDEST_MAJOR, Installation
from inorder.interrupts import uninterrupted
from inorder.lab.plan.capabilities import Capabilities
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.results.result import OWN_SERVER, Result
from inorder.lab.server.temporary import claimed_folder, require_free, temporary_folder
from inorder.lab.targets.target import Target, release_tables, with_settings
from inorder.text import quoted

MARK = "inorder lab: created for one run, removed at its end"
LOCK_TIMEOUT = "60s"  # applies while the schema is dropped, because pg_dump may be reading it


class OwnServer(Target):
    """A schema that exists during the ``with`` block. The server's settings, memory and extensions are not changed.

    Client programs come from an installation on this machine.
    """

    is_superuser = False
    work_mem = "256MB"  # the server also does other work

    def __init__(self, dsn: str, programs: Installation | None) -> None:
        self.programs = programs
        self.application = f"inorder_lab_{os.getpid()}_{secrets.token_hex(4)}"
        parts = conninfo_to_dict(dsn)
        # The password is passed in the environment, because program arguments are visible to every user of the machine.
        self.password = str(parts.pop("password", None) or "")
        if hidden := [key for key in SECRETS if key in parts]:
            raise InputError(
                f"--dsn has {hidden[0]}, which every user of this machine could see among the arguments of pgbench; "
                "HINT: Put the connection parameters into a service file of libpq."
            )
        self.given = bool(parts)
        self.dsn = make_conninfo("", **(parts | {"application_name": self.application}))
        self.folder = Path()
        self.stack = ExitStack()
        self.variables: dict[str, str] = {}
        self.path = ""
        self.capabilities = self.read_capabilities()
        self.sees_wal, self.marks_checkpoints = self.capabilities.sees_wal, self.capabilities.sees_checkpoints

    @property
    def database(self) -> str:
        """The connection string, with the search_path of the lab and parameters that detect a lost connection."""
        return with_path(completed(self.dsn), self.path)

    def connect(self, **settings: str) -> Connection:
        """Open a session whose search_path includes the extensions, but no other objects of the user."""
        connection = connect_as_user(make_conninfo(self.dsn, **({"password": self.password} if self.password else {})))
        with on_error(connection.close):
            connection.settings = None
            connection.keep_path(query("own_search_path"))
        return with_settings(connection, settings)

    def read_capabilities(self) -> Capabilities:
        with self.connect() as connection:
            info = connection.info
            if info.server_version < OLDEST_MAJOR * 10000:
                raise InputError(f"the server is too old: inorder needs PostgreSQL {OLDEST_MAJOR} or later")
            self.variables = {"PGHOST": info.host, "PGPORT": str(info.port), "PGUSER": info.user,
                              "PGDATABASE": info.dbname}  # fmt: skip
            (self.path,) = one_row(connection, "SHOW search_path")
            row = one_row(connection, query("own_server"), {"schema": SCHEMA})
            settings = {str(name): str(value) for name, value in connection.execute(query("settings"))}
        return replace(Capabilities(*row), settings=settings)

    def __enter__(self) -> "OwnServer":
        with ExitStack() as stack:
            self.folder = stack.enter_context(claimed_folder(temporary_folder()))
            try:
                with self.connect() as connection, connection.transaction():
                    connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCHEMA)))
                    mark = sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(SCHEMA), sql.Literal(MARK))
                    connection.execute(mark)
                    (oid,) = one_row(connection, "SELECT oid FROM pg_namespace WHERE nspname = %s", (SCHEMA,))
                    # The removal is registered before the commit, because an interrupt may occur at any time. Removing
                    # a schema that does not exist is not an error.
                    stack.callback(self.remove, oid)
            except psycopg.errors.DuplicateSchema as error:
                raise InputError(schema_exists(self.capabilities.database, False)) from error
            except psycopg.Error as error:
                raise explained(error) from error
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stack.close()

    def remove(self, schema: int) -> None:
        """Remove the schema with this OID, which this run created, but no other schema with the same name."""
        with uninterrupted():
            try:
                with self.connect(lock_timeout=LOCK_TIMEOUT) as connection:
                    row = connection.execute("SELECT nspname FROM pg_namespace WHERE oid = %s", (schema,)).fetchone()
                    if row is not None:
                        if self.capabilities.has_inorder:
                            release_tables(connection, str(row[0]))
                        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(str(row[0]))))
            except psycopg.Error as error:
                raise InorderError(
                    f"the schema {SCHEMA} may still be in the database {quoted(self.capabilities.database)} "
                    f"({first_line(error)}); DROP SCHEMA {SCHEMA} CASCADE removes it"
                ) from error

    def program(self, name: str) -> Path:
        if self.programs is None:
            raise InputError(f"cannot run {name}: no PostgreSQL is installed on this machine")
        return self.programs.program(name)

    def environment(self) -> dict[str, str]:
        """Return the caller's environment, with the address of the session.

        With a service alone, pgbench would override the database.
        """
        password = {"PGPASSWORD": self.password} if self.password else {}
        return os.environ | self.variables | password

    def checkpoint(self, connection: Connection) -> None:
        if self.capabilities.may_checkpoint:
            connection.execute("CHECKPOINT")

    def file_folder(self, name: str, needed: int = 0) -> Path:
        require_free(needed, "the files on this machine", self.folder.parent)
        return super().file_folder(name)

    def note(self, result: Result) -> None:
        result.server = described(self.capabilities)


def described(capabilities: Capabilities) -> dict[str, object]:
    return {"version": capabilities.version, "origin": OWN_SERVER, "settings": dict(capabilities.settings),
            "checkpoints": capabilities.may_checkpoint}  # fmt: skip


def schema_exists(database: str, left_over: bool) -> str:
    exists = f"the database {quoted(database)} already has a schema {SCHEMA}"
    if not left_over:
        return f"{exists}, which does not belong to this run; nothing was changed"
    return (
        f"{exists}, which was left behind by a killed run, or is used by another run; if no other run is active, "
        f"DROP SCHEMA {SCHEMA} CASCADE removes it"
    )


def require_unchanged(before: Mapping[str, object], now: Mapping[str, object]) -> None:
    changed = [name for name in now if before.get(name) != now[name]]
    if changed:
        raise InputError(f"the server has changed since the run began: {', '.join(changed)}")


def require_usable(capabilities: Capabilities) -> None:
    if capabilities.in_recovery:
        raise InputError("the server is a standby, which cannot insert rows")
    if capabilities.schema_comment is not None:
        raise InputError(schema_exists(capabilities.database, capabilities.schema_comment == MARK))
    if not capabilities.may_create:
        raise InputError(
            f"the role {quoted(capabilities.role)} may not create a schema in the database "
            f"{quoted(capabilities.database)}; "
            f"GRANT CREATE ON DATABASE allows it"
        )
    if not capabilities.counts:
        raise InputError("the server does not count blocks, because track_counts is off")
