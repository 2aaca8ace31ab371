"""The statements that prepare a table, one after the other; none of them keeps writers waiting for long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread

import psycopg
from psycopg import sql

from inorder.connection.database import connect_as_user, query, untimed
from inorder.connection.patience import attempts
from inorder.connection.reconnect import once
from inorder.connection.session import Session, first_line
from inorder.errors import InorderError, InputError
from inorder.text import one_line

# What a statement needs that others hold for a while: waiting on would keep all who come after it waiting, too.
BUSY = ("55P03", "40P01", "40001")
PROGRESS_SECONDS = 10.0
FEED_FUNCTIONS = ["feed_enable", "feed_disable", "feed_guard", "xact_id"]
CHANGES_FUNCTIONS = ["changes_enable", "changes_disable", "feed_create"]
# Nothing of a session is left to the defaults of the role or of the database.
SETTINGS = "SET default_transaction_isolation = 'read committed'; SET idle_session_timeout = 0"


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
    feed: str | None = None  # of the changes


def is_concurrent(statement: str) -> bool:
    """Whether it waits for writers without keeping anybody waiting, so that it may wait as long as it likes.

    >>> is_concurrent("CREATE INDEX CONCURRENTLY a ON b"), is_concurrent("ANALYZE t")
    (True, False)
    """
    return statement.startswith(("CREATE INDEX CONCURRENTLY ", "DROP INDEX CONCURRENTLY "))


class Preparation:
    def __init__(self, request: Request, say: Callable[[str], None]) -> None:
        self.request, self.say = request, say
        self.done: list[str] = []

    def attach(self, session: Session) -> None:
        self.session, self.table = session, session.table(self.request.table)

    def tell(self, statements: list[str]) -> None:
        """What the statement that adds the column does not say: whether existing rows can be read in pieces."""
        if not statements[0].startswith("ALTER TABLE ") or self.session.rows(
            query("prepare_key"), table=self.table.oid
        ):
            return
        self.say(
            f"WARNING:  table {self.table.shown} has no primary key: feeds will read its existing rows as one piece"
        )
        self.say("HINT:  Add one before, or create feeds with start 'now'.")

    def statements(self) -> list[str]:
        parts = {"table": self.table.oid, "column": self.request.column}
        if self.request.changes:
            rows = self.session.rows(
                query("prepare_changes"), schema=self.session.schema_name, quoted=self.table.quoted,
                undo=self.request.undo, feed=self.request.feed, table=self.table.oid,
            )  # fmt: skip
        elif self.request.undo:
            rows = self.session.rows(
                query("prepare_undo"), schema=self.session.schema_name, quoted=self.table.quoted,
                drop_column=self.request.drop_column, **parts,
            )  # fmt: skip
        else:
            rows = self.session.rows(query("prepare_steps"), **parts)
        return [str(row[0]) for row in rows]

    def require_privileges(self, statements: list[str]) -> None:
        """An error that names every privilege that one of them needs and the role lacks, before the first one."""
        makes_log = self.request.changes and not self.request.undo
        rows = self.session.rows(
            query("prepare_lacks"), table=self.table.oid, schema=self.session.schema_name,
            creates=any(statement.startswith("CREATE INDEX") for statement in statements) or makes_log,
            functions=CHANGES_FUNCTIONS if self.request.changes else FEED_FUNCTIONS,
        )  # fmt: skip
        if rows:
            raise InputError(
                f"table {self.table.shown} cannot be prepared by this role, which lacks: "
                f"{one_line('; '.join(str(row[0]) for row in rows))}\nHINT:  Nothing was done."
            )

    def run(self) -> None:
        """All of them, or a word about what is done."""
        connection = self.session.connection
        connection.keep_path(query("session_path"))
        for setting in untimed(connection.info.server_version, "SESSION"):
            connection.execute(setting)
        connection.execute(SETTINGS)
        statements = self.statements()
        self.require_privileges(statements)
        self.tell(statements)
        try:
            for number in attempts(self.request.tries):  # what was interrupted or given up begins where it stopped
                if self.try_all(last=number == self.request.tries):
                    return
        except BaseException:
            self.say(f"stopped; done, and kept: {'; '.join(self.done) or 'nothing'}")
            self.say("HINT:  The same command continues there. With --undo it takes back what is done.")
            raise

    def try_all(self, last: bool) -> bool:
        """One after the other; false if one was given up since others held what it needs."""
        for statement in self.statements():
            try:
                self.execute(statement)
            except psycopg.Error as error:
                if error.sqlstate not in BUSY:
                    raise
                if last:
                    raise InorderError(
                        f"gave up after {self.request.tries} tries: {first_line(error)}: {statement}\n"
                        "HINT:  See pg_locks for who holds the table."
                    ) from error
                self.say(f"trying again: {first_line(error)}")
                return False
            self.done.append(statement)
        return True

    def execute(self, statement: str) -> None:
        """One of them, with a lock_timeout where writers would wait behind it."""
        connection = self.session.connection
        wait_ms = 0 if is_concurrent(statement) else round(self.request.lock_timeout * 1000)
        connection.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(wait_ms)))
        self.say(statement)
        try:
            with self.progress(statement):
                connection.execute(statement.encode())
        except BaseException as error:
            if not isinstance(error, psycopg.Error):  # the server would go on to the end
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


def prepare(request: Request, say: Callable[[str], None], kind: type[Session] = Session) -> None:
    preparation = Preparation(request, say)
    once(request.dsn, preparation.attach, preparation.run, writes=True, kind=kind)


def listed(request: Request, say: Callable[[str], None], kind: type[Session] = Session) -> list[str]:
    preparation = Preparation(request, say)

    def told() -> list[str]:
        statements = preparation.statements()
        preparation.tell(statements)
        return statements

    return once(request.dsn, preparation.attach, told, kind=kind)
