"""A session of ``inorder install``, which works only in transactions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from inorder.connection.database import connect_as_user, query, untimed
from inorder.connection.session import explained, first_line
from inorder.errors import InorderError
from inorder.install import edition
from inorder.install.offer import Installed, Offer

# These settings override those of the role and of the database.
SETTINGS = (
    "SELECT pg_catalog.set_config(s.name, s.value, true) FROM (VALUES ('search_path', 'pg_catalog, pg_temp'), "
    "('row_security', 'on'), ('quote_all_identifiers', 'off'), ('plpgsql.extra_errors', 'none'), "
    "('plpgsql.extra_warnings', 'none'), ('client_min_messages', 'warning'), ('lock_timeout', {})) AS s(name, value)"
)


class Target:
    def __init__(self, dsn: str, schema: str, lock_timeout: float) -> None:
        self.schema = schema
        self.connection = connect_as_user(dsn)
        settings = sql.SQL(SETTINGS).format(sql.Literal(str(round(lock_timeout * 1000))))
        first = "".join(f"{setting};\n" for setting in untimed(self.connection.info.server_version))
        self.connection.settings = sql.SQL(first) + settings
        self.connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED

    @contextmanager
    def transaction(self, keep: bool = True) -> Iterator[None]:
        with self.connection.transaction(force_rollback=not keep):
            yield

    def run(self, text: str | sql.SQL | sql.Composed) -> None:
        self.connection.execute(text.encode() if isinstance(text, str) else text)

    def rows(self, name: str, **parts: object) -> list[dict[str, Any]]:
        values = {
            key: value if isinstance(value, sql.Composable) else sql.Literal(value) for key, value in parts.items()
        }
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query(name).format(**values)).fetchall()

    def offer(self) -> Offer:
        (facts,) = self.rows("install_facts", schema=self.schema, names=edition.names("called"))
        asks = not facts["is_standby"] and not facts["revoked"]
        return Offer(schema=self.schema, wal_problem=self.wal_problem() if asks else None, **facts)

    def wal_problem(self) -> str | None:
        """Return the error if the server does not show its WAL position, which the SQL edition needs."""
        try:
            with self.connection.transaction():
                self.connection.execute("SELECT pg_walfile_name(pg_current_wal_insert_lsn())")
        except psycopg.Error as error:
            if self.connection.closed:
                raise
            return first_line(error)
        return None

    def dependents(self, installed: Installed) -> list[dict[str, Any]]:
        return self.rows("install_dependents", schemas=self.own_schemas(installed))

    def own_schemas(self, installed: Installed) -> list[str]:
        """Return the schemas that belong to the SQL edition. The extension has none: the server knows its members."""
        return [] if installed.edition != "sql" else [installed.schema, "inorder_internal"]


@contextmanager
def opened(dsn: str, schema: str, lock_timeout: float) -> Iterator[Target]:
    target = Target(dsn, schema, lock_timeout)
    try:
        yield target
    except psycopg.Error as error:
        if target.connection.closed:
            raise InorderError(f"the connection to the server was lost: {first_line(error)}") from error
        failure = explained(error)  # each action is a single transaction
        raise type(failure)(f"{failure}\nHINT:  Nothing was changed.") from error
    finally:
        target.connection.close()
