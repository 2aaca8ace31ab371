"""The shards of a distributed Citus table according to the coordinator, and sessions on their nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from inorder.connection.database import query
from inorder.connection.session import Session, Table, explained
from inorder.errors import InputError
from inorder.text import one_line, quoted

COORDINATOR = 0  # the group of the coordinator, and of no other node
ANEW = "HINT:  Start with a new position."
HASH = "h"  # partmethod in pg_dist_partition for a table distributed by hash
# Prefixes of libpq parameters that apply to a single host.
OF_ONE_HOST = ("hostaddr", "password", "gssdelegation", "oauth_client", "scram_")
# Citus hides shards in pg_class from unknown applications, and treats LOCK TABLE as a change of a shard.
SETTINGS: tuple[LiteralString, ...] = (
    "SET LOCAL citus.override_table_visibility = off",
    "SET LOCAL citus.enable_manual_changes_to_shards = on",
)


@dataclass(frozen=True)
class Shard:
    """A part of a distributed table: a table on a node. ``low`` and ``high`` are the bounds of the hash of a column."""

    id: int
    table: str  # the quoted table name with its schema
    group: int  # group of the node; if a server replaces the node, the group stays
    host: str
    port: int
    low: int | None = None  # lower bound of the hash; None if the table's shards are never split
    high: int | None = None

    @property
    def key(self) -> str:
        """The key of a shard on a node, built from its shard id and group.

        The key changes if the shard is moved, but not if its node is replaced.

        >>> Shard(102008, "public.t_102008", 2, "w2", 5432).key
        '102008@2'
        """
        return f"{self.id}@{self.group}"

    @property
    def place(self) -> str:
        return f"shard {self.id} on {self.node}"

    @property
    def node(self) -> str:
        return f"{one_line(self.host)}:{self.port}"

    def holds(self, other: "Shard") -> bool:
        """Return whether the other shard has rows that were in this shard.

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
    """A session on the node of a shard, with settings that make Citus show the shard."""

    settings = SETTINGS

    def hint_of_name(self, name: str) -> str:
        """Return no hint: users do not type shard names, and the callers handle the error for a moved shard."""
        return ""


class Distributed:
    def __init__(self, session: Session, name: str) -> None:
        self.session = session
        self.table: Table = session.table(name)
        (is_citus,) = session.row(query("citus_is_there"))
        if not is_citus:
            raise InputError(f"the database {quoted(self.table.database)} has no extension citus: {name} has no shards")

    def shard_name(self, number: int) -> str:
        """Return the name of the shard table with this id, even if the shard was split."""
        (name,) = self.session.row(query("citus_shard_name"), table=self.table.oid, shard=number)
        return str(name)

    def nodes(self) -> dict[int, tuple[str, int]]:
        """Return host and port of each node by group, including nodes without a shard of the table."""
        rows = self.session.rows(query("citus_nodes"))
        return {group: (host, port) for group, host, port in rows}

    def shards(self) -> list[Shard]:
        rows = self.session.rows(query("citus_shards"), table=self.table.oid)
        if not rows:
            raise InputError(
                f"table {self.table.shown} is not distributed: it has no shards\n"
                "HINT:  Omit --shards, or the option shards. inorder citus is only for distributed tables."
            )
        shards = [
            Shard(*row, *((None, None) if method != HASH or low is None else (int(low), int(high))))
            for *row, method, low, high in rows
        ]
        if len({shard.id for shard in shards}) < len(shards):
            raise InputError(
                f"each shard of table {self.table.shown} is on several nodes, as in a reference table\n"
                "HINT:  Each node has all rows of the table: on one node, read the shard as a table of that node."
            )
        return shards


def successors(earlier: Mapping[str, Shard], listed: Sequence[Shard]) -> dict[str, list[Shard]]:
    """Return the earlier shards that no longer exist, each with the shards that replaced it.

    >>> whole, half = Shard(1, "t_1", 1, "a", 5432, 0, 9), Shard(2, "t_2", 2, "b", 5432, 0, 4)
    >>> rest = Shard(3, "t_3", 1, "a", 5432, 5, 9)
    >>> [shard.key for shard in successors({whole.key: whole}, [half, rest])["1@1"]]
    ['2@2', '3@1']
    """
    present = {shard.key for shard in listed}
    new_shards = [shard for shard in listed if shard.key not in earlier]
    replacements = {
        key: [successor for successor in new_shards if shard.holds(successor)]
        for key, shard in earlier.items()
        if key not in present
    }
    for shard in new_shards:
        if not any(shard in replacing for replacing in replacements.values()):
            raise InputError(
                f"{shard.place} does not replace a shard that was read: the table was distributed again\n{ANEW}"
            )
    for key, replacing in replacements.items():
        if not replacing:
            raise InputError(f"{earlier[key].place} is no longer a shard of the table\n{ANEW}")
    return replacements


@dataclass(frozen=True)
class Node:
    """The address of a node, for a session with the coordinator's parameters. The coordinator's host is None."""

    host: str | None
    port: int
    database: str
    user: str

    def dsn(self, coordinator: str) -> str:
        """Return the coordinator's connection string, redirected to the node.

        An empty hostaddr or password in the string overrides the environment. All nodes get the parameters from libpq's
        environment and files. The host comes from the coordinator's catalog, and is not trusted: it gets no password,
        except a password that the user has stored for this host in the password file.
        """
        if self.host is None:
            return coordinator
        parameters = {
            name: value for name, value in conninfo_to_dict(coordinator).items() if not name.startswith(OF_ONE_HOST)
        }
        return make_conninfo("", **parameters | {
            "host": self.host, "port": self.port, "hostaddr": "", "dbname": self.database, "user": self.user,
            "password": "",
        })  # fmt: skip


def node_of(session: Session, shard: Shard) -> Node:
    info = session.connection.info
    return Node(None if shard.group == COORDINATOR else shard.host, shard.port, info.dbname, info.user)


def node_dsn(session: Session, shard: Shard) -> str:
    return node_of(session, shard).dsn(session.dsn)


def on_node(session: Session, shard: Shard, writes: bool = False) -> ShardSession:
    """Open a session on the node of a shard. Errors name the node."""
    try:
        return ShardSession(node_dsn(session, shard), writes)
    except InputError as error:
        raise InputError(f"{shard.place}: {error}") from error
    except psycopg.Error as error:
        if "no password supplied" in str(error):
            raise InputError(
                f"{shard.place} asks for a password, and the coordinator's password is not sent to other hosts\n"
                "HINT:  Add a line for this host and port to the password file (~/.pgpass)."
            ) from error
        if isinstance(error, psycopg.OperationalError):
            raise  # a retry may succeed
        raise explained(error) from error
