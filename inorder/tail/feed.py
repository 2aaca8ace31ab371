"""A feed as a source of batches. The database stores the position of a feed, and numbers its batches."""

from collections.abc import Generator
from socket import socket
from typing import Any

import psycopg
from psycopg import sql

from inorder.connection.database import ServerRow, literal, query
from inorder.connection.patience import CONFLICTS
from inorder.connection.reconnect import InUseError
from inorder.connection.session import Session, Table
from inorder.connection.unsent import rows_of
from inorder.errors import InorderError, InputError
from inorder.files import awaited, host_lock
from inorder.tail.formats import FORMATS
from inorder.tail.request import Request
from inorder.tail.rows import arrow_of, changed
from inorder.tail.source import Batch, Source
from inorder.tail.state import Mark
from inorder.text import did_you_mean, quoted


class FeedSource(Source):
    def __init__(self, request: Request) -> None:
        self.name, self.owner, self.max_rows = request.feed, request.owner, request.batch_rows
        self.form, self.arrow = FORMATS[request.output], arrow_of(request)
        self.delivered: int | None = None
        self.token: int | None = None
        self.held: socket | None = None

    def lock(self) -> int:
        """Return the descriptor of a lock on this host.

        Commands inherit the lock. If this process is killed while its command is running, the database session ends,
        and with it the session's claim to the feed. The lock still excludes other runs on this host until the command
        exits.
        """
        assert self.held is not None
        return self.held.fileno()

    def attach(self, session: Session) -> None:
        self.session = session
        feed = ", ".join(literal(value) for value in (self.name, "here", self.owner) if value)
        session.table_acceptance = f"call feed_seek({feed})"
        rows = session.rows(query("tail_feed"), name=self.name, owner=self.owner)
        if not rows:
            owner = self.owner or session.connection.info.user
            names = {str(name): str(name) for (name,) in session.rows(query("feed_names"))}
            of_another = "--owner ROLE names the owner of a feed of another role."
            hint = of_another if self.name in names else did_you_mean(str(self.name), names) or of_another
            raise InputError(
                f"feed {quoted(self.name)} of role {quoted(owner)} does not exist, or this role may not see it\n"
                f"HINT:  {hint}"
            )
        (row,) = rows
        if not row[-1]:
            raise InUseError(f"feed {quoted(self.name)} is in use by another inorder tail")
        self.table = Table(*row[:5])
        self.owner_oid, self.is_ordered, _ = row[5:]
        if self.held is None:
            self.held = self.taken(session)

    def taken(self, session: Session) -> socket:
        server = session.connection.info
        key = f"feed {server.host}:{server.port} {self.table.database} {self.owner_oid} {self.name}"
        try:
            return awaited(lambda: host_lock(key.encode()))
        except BlockingIOError:
            raise InorderError(
                f"feed {quoted(self.name)} is in use by a command that another inorder tail started"
            ) from None

    def ask(self, text: str, **parts: object) -> ServerRow:
        return self.session.row(query(text), name=self.name, owner=self.owner_oid, **parts)

    def next(self) -> Batch | None:
        """Return the unfinished batch, or else the next batch.

        If the connection was lost after a batch was delivered, finish that batch first.
        """
        number, self.token = self.ask("tail_feed_batch", max_rows=self.max_rows)
        if number is not None and number == self.delivered:
            self.finish(Batch(number), None)
            return self.next()
        full = self.max_rows if self.delivered else 0
        return None if number is None else Batch(number, full=full, is_part=bool(self.is_ordered))

    def rows(self, batch: Batch) -> Generator[Any, None, None]:
        try:
            yield from self.read(batch)
        except psycopg.Error as error:
            # The table may have been renamed. The next attempt reads it under its new name.
            if error.sqlstate in CONFLICTS and not self.session.connection.closed:
                self.session.connection.rollback()
                self.attach(self.session)
            raise

    def read(self, batch: Batch) -> Generator[Any, None, None]:
        parts = {"name": self.name, "batch": batch.batch, "table": self.table.identifier, "owner": self.owner_oid}
        rows = self.session.statement(query("tail_feed_rows"), **parts)
        if self.arrow is not None:
            yield from self.arrow.rows(self.session, self.table, lambda _: rows)
            return
        stream = self.session.held(self.table, self.form.wanted(self.table))
        if not (answer := stream.begin()):
            raise changed(self.session, self.table)
        text = self.form.copy(answer, rows)
        stream.send(self.session.message(text, sql.SQL("COMMIT")))
        yield from rows_of(stream, self.session, self.table, rows)

    def finish(self, batch: Batch, output: Mark | None) -> None:
        assert isinstance(batch.batch, int)
        self.delivered = batch.batch
        self.ask("tail_feed_finish", batch=batch.batch, token=self.token)

    def wait(self) -> None:
        self.session.waited(query("tail_feed_wait"), name=self.name, owner=self.owner_oid)

    def close(self) -> None:
        super().close()
        if self.held is not None:
            self.held.close()
