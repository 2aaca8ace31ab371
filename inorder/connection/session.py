"""A session in the user's database: the extension's schema, queries, and error messages."""

import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from inorder.connection.database import ServerRow, connect_as_user, identifier, literal, query, untimed
from inorder.connection.patience import is_of_recovery, patiently
from inorder.connection.stream import Stream
from inorder.errors import InorderError, InputError, on_error
from inorder.interrupts import uninterrupted
from inorder.text import did_you_mean, listed, one_line, quoted

SEEK = "reader_seek("  # part of the server's hint for a changed table
ACCEPT_TABLE = "use --accept-table for one run"
OTHER_TABLE = re.compile("this (position|batch) belongs to another table")
OTHER_ORIGIN = "this position is of another server or timeline"

ACCESS = {None: "", True: " READ ONLY", False: " READ WRITE"}

LONGEST_WAIT = 5.0  # seconds until a query that should wait for one second is canceled

# For each SQLSTATE, the setting or function that ended a statement or a session. The server's message does not name it.
ENDED_BY = {
    "57014": "statement_timeout, or a call of pg_cancel_backend()", "25P03": "idle_in_transaction_session_timeout",
    "25P04": "transaction_timeout", "55P03": "lock_timeout", "57P05": "idle_session_timeout",
}  # fmt: skip
READING = {"table": "SELECT ON", "schema": "USAGE ON SCHEMA"}
DENIED = re.compile("permission denied for (table|schema) (.+)", re.DOTALL)
OF_RECOVERY = "max_standby_streaming_delay and hot_standby_feedback of the standby"

# Classes of SQLSTATE for errors caused by the state of the server, of a pooler or of rows, not by an invalid request.
FAILURES = ("22021", "22P05", "25P0", "26", "42P05", "53", "54", "55006", "57", "58", "XX")
# Connection failures, conflicts, too many connections, lock_timeout, shutdown and startup.
PASSING = ("08", "40", "53300", "55P03", "57P")


def absence(database: str, owned: ServerRow | None) -> str:
    if owned is None:
        return f"the database {quoted(database)} has no extension inorder; HINT: Run inorder install."
    return distrust(database, *owned)


def distrust(database: str, quoted_schema: str, owner: str, schema: str, functions_owner: str) -> str:
    """Build the error for a row of edition_other: an owner of the schema or of the functions is not trusted.

    >>> problem, hint = distrust("shop", "public", "shop", "public", "postgres").splitlines()
    >>> print(problem)
    inorder is in schema "public" of database "shop", and this schema belongs to role "shop"
    >>> print(hint.partition("superuser: ")[2])
    ALTER SCHEMA public OWNER TO "postgres"; GRANT ALL ON SCHEMA public TO "shop"
    """
    place = f"schema {quoted(schema)} of database {quoted(database)}"
    if owner == functions_owner:
        return (
            f"the functions of inorder in {place} belong to role {quoted(owner)}\n"
            "HINT: Their owner can replace them. Connect as that role. If you are not a superuser, that role may also "
            "be the owner of the database."
        )
    statements = (
        f"ALTER SCHEMA {quoted_schema} OWNER TO {identifier(functions_owner)}; "
        f"GRANT ALL ON SCHEMA {quoted_schema} TO {identifier(owner)}"
    )
    return (
        f"inorder is in {place}, and this schema belongs to role {quoted(owner)}\n"
        f"HINT: The owner of a schema can replace its functions. Connect as role {quoted(owner)}. Or run as a "
        f"superuser: {one_line(statements)}"
    )


@dataclass(frozen=True)
class Table:
    oid: int
    schema: str
    name: str
    quoted: str
    database: str

    @property
    def shown(self) -> str:
        return one_line(self.quoted)

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)


