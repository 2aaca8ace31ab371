"""Where a reader goes on when Citus has moved a shard to another node, or split it.

Citus copies the rows, and the new place computes their numbers anew. The old table stays for a while, and nobody writes
to it. So the reader reads all of it. Then it finds the transactions of the new place that have copied rows. Each
transaction either copies rows, or inserts rows that are only there. One row of each, looked up in the old table by its
primary key, shows which. All others have not been read.
"""

import json
from dataclasses import dataclass
from itertools import islice

from psycopg import sql

from inorder.citus.shards import Shard, ShardSession
from inorder.database import query
from inorder.errors import InputError
from inorder.session import Session, Table

LOOKED_UP = 1000  # rows in one query


@dataclass(frozen=True)
class Seen:
    """A transaction that has rows in a shard, how many, and the primary key of one of them, as JSON."""

    number: int
    rows: int
    key: str


def is_frozen(node: ShardSession, shard: Shard) -> bool:
    """Whether nobody writes to a shard that Citus has moved away: what began before may still have to be committed."""
    (writers,) = node.row(query("tail_shard_writers"), table=node.table(shard.table).oid)
    return not writers


def handed_over(
    coordinator: Session, table: Table, old: ShardSession, was: Shard, new: list[tuple[Shard, ShardSession]]
) -> list[dict[str, object]]:
    """Positions in the new shards after which nothing comes that was in the old one, all of which was read."""
    column = number_column(coordinator, table)
    place = old.table(was.table)
    key = key_columns(old, place)
    if not key:
        raise InputError(
            f"{was.place} was moved or split, and has no primary key by which rows that were read are known\n"
            "HINT:  Start with a new position."
        )
    positions, copied = [], 0
    for shard, node in new:
        found = node.table(shard.table)
        (position,) = node.row(query("tail_start"), table=found.oid, start="now", order_by=None)
        assert isinstance(position, dict)
        seen = transactions(node, found, column, key, position["transactions"])
        fresh = not_in(old, place, key, seen)
        copied += sum(one.rows for one in seen) - sum(one.rows for one in fresh)
        (left,) = node.row(
            query("tail_without"), transactions=position["transactions"], numbers=[one.number for one in fresh]
        )
        positions.append(position | {"transactions": left})
    check_copied(old, place, was, copied)
    return positions


def number_column(coordinator: Session, table: Table) -> str:
    """The generated column with the number."""
    rows = coordinator.rows(query("citus_column"), table=table.oid, schema=coordinator.schema_name, column=None)
    names = [str(name) for name, is_generated, _ in rows if is_generated]
    if len(names) != 1:
        raise InputError(f"table {table.quoted} has {len(names)} generated columns with transaction numbers, not one")
    return names[0]


def key_columns(node: ShardSession, table: Table) -> list[str]:
    """Those of the primary key."""
    return [str(name) for (name,) in node.rows(query("tail_key_columns"), table=table.oid)]


def transactions(node: ShardSession, table: Table, column: str, key: list[str], ended: object) -> list[Seen]:
    """Those of a set that have rows in a shard."""
    rows = node.rows(
        query("tail_shard_numbers"), relation=table.identifier, column=sql.Identifier(column), transactions=ended,
        key=sql.SQL(", ").join(sql.SQL("{}, e.{}").format(name, sql.Identifier(name)) for name in key),
    )  # fmt: skip
    return [Seen(int(str(number)), int(str(amount)), str(one)) for number, amount, one in rows]


def not_in(old: ShardSession, table: Table, key: list[str], seen: list[Seen]) -> list[Seen]:
    """Those whose row is not in the old table."""
    same = sql.SQL(" AND ").join(sql.SQL("e.{0} = r.{0}").format(sql.Identifier(name)) for name in key)
    fresh: list[Seen] = []
    rest = iter(seen)
    while some := list(islice(rest, LOOKED_UP)):
        keys = json.dumps([json.loads(one.key) for one in some])
        rows = old.rows(query("tail_shard_has"), relation=table.identifier, keys=keys, same=same)
        there = {int(str(place)) for (place,) in rows}
        fresh += [one for place, one in enumerate(some, 1) if place not in there]
    return fresh


def check_copied(old: ShardSession, table: Table, was: Shard, copied: int) -> None:
    """Error unless the transactions that have copied rows have these rows and no other."""
    (rows,) = old.row(query("tail_shard_rows"), relation=table.identifier)
    if rows != copied:
        raise InputError(
            f"{was.place} has {rows:,} rows, and the transactions that have copied them have {copied:,}: it was moved "
            "again before it was read, or rows were deleted before the new place had a guard\n"
            "HINT:  Start with a new position, or read the shards as tables of their nodes."
        )
