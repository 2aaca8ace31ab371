"""How a reader follows a shard that Citus has moved or split: it keeps the old place until that is read, then goes on.

Citus would remove the old place before it moves the next shard. A lock on the old table is enough, and one session for
all tables of a node: a rebalance that moves hundreds of shards would else take as many sessions.
"""

import psycopg

from inorder.citus.handover import NotReadableError, gone, handed_over
from inorder.citus.shards import Distributed, Shard, ShardSession, on_node
from inorder.connection.database import query
from inorder.connection.reconnect import report
from inorder.connection.session import Session
from inorder.errors import InorderError


class Moves:
    """The shards that are kept where they were: by group and key, in a transaction of one session with each node."""

    def __init__(self) -> None:
        self.sessions: dict[int, ShardSession] = {}
        self.keys: dict[int, set[str]] = {}
        self.reported: set[str] = set()

    def positions(
        self, known: Distributed, old: ShardSession, was: Shard, new: list[tuple[Shard, ShardSession]], *,
        is_frozen: bool, ends: bool,
    ) -> list[dict[str, object]] | None:  # fmt: skip
        """Positions in the new places of a shard, all of which was read where it was; None if it is too early.

        That is reported once by a run that stays, and an error of one that ends.
        """
        problem = InorderError(f"{was.place} was moved, and is still written to: try again")
        if is_frozen:
            try:
                return handed_over(known.session, known.table, old, was, new)
            except NotReadableError as error:
                problem = error
        if ends:
            raise problem
        if was.key not in self.reported:
            report(str(problem))
            self.reported.add(was.key)
        return None

    def followed(self, was: Shard, new: list[Shard]) -> None:
        """The reader has gone on: let go of the old place."""
        self.release(was)
        self.reported.discard(was.key)  # a shard that comes back here is another table
        report(f"{was.place} is read; going on with {', '.join(one.place for one in new)}")

    def keep(self, coordinator: Session, shard: Shard) -> None:
        """Lock a shard, unless it is; an error if it is gone."""
        session = self.session(coordinator, shard)
        if shard.key in self.keys[shard.group]:
            return
        try:
            with session.connection.transaction():  # a savepoint: an error must not release the others
                table = session.table(shard.table)
                session.connection.execute(session.statement(query("hold_type"), table=table.identifier))
        except psycopg.errors.UndefinedTable as error:
            raise gone(shard) from error
        self.keys[shard.group].add(shard.key)

    def session(self, coordinator: Session, shard: Shard) -> ShardSession:
        """The one with the node of a shard, in its transaction; another one if that was lost, and all locks with it."""
        if shard.group in self.sessions:
            try:
                self.sessions[shard.group].connection.execute("SELECT")
            except psycopg.Error:
                self.leave(shard.group)
            else:
                return self.sessions[shard.group]
        session = on_node(coordinator, shard)
        try:
            session.connection.execute(session.message(session.begin("READ COMMITTED"), query("session_settings")))
        except BaseException:
            session.close()
            raise
        self.sessions[shard.group], self.keys[shard.group] = session, set()
        return session

    def release(self, shard: Shard) -> None:
        """A shard that was read. Its lock goes with the last one on the node."""
        keys = self.keys.get(shard.group, set())
        keys.discard(shard.key)
        if not keys:
            self.leave(shard.group)

    def leave(self, group: int) -> None:
        self.keys.pop(group, None)
        session = self.sessions.pop(group, None)
        if session is not None:
            session.close()

    def close(self) -> None:
        for group in list(self.sessions):
            self.leave(group)
