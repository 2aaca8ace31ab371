"""The shards of a table that Citus has distributed, as the coordinator knows them, and sessions on their nodes."""

from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from inorder.database import query
from inorder.errors import InputError
from inorder.session import Session, Table, explained

COORDINATOR = 0  # its group; every other node has another
HASH = "h"  # distributed by the hash of a column
# Citus hides shards in pg_class from applications that it does not know, and takes LOCK TABLE for a change of a shard.
SHOW_SHARDS = sql.SQL(
    "SET LOCAL citus.override_table_visibility = off; SET LOCAL citus.enable_manual_changes_to_shards = on;\n"
)


@dataclass(frozen=True)
class Shard:
    """A part of a distributed table: a table on one node. Rows lie in it by the hash of a column, if at all."""

    id: int
    table: str  # with its schema, quoted
    group: int  # of the node: it stays if another server takes the place of the node
    host: str
    port: int
    low: int | None = None  # of the hash; None where a shard is never split
    high: int | None = None

    @property
    def place(self) -> str:
        """For people."""
        return f"shard {self.id} on {self.host}:{self.port}"

    def holds(self, other: "Shard") -> bool:
        """Whether the rows of the other one were in this one.

        >>> whole = Shard(1, "public.t_1", 1, "a", 5432, 0, 9)
        >>> [whole.holds(Shard(2, "public.t_2", 1, "a", 5432, *part)) for part in ((0, 4), (5, 9), (10, 19))]
        [True, True, False]
        >>> whole.holds(Shard(1, "public.t_1", 2, "b", 5432, 0, 9))
        True
        """
        if self.id == other.id:
            return True
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return False
        return self.low <= other.low and other.high <= self.high


class ShardSession(Session):
    """A session on the node of a shard, to which Citus shows it."""

    first = SHOW_SHARDS


class Distributed:
    """A table that Citus has distributed, in a session on the coordinator."""

    def __init__(self, session: Session, name: str) -> None:
        self.session = session
        self.table: Table = session.table(name)
        (is_citus,) = session.row(query("citus_is_there"))
        if not is_citus:
            raise InputError(f"the database '{self.table.database}' has no extension citus: {name} has no shards")

    def shards(self) -> list[Shard]:
        """All of them, in the order of their ids."""
        rows = self.session.rows(query("citus_shards"), table=self.table.oid)
        if not rows:
            raise InputError(
                f"table {self.table.quoted} is not distributed: leave out the option, or the command, for shards"
            )
        found = [shard_of(row) for row in rows]
        if len({shard.id for shard in found}) < len(found):
            raise InputError(
                f"table {self.table.quoted} has shards on several nodes at once, as a reference table has\n"
                "HINT:  Each node has all of its rows: read the shard on one of them as a table of that node."
            )
        return found


def shard_of(row: tuple[object, ...]) -> Shard:
    """A row of the coordinator's catalogs."""
    number, table, group, host, port, method, low, high = row
    bounds = (None, None) if method != HASH or low is None else (int(str(low)), int(str(high)))
    return Shard(int(str(number)), str(table), int(str(group)), str(host), int(str(port)), *bounds)


def node_dsn(session: Session, shard: Shard) -> str:
    """The connection string of a session on the coordinator, led to the node of a shard.

    An empty hostaddr keeps that of the environment away. What the string leaves out comes from libpq's environment and
    files, for every node.
    """
    info = session.connection.info
    if shard.group == COORDINATOR:
        return session.dsn
    given = {name: value for name, value in conninfo_to_dict(session.dsn).items() if name != "hostaddr"}
    return make_conninfo("", **given | {
        "host": shard.host, "port": shard.port, "hostaddr": "", "dbname": info.dbname, "user": info.user,
    })  # fmt: skip


def on_node(session: Session, shard: Shard, writes: bool = False) -> ShardSession:
    """A session on the node of a shard; errors say which."""
    try:
        return ShardSession(node_dsn(session, shard), writes)
    except InputError as error:
        raise InputError(f"{shard.place}: {error}") from error
    except psycopg.Error as error:
        if isinstance(error, psycopg.OperationalError):
            raise  # it may come back
        raise explained(error) from error
