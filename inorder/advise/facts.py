"""Read facts about the tables of a database in READ ONLY transactions, and list the facts that could not be read.

The statements use only the server's own objects, pg_stat_statements if a trusted role owns its schema and, with
--sample, tables of trusted roles. Names, defaults and statements from the database are data that is never executed.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import inf
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from inorder.advise.polls import Understood
from inorder.connection.database import UserConnection, connect_as_user, identifier, query
from inorder.connection.session import first_line, in_words
from inorder.sources import installer
from inorder.text import first_of, listed, plural
from inorder.units import time_text

SETTINGS = sql.SQL(
    "SET LOCAL statement_timeout = '60s'; SET LOCAL lock_timeout = '1s'; SET LOCAL jit = off; "
    "SET LOCAL default_transaction_read_only = on; SET LOCAL standard_conforming_strings = on; "
    # with stale statistics, a nested loop would scan a catalog once for each table
    "SET LOCAL enable_nestloop = off; "
)
Part = TypeVar("Part")
COUNTERS = ("inserted", "updated", "hot", "deleted")
SAMPLED_PAGES = 50
UUID_TYPES, TEXT_TYPES = ("uuid",), ("text", "varchar", "bpchar")
LEAST_ROWS = 1000  # tables with fewer rows are not examined
NAMED = 3  # maximum number of tables named in a sentence
PARSER = "pglast"
MOVE = "CREATE SCHEMA monitoring; ALTER EXTENSION pg_stat_statements SET SCHEMA monitoring"


@dataclass(frozen=True)
class IndexFacts:
    name: str
    method: str
    is_primary: bool
    first: int
    columns: int
    pages: float


@dataclass(frozen=True)
class ColumnFacts:
    number: int
    name: str
    type: str
    makers: list[str]
    cached: int | None
    sequence: list[str] | None


@dataclass
class Statistic:
    number: int
    distinct_values: float = 0.0
    correlation: float | None = None
    width: int = 0
    values: list[str] = field(default_factory=list)


@dataclass
class Leaf:
    """A table or a partition. ``schema`` and ``name`` belong to the table, or to the partitioned table.

    facts_of() replaces the row counters with rates.
    """

    leaf: int
    leaf_schema: str
    leaf_name: str
    schema: str
    name: str
    is_logged: bool
    pages: float
    rows: float
    toast_pages: float
    inserted: float
    updated: float
    hot: float
    deleted: float
    is_trusted: bool
    indexes: list[IndexFacts] = field(default_factory=list)
    columns: dict[int, ColumnFacts] = field(default_factory=dict)
    statistics: dict[int, Statistic] = field(default_factory=dict)
    counted: dict[str, float] = field(default_factory=dict)  # the row counts from which the rates are computed

    @property
    def quoted(self) -> str:
        return identifier(self.schema, self.name)

    @property
    def key(self) -> tuple[IndexFacts, ColumnFacts] | None:
        primary = next((index for index in self.indexes if index.is_primary), None)
        column = self.columns.get(primary.first) if primary else None
        return (primary, column) if primary and column and column.type in (*UUID_TYPES, *TEXT_TYPES) else None

    def column(self, name: str) -> ColumnFacts | None:
        return next((column for column in self.columns.values() if column.name == name), None)

    def statistic(self, column: ColumnFacts) -> Statistic:
        return self.statistics.get(column.number) or Statistic(column.number)


@dataclass(frozen=True)
class ServerFacts:
    version: int
    version_text: str
    database: str
    is_standby: bool
    cache_bytes: float
    checkpoint_timeout: float
    has_images: bool
    sees_all: bool
    seconds: float | None
    wal: float | None  # bytes per day
    inorder: str | None
    is_sql_edition: bool = False


@dataclass(frozen=True)
class Statement:
    """A statement, its counters since pg_stat_statements was reset, and its classification."""

    text: str
    calls: float
    seconds: float
    rows: float
    images: float
    classification: Understood


@dataclass
class Facts:
    server: ServerFacts
    seconds: float  # the period in which rows were counted
    counted: str  # this period in words
    checkpoint: float
    leaves: list[Leaf]
    statements: list[Statement]
    unseen: list[str]
    over: float | None = None  # the period that --over requested


class Reader:
    def __init__(self, connection: UserConnection) -> None:
        self.connection, self.unseen = connection, list[str]()
        connection.settings = SETTINGS + query("session_settings")
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        connection.read_only = True

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Cursor[dict[str, Any]]]:
        """Open a read-only transaction that never waits long for a lock, and sees only the server's own objects."""
        with self.connection.transaction(), self.connection.cursor(row_factory=dict_row) as cursor:
            yield cursor

    def rows(self, name: str, **parts: sql.Composable) -> list[dict[str, Any]]:
        with self.transaction() as cursor:
            return cursor.execute(query(name).format(**parts) if parts else query(name)).fetchall()

    def rows_if_seen(self, subject: str, name: str, **parts: sql.Composable) -> list[dict[str, Any]]:
        """Run a query. If the server refuses it, return no rows, and add ``subject`` to ``unseen``."""
        try:
            return self.rows(name, **parts)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable, psycopg.errors.QueryCanceled,
                psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.LockNotAvailable) as error:  # fmt: skip
            self.unseen.append(f"{subject}: {first_line(error)}")
            return []

    def home(self) -> tuple[str | None, bool]:
        """Return the schema of inorder, and whether it is the SQL edition.

        The schema is None if inorder is not installed, and "" if the role does not trust its owner.
        """
        if schemas := self.rows("extension_schema"):
            return schemas[0]["nspname"], False
        if schemas := self.rows("sql_edition_schema"):
            return schemas[0]["nspname"], True
        if schemas := self.rows("edition_other"):
            owner = listed([identifier(schemas[0]["owner"])])
            self.unseen.append(
                f"inorder: its schema {listed([schemas[0]['quoted']])} belongs to {owner}, who could replace inorder; "
                f"HINT: Run inorder advise as {owner}."
            )
            return "", False
        return None, False

    def leaves(self) -> list[Leaf]:
        tables = self.rows("advise_tables")
        leaves = {row["leaf"]: Leaf(**row, counted={name: row[name] for name in COUNTERS}) for row in tables}

        def parts(kind: type[Part], rows: list[dict[str, Any]]) -> list[tuple[Leaf, Part]]:
            return [(leaves[leaf], kind(**row)) for row in rows if (leaf := row.pop("leaf")) in leaves]

        for leaf, index in parts(IndexFacts, self.rows("advise_indexes")):
            leaf.indexes.append(index)
        for leaf, column in parts(ColumnFacts, self.rows("advise_columns")):
            leaf.columns[column.number] = column
        for leaf, statistic in parts(Statistic, self.rows_if_seen("statistics of columns", "advise_statistics")):
            leaf.statistics[statistic.number] = statistic
        return list(leaves.values())

    def counted_over(self, leaves: list[Leaf], seconds: float) -> float:
        begin = time.monotonic()
        time.sleep(seconds)
        later = {row["leaf"]: row for row in self.rows("advise_tables")}
        for leaf in leaves:
            after = later.get(leaf.leaf, leaf.counted)
            leaf.counted = {name: max(0.0, after[name] - leaf.counted[name]) for name in COUNTERS}
        return time.monotonic() - begin

    def since_reset(self, server: ServerFacts) -> float | None:
        """Return the seconds since the row counters were reset or, as an upper bound, the age of the cluster."""
        if server.seconds is not None:
            return server.seconds
        ages = self.rows_if_seen("the age of the row counters", "advise_initdb")
        return float(ages[0]["seconds"]) if ages else None

    def checkpoint(self, server: ServerFacts) -> float:
        name = "advise_checkpoints_17" if server.version >= 170000 else "advise_checkpoints_15"
        (checkpoints, *_) = self.rows_if_seen("checkpoints", name) or [{"checkpoints": 0, "seconds": 0}]
        usual = (
            checkpoints["seconds"] / checkpoints["checkpoints"]
            if checkpoints["checkpoints"]
            else server.checkpoint_timeout
        )
        return float(max(1.0, min(usual, server.checkpoint_timeout)))

    def statements(self, server: ServerFacts) -> list[Statement]:
        view, reason = self.rows("advise_statements_view"), ""
        if find_spec(PARSER) is None:
            reason = f"the parser {PARSER} is not installed here; HINT: {installer('advise')}"
        elif not view:
            reason = "pg_stat_statements is not installed in this database"
        elif not view[0]["is_trusted"]:
            owner = listed([identifier(view[0]["owner"])])
            reason = (
                f"pg_stat_statements: its schema belongs to {owner}, who could replace the view; HINT: Run inorder "
                f"advise as {owner}, after GRANT pg_read_all_stats TO {owner}. If no program relies on "
                f"the schema of pg_stat_statements, run: {MOVE}"
            )
        if reason:
            self.unseen.append(f"polling readers, counts of all rows, and which rows updates change: {reason}")
            return []
        if not server.sees_all:
            self.unseen.append(
                "statements of other roles: the current role is not a member of pg_read_all_stats (pg_monitor)"
            )
        place = sql.Identifier(view[0]["schema"], "pg_stat_statements")
        return self.classified(self.rows_if_seen("pg_stat_statements", "advise_statements", view=place))

    def classified(self, rows: list[dict[str, Any]]) -> list[Statement]:
        """Return the statements that can be classified.

        Add to ``unseen`` how many statements cannot be classified, and why.
        """
        from inorder.advise.statements import understood  # noqa: PLC0415  # requires a parser, which is optional

        results = [(row, understood(row["text"])) for row in rows]
        if reasons := [classification for _, classification in results if isinstance(classification, str)]:
            shown = listed(list(dict.fromkeys(reasons))[:NAMED], "; ")
            self.unseen.append(f"{plural(len(reasons), 'statement')} of pg_stat_statements, not understood: {shown}")
        return [
            Statement(**row, classification=classification)
            for row, classification in results
            if isinstance(classification, Understood)
        ]

    def sample(self, leaf: Leaf, column: ColumnFacts) -> None:
        parts = {
            "column": sql.Identifier(column.name), "table": sql.Identifier(leaf.leaf_schema, leaf.leaf_name),
            "percent": sql.Literal(min(100.0, 100 * SAMPLED_PAGES / max(1.0, leaf.pages))),
        }  # fmt: skip
        rows = self.rows_if_seen(f"rows of {listed([leaf.quoted])}", "advise_sample", **parts)
        leaf.statistics[column.number] = Statistic(column.number, values=[row["value"] for row in rows])

    def see_keys(self, leaves: list[Leaf], sampled: bool) -> None:
        """Read sample keys from tables without statistics, and report the tables whose keys cannot be seen."""
        hidden = []
        for leaf, (_, column) in [(leaf, leaf.key) for leaf in leaves if leaf.rows >= LEAST_ROWS and leaf.key]:
            if sampled and leaf.is_trusted and not leaf.statistic(column).values:
                self.sample(leaf, column)
            hidden += [] if leaf.statistic(column).values else [leaf.quoted]
        self.say(hidden, "values of keys (without statistics or the SELECT privilege, a key is judged by its default; "
                 "HINT: --sample reads rows of tables that belong to superusers or your role)")  # fmt: skip
        # reltuples is -1 before the first VACUUM or ANALYZE. It is 0 in a table with pages if VACUUM skipped all pages.
        unanalyzed = [leaf.quoted for leaf in leaves if leaf.rows < min(1, leaf.pages)
                      and leaf.counted["inserted"] - leaf.counted["deleted"] >= LEAST_ROWS]  # fmt: skip
        self.say(unanalyzed, "sizes (HINT: ANALYZE)")

    def say(self, names: list[str], subject: str) -> None:
        if names := list(dict.fromkeys(names)):
            self.unseen.append(f"{subject}, of {plural(len(names), 'table')}: {first_of(names, NAMED)}")