def lack(role: str, schema: str, has_usage: bool, is_admitted: bool) -> str:
    """Build the error for a role that may not use inorder, with the statements that grant the role access.

    >>> print(lack("web", "queue", False, True))
    role "web" may not use inorder, in schema "queue"; HINT: GRANT USAGE ON SCHEMA "queue" TO "web"
    """
    grant = f"GRANT USAGE ON SCHEMA {identifier(schema)} TO {identifier(role)}"
    admit = f"SELECT {identifier(schema, 'feed_admit')}({literal(identifier(role))})"
    statements = "; ".join([grant] * (not has_usage) + [admit] * (not is_admitted))
    return one_line(f"role {quoted(role)} may not use inorder, in schema {quoted(schema)}; HINT: {statements}")


class Session:
    """A connection to a database that has the extension, in any schema.

    All statements run in transactions whose isolation does not depend on defaults: REPEATABLE READ in asked(), and READ
    COMMITTED otherwise. Settings are local to the transaction, because of poolers.
    """

    settings: tuple[LiteralString, ...] = ()  # run in each transaction; the statements take no snapshot
    table_acceptance = ACCEPT_TABLE  # the action that accepts a changed table, or ""

    def __init__(self, dsn: str, writes: bool = False) -> None:
        self.dsn = dsn
        self.connection = connect_as_user(dsn)
        with on_error(self.connection.close):
            self.settings = (*untimed(self.connection.info.server_version), *self.settings)
            self.first = sql.SQL("".join(f"{setting};\n" for setting in self.settings))
            self.connection.settings = self.first + query("session_settings")
            self.connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            self.connection.deferrable = False
            self.schema_name, is_standby = self.extension()
            if is_standby and writes:
                raise InputError(f"this server is a standby, and the command needs the primary\n{self.hint()}")
            self.connection.read_only = not writes
        self.schema = sql.Identifier(self.schema_name)

    def extension(self) -> tuple[str, bool]:
        """Return the schema of the extension or of the SQL edition, and whether the server is a standby."""
        with self.transaction():
            row = self.connection.execute(query("extension_schema")).fetchone()
            self.text_schema = sql.Identifier("inorder_text" if row else "inorder_internal")
            if row is None:
                row = self.connection.execute(query("sql_edition_schema")).fetchone()
            owned = None if row else self.connection.execute(query("edition_other")).fetchone()
        if row is None:
            raise InputError(absence(self.connection.info.dbname, owned))
        if not all(row[2:]):
            raise InputError(lack(self.connection.info.user, row[0], row[2], all(row[3:])))
        return row[0], row[1]

    def hint(self) -> str:
        """Return the hint to connect to the primary, with its address if this role may see it."""
        row = self.connection.execute(query("sender")).fetchone()
        settings = conninfo_to_dict(str(row[2])) if row and row[2] else {}
        host, port = (row[0], row[1]) if row and row[0] else (settings.get("host"), settings.get("port", "5432"))
        address = f", which may be host={one_line(str(host))} port={port}" if host else ""
        return f"HINT:  Connect to the primary{address}. With several hosts in --dsn: target_session_attrs=read-write."

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self.connection.transaction():
            yield

    def enter(self) -> None:
        """Begin a transaction that stays open."""
        self.sent(self.begin("READ COMMITTED"), query("session_settings")).begin()

    def statement(self, text: sql.SQL, **parts: object) -> sql.Composed:
        values = {
            name: value if isinstance(value, sql.Composable) else sql.Literal(value) for name, value in parts.items()
        }
        return text.format(inorder=self.schema, inorder_text=self.text_schema, **values)

    def rows(self, text: sql.SQL, **parts: object) -> list[ServerRow]:
        """Run a query in a transaction, commit, and return the rows. The query is retried after a conflict."""
        statement = self.statement(text, **parts)

        def once() -> list[ServerRow]:
            with self.transaction():
                return self.connection.execute(statement).fetchall()

        return patiently(self.connection, once)

    def row(self, text: sql.SQL, **parts: object) -> ServerRow:
        (row,) = self.rows(text, **parts)
        return row

    def waited(self, text: sql.SQL, **parts: object) -> list[ServerRow]:
        """Return the rows of a query that waits for a second on the server's clock.

        The SQL edition waits in pg_sleep(), which sleeps longer if the clock is set back. The query is then canceled,
        and no rows are returned.
        """
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            with suppress(psycopg.Error):
                self.connection.cancel_safe()

        # Python fails with "release unlocked lock" if start() or join() is interrupted.
        timer = threading.Timer(LONGEST_WAIT, end)
        try:
            with uninterrupted():
                timer.start()
            return self.rows(text, **parts)
        except psycopg.errors.QueryCanceled:
            if not is_late.is_set():
                raise
            return []
        finally:
            with uninterrupted():
                timer.cancel()
                if timer.is_alive():
                    timer.join()

    def table(self, name: str) -> Table:
        try:
            oid = patiently(self.connection, lambda: self.connection.by_users_path(query("table_oid"), name))
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            hint = self.hint_of_name(name)
            if not hint:
                raise
            raise InputError(f"{explained(error)}\nHINT:  {hint}") from error
        rows = self.rows(query("table"), oid=oid)
        if not rows:
            raise InputError(f"table {name} does not exist")
        return Table(*rows[0])

    def hint_of_name(self, name: str) -> str:
        """Return a hint with similar table names.

        The names differ only in case or schema or, if there are no such names, in a few letters.
        """
        alike = [shlex.quote(str(quoted)) for (quoted,) in self.rows(query("tables_alike"), name=name)]
        if alike:
            return f"There is {listed(alike, ' and ')}: SQL converts a name without quotes to lower case."
        names: dict[str, str] = {}
        for schema, table, written in self.rows(query("table_names")):
            names |= dict.fromkeys((str(table), f"{schema}.{table}"), shlex.quote(str(written)))
        return did_you_mean(name, names)

    def check_name(
        self,
        table: Table,
        hint: str = "That table has been read to its end. For the new table, begin with a new position.",
    ) -> None:
        """Raise InputError if the name now belongs to another table, to which new rows go."""
        rows = self.rows(query("table_of_name"), schema=table.schema, name=table.name)
        if rows and rows[0][0] != table.oid:
            raise InputError(f"{table.shown} is now another table: the table read so far was renamed\nHINT:  {hint}")

    def log(self, table: Table) -> Table:
        rows = self.rows(query("log_of_changes"), table=table.oid)
        if not rows:
            raise InputError(
                f"the changes of {table.shown} are not logged\n"
                f"HINT:  Let its owner run inorder prepare {one_line(shlex.quote(table.quoted))} --changes"
            )
        return Table(*rows[0])

    def held(self, table: Table, question: sql.Composable) -> Stream:
        """Send a query in an open transaction that first locks the columns of a table.

        Without the lock, a row query could be planned before an ALTER TABLE changes a type, and be executed afterwards.
        """
        hold = self.statement(query("hold_type"), table=table.identifier)
        begin = self.begin("READ COMMITTED")
        return self.sent(begin, query("session_settings"), hold, question)

    def asked(self, table: Table, question: sql.Composed) -> Stream:
        """Send a query in an open transaction with a single snapshot, so that the result stays valid."""
        hold = self.statement(query("hold_tree"), table=table.identifier)
        return self.sent(self.begin("REPEATABLE READ"), hold, query("session_settings"), question)

    def begin(self, isolation: str) -> sql.Composed:
        begin = f"BEGIN ISOLATION LEVEL {isolation} NOT DEFERRABLE{ACCESS[self.connection.read_only]};\n"
        return sql.SQL(begin) + self.first

    def sent(self, *statements: sql.Composable) -> Stream:
        return Stream(self.connection, self.message(*statements))

    def message(self, *statements: sql.Composable) -> bytes:
        return sql.SQL("\n;").join(statements).as_bytes(self.connection)


