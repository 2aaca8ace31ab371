"""Run the statements that prepare a table, one after another. No statement blocks writers for long."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import NamedTuple

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.errors import Diagnostic

from inorder.connection.database import ServerRow, connect_as_user, query, untimed
from inorder.connection.patience import attempts, patiently
from inorder.connection.reconnect import once
from inorder.connection.session import Session, first_line
from inorder.errors import InorderError, InputError
from inorder.text import one_line

# SQLSTATEs of a statement that did not get a lock in time. Sessions queue behind the statement, so it must not wait
# longer.
BUSY = ("55P03", "40P01", "40001")
PROGRESS_SECONDS = 10.0
FEED_FUNCTIONS = ["feed_enable", "feed_disable", "feed_guard", "xact_id"]
CHANGES_FUNCTIONS = ["changes_prepare", "changes_enable", "changes_disable", "feed_create"]
ASKED = "23001"  # restrict_violation: the SQLSTATE of warnings about writers, and of the guard's errors
# These settings override those of the role and of the database.
SETTINGS = (
    "SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off; "
    "SET idle_session_timeout = 0"
)


class Notice(NamedTuple):
    sqlstate: str | None
    text: str


@dataclass(frozen=True)
class Request:
    table: str
    column: str
    lock_timeout: float  # seconds
    tries: int
    undo: bool
    drop_column: bool
    dsn: str
    changes: bool = False
    feed: str | None = None  # name of a feed on the change log
    insert_only: bool = False  # ignore past updates and deletes


def is_concurrent(statement: str) -> bool:
    """Return whether a statement waits for writers without blocking them, so that it may wait as long as needed.

    >>> is_concurrent("CREATE INDEX CONCURRENTLY a ON b"), is_concurrent("ANALYZE t")
    (True, False)
    """
    return statement.startswith(("CREATE INDEX CONCURRENTLY ", "DROP INDEX CONCURRENTLY "))


class Preparation:
    def __init__(self, request: Request, say: Callable[[str], None]) -> None:
        self.request, self.say = request, say
        self.completed: list[str] = []

    def attach(self, session: Session) -> None:
        self.session, self.table = session, session.table(self.request.table)

    def planned(self) -> list[str]:
        """Return the statements that remain to be run.

        Raise InputError if there are warnings about which the user must decide first.
        """
        if self.request.changes:  # only the owner may log changes
            self.require_privileges(creates=not self.request.undo)
        statements, notices = self.noticed()
        for notice in notices:
            self.say(notice.text)
        if (
            not self.request.insert_only
            and not self.request.changes
            and any(notice.sqlstate == ASKED for notice in notices)
        ):
            logs = f"{self.command('--changes')} logs its changes. " if self.has_primary_key() else ""
            raise InputError(
                f"table {self.table.shown} was not changed, because of the warnings above\n"
                f"HINT:  {logs}--insert-only prepares the table nevertheless."
            )
        if statements and not self.request.changes:
            self.require_privileges(creates=any(statement.startswith("CREATE INDEX") for statement in statements))
        return statements

    def has_primary_key(self) -> bool:
        """Return whether the table has a primary key, which changes_enable() requires."""
        return bool(self.session.rows(query("prepare_primary_key"), table=self.table.oid))

    def noticed(self) -> tuple[list[str], list[Notice]]:
        """Return the statements, and the server's notices about them."""
        notices: list[Notice] = []
        connection = self.session.connection

        def notice(diagnostic: Diagnostic) -> None:  # the diagnostic is invalid after this call
            notices.append(Notice(diagnostic.sqlstate, as_lines(diagnostic)))

        connection.add_notice_handler(notice)
        try:
            return self.statements("notice"), notices
        finally:
            connection.remove_notice_handler(notice)

    def statements(self, least: str = "error") -> list[str]:
        parts = {"table": self.table.oid, "column": self.request.column}
        if self.request.changes:
            name, parts = "prepare_changes", {
                "schema": self.session.schema_name, "quoted": self.table.quoted, "undo": self.request.undo,
                "feed": self.request.feed, "table": self.table.oid,
            }  # fmt: skip
        elif self.request.undo:
            name, parts = "prepare_undo", parts | {
                "schema": self.session.schema_name, "quoted": self.table.quoted,
                "drop_column": self.request.drop_column,
            }  # fmt: skip
        else:
            name = "prepare_steps"
        connection, statement = self.session.connection, self.session.statement(query(name), **parts)

        def once() -> list[ServerRow]:
            with self.session.transaction():
                connection.execute(sql.SQL("SET LOCAL client_min_messages = {}").format(sql.Literal(least)))
                return connection.execute(statement).fetchall()

        return [str(row[0]) for row in patiently(connection, once)]

    def require_privileges(self, creates: bool) -> None:
        """Raise InputError with all privileges that the role lacks, before the first statement."""
        rows = self.session.rows(
            query("prepare_lacks"), table=self.table.oid, schema=self.session.schema_name, creates=creates,
            functions=CHANGES_FUNCTIONS if self.request.changes else FEED_FUNCTIONS,
            itself=self.request.changes and not self.request.undo,
        )  # fmt: skip
        if rows:
            owner = next((one_line(str(role)) for _, role in rows if role is not None), None)
            raise InputError(
                f"table {self.table.shown} cannot be prepared by this role, which lacks: "
                f"{one_line('; '.join(str(privilege) for privilege, _ in rows))}\nHINT:  Nothing was changed."
                + (f" Let role {owner} run {self.command(owner=owner)}" if owner else "")
            )

    def command(self, *options: str, owner: str | None = None) -> str:
        """Return the command line of this run, with more options or for another role."""
        request = self.request
        arguments = [*options, *(["--changes"] if request.changes else [])]
        arguments += ["--feed", request.feed] if request.feed else []
        if owner is not None:
            info = self.session.connection.info
            arguments += ["--dsn", make_conninfo(host=info.host, port=info.port, dbname=info.dbname, user=owner)]
        return one_line(shlex.join(["inorder", "prepare", self.table.quoted, *arguments]))

    def run(self) -> None:
        connection = self.session.connection
        connection.keep_path(query("session_path"))
        for setting in untimed(connection.info.server_version, "SESSION"):
            connection.execute(setting)
        connection.execute(SETTINGS)
        if not self.planned():
            return
        self.say(f"table {self.table.shown} in database {one_line(self.table.database)}:")
        try:
            for number in attempts(self.request.tries):  # the next attempt resumes at the failed statement
                if self.try_all(last=number == self.request.tries):
                    return
        except BaseException:
            self.say(
                f"stopped; completed: {'; '.join(self.completed)}" if self.completed else "stopped; nothing was changed"
            )
            self.say("HINT:  The same command continues from here; with --undo, it reverts the completed statements.")
            raise

    def try_all(self, last: bool) -> bool:
        """Run one statement after another. Return False if a statement could not get a lock in time."""
        statement = ""
        try:
            for statement in self.statements():
                self.execute(statement)
                self.completed.append(statement)
        except psycopg.Error as error:
            if error.sqlstate not in BUSY:
                raise
            if last:
                raise InorderError(
                    f"gave up after {self.request.tries} tries: {first_line(error)}: {statement}\n"
                    f"HINT:  {self.holders()}"
                ) from error
            self.say(f"trying again: {first_line(error)}")
            return False
        return True

    def holders(self) -> str:
        """Return a hint with the sessions that hold locks on the table now."""
        rows = self.session.rows(query("prepare_holders"), table=self.table.oid)
        sessions = "; ".join(one_line(str(session)) for (session,) in rows)
        return f"Sessions with locks on the table: {sessions}." if rows else "The lock on the table was released since."

    def execute(self, statement: str) -> None:
        """Run a statement, with a lock_timeout if writers would queue behind it."""
        connection = self.session.connection
        self.session.check_name(self.table, "The completed statements have changed the renamed table.")
        wait_ms = 0 if is_concurrent(statement) else round(self.request.lock_timeout * 1000)
        connection.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(wait_ms)))
        self.say(statement)
        try:
            with self.progress(statement):
                connection.execute(statement.encode())
        except BaseException as error:
            if not isinstance(error, psycopg.Error):  # after an interrupt, the statement would go on
                with suppress(psycopg.Error):
                    connection.cancel_safe()
            raise

    @contextmanager
    def progress(self, statement: str) -> Iterator[None]:
        ended = Event()
        pid = self.session.connection.info.backend_pid

        def watch() -> None:
            with suppress(psycopg.Error), connect_as_user(self.request.dsn) as connection:
                while not ended.wait(PROGRESS_SECONDS):
                    row = connection.execute(query("prepare_progress").format(pid=sql.Literal(pid))).fetchone()
                    if row is not None:
                        self.say(f"  {row[0]}")

        watcher = Thread(target=watch, daemon=True)
        if statement.startswith("CREATE INDEX"):
            watcher.start()
        try:
            yield
        finally:
            ended.set()
            if watcher.ident is not None:
                watcher.join()


def prepare(request: Request, say: Callable[[str], None], kind: type[Session] = Session) -> str:
    """Prepare a table. Return the name of the table with its schema."""
    preparation = Preparation(request, say)
    once(request.dsn, preparation.attach, preparation.run, writes=True, kind=kind)
    return preparation.table.shown


def listed(request: Request, say: Callable[[str], None], kind: type[Session] = Session) -> list[str]:
    preparation = Preparation(request, say)
    return once(request.dsn, preparation.attach, preparation.planned, kind=kind)


def as_lines(notice: Diagnostic) -> str:
    """Format a server notice like the errors of this tool."""
    texts = {
        notice.severity_nonlocalized: notice.message_primary, "DETAIL": notice.message_detail,
        "HINT": notice.message_hint,
    }  # fmt: skip
    return "\n".join(f"{label}:  {one_line(text)}" for label, text in texts.items() if text)