def facts_of(reader: Reader, over: float | None, sampled: bool) -> Facts:
    home, is_sql_edition = reader.home()
    server = ServerFacts(**reader.rows("advise_server")[0], inorder=home, is_sql_edition=is_sql_edition)
    leaves = reader.leaves()
    if server.is_standby:
        reader.unseen.append("rows inserted and WAL: a standby does not count them; examine the primary, too")
    if not server.has_images:
        reader.unseen.append("costs of keys: full_page_writes is off, and the model assumes that it is on")
    seconds = reader.counted_over(leaves, over) if over else reader.since_reset(server)
    seconds = inf if seconds is None else max(1.0, seconds)  # if the period is unknown, all rates are 0
    since = f"in {time_text(seconds)}{'' if over else ' since counters were reset'}"
    counted = since if seconds < inf else "since an unknown time"
    for leaf in leaves:
        for name in COUNTERS:
            setattr(leaf, name, leaf.counted[name] / seconds)
    reader.see_keys(leaves, sampled)
    return Facts(
        server, seconds, counted, reader.checkpoint(server),
        leaves, reader.statements(server), reader.unseen, over,
    )  # fmt: skip


def read(dsn: str, over: float | None, sampled: bool) -> Facts:
    with in_words(), connect_as_user(dsn) as connection:
        return facts_of(Reader(connection), over, sampled)
