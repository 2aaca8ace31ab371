"""Query the exact count of a table."""

from contextlib import closing, suppress
from datetime import datetime

import click
import psycopg
from psycopg import sql

from inorder.citus.shards import Distributed, Shard, on_node
from inorder.connection.database import query
from inorder.connection.patience import attempts
from inorder.connection.session import Session, Table, explained
from inorder.errors import InorderError, InputError

TABLE = "{table}::pg_catalog.oid::pg_catalog.regclass"
SHOW = sql.SQL(f"SELECT {{inorder}}.exact_count({TABLE})")
START = sql.SQL(f"SELECT {{inorder}}.exact_count_start({TABLE}, NULL::pg_catalog.name)")
FOLD = sql.SQL(f"SELECT {{inorder}}.exact_count_fold({TABLE})")
STOP = sql.SQL(f"SELECT {{inorder}}.exact_count_stop({TABLE})::pg_catalog.text")


class Counter:
    def __init__(self, name: str) -> None:
        self.name = name

    def attach(self, session: Session) -> None:
        self.session = session
        self.table: Table = session.table(self.name)

    def ask(self, statement: sql.SQL) -> int:
        (number,) = self.session.row(statement, table=self.table.oid)
        return int(number) if number else 0

    def fold(self) -> None:
        self.session.check_name(self.table)
        if rows := self.ask(FOLD):
            click.echo(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {self.table.shown}  +{rows:,} rows", err=True)

    def cron(self, schedule: str) -> str:
        parts = {"table": self.table.quoted, "schema": self.session.schema_name, "schedule": schedule}
        (line,) = self.session.row(query("count_cron"), **parts)
        return str(line)


TRIES = 5


class ShardsCounter(Counter):
    """The count of a distributed table, from a session on the coordinator. Each shard is counted on its node."""

    def attach(self, session: Session) -> None:
        self.session = session
        self.distributed = Distributed(session, self.name)
        self.table = self.distributed.table

    def ask(self, statement: sql.SQL) -> int:
        """Return the sum over all shards.

        If a shard was moved in the meantime, compute the sum again, because that shard could be counted twice. For a
        fold, the sum includes the rows that earlier attempts have added to the counts of other shards.
        """
        counts: dict[str, int] = {}
        for _ in attempts(TRIES):
            shards = self.distributed.shards()
            if statement is not FOLD:
                counts.clear()
            with suppress(psycopg.errors.UndefinedTable):  # a shard was moved meanwhile
                for shard in shards:
                    counts[shard.key] = counts.get(shard.key, 0) + self.ask_shard(shard, statement)
                if self.distributed.shards() == shards:
                    return sum(counts[shard.key] for shard in shards)
        raise InorderError(f"the shards of {self.table.shown} were moved during each of {TRIES} counts: try again")

    def ask_shard(self, shard: Shard, statement: sql.SQL) -> int:
        with closing(on_node(self.session, shard, writes=statement is not SHOW)) as node:
            try:
                (number,) = node.row(statement, table=node.table(shard.table).oid)
            except psycopg.errors.ObjectNotInPrerequisiteState as error:
                if statement is STOP:
                    return 0  # a moved shard has no count
                raise InputError(
                    f"{shard.place}: {explained(error)}\n"
                    f"HINT:  After a shard was moved or split, run inorder citus {self.name}, then "
                    f"inorder count start --shards {self.name}."
                ) from error
        return int(number) if number else 0


def counter_of(table: str, shards: bool) -> Counter:
    return ShardsCounter(table) if shards else Counter(table)