def same_server(session: Session) -> str:
    """Return the connection string of a session, limited to the server that the session is connected to."""
    info = session.connection.info
    address = {"hostaddr": info.hostaddr} if info.hostaddr else {}
    return make_conninfo(
        session.dsn, host=info.host, port=info.port, target_session_attrs="any", dbname=info.dbname, user=info.user,
        **address,
    )  # fmt: skip


def may_pass(error: psycopg.Error) -> bool:
    """Return whether a retry is likely to succeed: the server is unavailable, is restarting, or resolved a conflict.

    >>> may_pass(psycopg.errors.AdminShutdown()), may_pass(psycopg.errors.UndefinedTable())
    (True, False)
    """
    if error.sqlstate is None:  # the client raised the error: the connection was lost or failed
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(PASSING) or index_went(error)


def index_went(error: psycopg.Error) -> bool:
    """Return whether an index was dropped while a query used it: on a standby, DROP INDEX CONCURRENTLY takes no lock.

    >>> index_went(psycopg.errors.InternalError_("could not open relation with OID 16384"))
    True
    """
    return isinstance(error, psycopg.errors.InternalError_) and "could not open relation with OID" in str(error)


def explained(
    error: psycopg.Error, acceptance: str = "--accept-origin", table_acceptance: str = ACCEPT_TABLE
) -> InorderError:
    """Convert a server error to the error to raise, with its message and hint. An invalid request has exit code 2.

    ``acceptance`` is the option that accepts another origin. ``table_acceptance`` says how to accept a changed table.
    """
    diagnosis = error.diag
    message = one_line(diagnosis.message_primary or first_line(error))
    for label, text in (("DETAIL", diagnosis.message_detail), ("HINT", diagnosis.message_hint or remedy_of(error))):
        # Names in the text may contain newlines. Continuation lines are indented, so that none begins with a label.
        message += f"\n{label}:  " + text.replace("\n", "\n  ") if text else ""
    if SEEK in (diagnosis.message_hint or "") and acceptance == "--accept-origin" and table_acceptance:
        message += f"\nTo do that, {table_acceptance}."
    reads_file = acceptance == "--accept-origin" and table_acceptance == ACCEPT_TABLE
    if reads_file and OTHER_TABLE.match(diagnosis.message_primary or ""):
        message += "\nFor a new position, use another file with --position."
    if diagnosis.message_primary == OTHER_ORIGIN:
        message += f"\nTo do that, use {acceptance} for one run. After a dump was restored, see feed_rebase() first."
    failed = error.sqlstate is None or error.sqlstate.startswith((*FAILURES, *PASSING))
    return InorderError(message) if failed else InputError(message)


def remedy_of(error: psycopg.Error) -> str | None:
    """Return a hint for an error for which the server gives none."""
    return setting_of(error) or grant_of(error.diag.message_primary or "")


def grant_of(message: str) -> str:
    """Return the GRANT that a "permission denied" error asks for. SELECT is enough: the tool only reads user tables.

    >>> grant_of("permission denied for table public.events"), grant_of("permission denied for function f")
    ('GRANT SELECT ON public.events TO the role.', '')
    """
    denial = DENIED.fullmatch(message)
    return f"GRANT {READING[denial[1]]} {denial[2]} TO the role." if denial else ""


def setting_of(error: psycopg.Error) -> str | None:
    """Return a hint with the setting that made the server end a statement. The server's message does not name it.

    >>> setting_of(psycopg.errors.LockNotAvailable())
    'See lock_timeout.'
    """
    settings = OF_RECOVERY if is_of_recovery(error) else ENDED_BY.get(error.sqlstate or "")
    return settings and f"See {settings}."


@contextmanager
def in_words(acceptance: str = "--accept-origin") -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise explained(error, acceptance) from error


def first_line(error: BaseException) -> str:
    return one_line(str(error).strip().partition("\n")[0]) or type(error).__name__
