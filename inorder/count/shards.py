"""The counts of all shards of a table that Citus has distributed, added up."""

from contextlib import closing, suppress

import psycopg
from psycopg import sql

from inorder.citus.shards import Distributed, Shard, on_node
from inorder.connection.patience import attempts
from inorder.connection.session import Session, explained
from inorder.count.counter import FOLD, SHOW, STOP, Counter
from inorder.errors import InorderError, InputError

TRIES = 5


class ShardsCounter(Counter):
    """The count of one table, in a session on the coordinator: each shard is counted on its node."""

    def attach(self, session: Session) -> None:
        self.session = session
        self.distributed = Distributed(session, self.name)
        self.table = self.distributed.table

    def ask(self, statement: sql.SQL) -> int:
        """The sum over all shards, if they were the same before and afterwards: a copy of a row is none of its own.

        A fold is not asked for twice: what it has added before shards were moved is part of the sum.
        """
        found: dict[str, int] = {}
        for _ in attempts(TRIES):
            shards = self.distributed.shards()
            if statement is not FOLD:
                found.clear()
            with suppress(psycopg.errors.UndefinedTable):  # one that was moved away in this moment
                for shard in shards:
                    found[shard.key] = found.get(shard.key, 0) + self.ask_shard(shard, statement)
                if self.distributed.shards() == shards:
                    return sum(found[shard.key] for shard in shards)
        raise InorderError(f"the shards of {self.table.shown} were moved during each of {TRIES} counts: try again")

    def ask_shard(self, shard: Shard, statement: sql.SQL) -> int:
        with closing(on_node(self.session, shard, writes=statement is not SHOW)) as node:
            try:
                (number,) = node.row(statement, table=node.table(shard.table).oid)
            except psycopg.errors.ObjectNotInPrerequisiteState as error:
                if statement is STOP:
                    return 0  # of one that was moved, and has none
                raise InputError(
                    f"{shard.place}: {explained(error)}\n"
                    f"HINT:  After a shard was moved or split: inorder citus {self.name}, and count --shards --start."
                ) from error
        return int(str(number)) if number else 0
