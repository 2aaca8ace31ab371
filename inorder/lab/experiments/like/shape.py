"""The structure of a table, read from its server: columns, indexes, checks, partitions.

Everything is read in one READ ONLY transaction at REPEATABLE READ, with no lock stronger than ACCESS SHARE.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from inorder.connection.database import ServerRow, UserConnection, connect_as_user, literal, one_row, query
from inorder.connection.session import in_words
from inorder.errors import InputError
from inorder.lab.plan.keys import SCHEMA
from inorder.text import listed, one_line, quoted

SEQUENCE = re.compile(r"nextval\(")
CLOCK = re.compile(r"^\(?(now|clock_timestamp|statement_timestamp|transaction_timestamp)\(\)|^\(?(CURRENT_|LOCAL)")
WHOLE = ("smallint", "integer", "bigint")
KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index",
         "I": "an index", "c": "a type", "t": "a TOAST table"}  # fmt: skip
SETTINGS = """SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL row_security = off; SET LOCAL datestyle = ISO;
SET LOCAL constraint_exclusion = off;
SET LOCAL intervalstyle = postgres; SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = hex;
SET LOCAL lock_timeout = '10s'"""
NO_VIEWS = """SELECT set_config(name, 'view, foreign-table', true)
FROM pg_settings WHERE name = 'restrict_nonsystem_relation_kind'"""
BLOCKS = 5000  # number of blocks to read from a large table (40 MB)


@dataclass(frozen=True)
class ShapeColumn:
    """A column. ``counts``: it is an identity or serial column. ``clock``: its default is the current time."""

    name: str
    type: str
    not_null: bool = False
    generated: str = ""
    counts: bool = False
    clock: bool = False


@dataclass(frozen=True)
class ShapeIndex:
    """An index: its definition after USING, its key columns except expressions, and all columns that it mentions."""

    name: str
    definition: str
    columns: tuple[str, ...]
    mentions: tuple[str, ...]
    unique: bool


@dataclass(frozen=True)
class Check:
    definition: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class ShapePartition:
    """A partition: the number of its parent or -1, its bounds, its partition key, and the columns of that key."""

    above: int
    bounds: str
    divided: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """The structure of a table. The first index is the index on the key.

    ``partitions`` includes the table itself.
    """

    key: str
    columns: tuple[ShapeColumn, ...]
    indexes: tuple[ShapeIndex, ...]
    checks: tuple[Check, ...]
    enums: tuple[str, ...]
    partitions: tuple[ShapePartition, ...]
    fillfactor: int

    def column(self, name: str) -> ShapeColumn:
        return next(column for column in self.columns if column.name == name)

    @property
    def sampled(self) -> list[ShapeColumn]:
        return [
            column for column in self.columns if not column.generated and not column.counts and column.name != self.key
        ]

    @property
    def dividing(self) -> set[str]:
        return {name for partition in self.partitions for name in partition.columns}


@dataclass(frozen=True)
class TableFacts:
    """Facts about a table: structure, approximate rows, bytes per row with and without indexes, and counted changes."""

    shape: Shape
    rows: float
    row_bytes: float
    own_bytes: float
    inserted: int
    updated: int
    hot: int
    notes: tuple[str, ...]


@contextmanager
def source(dsn: str) -> Iterator[UserConnection]:
    with in_words(), connect_as_user(dsn) as connection:
        connection.settings = sql.SQL(SETTINGS)
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        with connection.transaction():
            yield connection


def resolved(connection: UserConnection) -> str:
    info = connection.info
    parameters = {name: value for name, value in info.get_parameters().items() if name != "service"}
    return make_conninfo("", **(parameters | ({"password": info.password} if info.password else {})))


def rows(connection: UserConnection, name: str, oid: int) -> list[ServerRow]:
    return connection.execute(query(name), {"table": oid}).fetchall()


def table_oid(connection: UserConnection, name: str) -> int:
    oid = connection.by_users_path(sql.SQL("SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid"), name)
    if oid is None:
        raise InputError(f"there is no table {name} in the database {quoted(connection.info.dbname)}")
    connection.execute(NO_VIEWS.encode())
    return int(oid)


def read_table(connection: UserConnection, name: str, key: str, without: Sequence[str]) -> TableFacts:
    oid = table_oid(connection, name)
    ((kind, persistence, qualified, may_read, secured, _divided, own_bytes, blocks, all_bytes, inserted, updated, hot,
      deleted, foreign, triggers, fillfactor),) = rows(connection, "like_table", oid) or [(None,) * 16]  # fmt: skip
    if kind not in ("r", "p") or persistence == "t":
        raise InputError(f"{name} is {KINDS.get(str(kind), 'a temporary table')}, not a table")
    shown = one_line(str(qualified))
    if not may_read:
        raise InputError(f"the role {quoted(connection.info.user)} has no SELECT privilege on {shown}")
    if secured:  # policies can call functions of the owner, which would run with the reader's privileges
        raise InputError(
            f"row security hides rows of {shown} from {quoted(connection.info.user)}; "
            "HINT: Read the table as its owner."
        )
    notes = []
    for count, objects in ((foreign, "foreign keys"), (triggers, "triggers")):
        notes += [f"Left out: {objects} of {qualified} ({count})."] if count else []
    notes += [f"The load deletes no rows, but {deleted:,} rows of {qualified} were deleted."] if deleted else []
    draw = Draw(oid, str(qualified), int(blocks))
    size = draw.row_count(connection)
    shape, more = read_shape(connection, oid, key, without, int(fillfactor))
    return TableFacts(shape, size, int(all_bytes) / size, int(own_bytes) / size, int(inserted),
                 int(updated), int(hot), tuple(map(one_line, (*notes, *more))))  # fmt: skip


@dataclass(frozen=True)
class Draw:
    """A sample of rows from all blocks of a table, or from BLOCKS random blocks."""

    oid: int
    table: str
    blocks: int

    @property
    def percent(self) -> float:
        return min(100.0, 100 * BLOCKS / max(1, self.blocks))

    @property
    def clause(self) -> str:
        return f"FROM {self.table} TABLESAMPLE SYSTEM ({self.percent}) REPEATABLE (1)"

    def drawn(self, connection: UserConnection) -> int:
        self.require_own(connection)
        return int(one_row(connection, f"SELECT count(*) {self.clause}")[0])

    def require_own(self, connection: UserConnection) -> None:
        """Lock the table. Raise InputError if it was renamed, or if other roles could make readers run their code."""
        if owners := [str(name) for (name,) in rows(connection, "like_owners", self.oid)]:
            raise InputError(f"{one_line(self.table)}, its schema or one of its partitions belongs to "
                             f"{listed(owners)}, who could make readers run code; "
                             "HINT: Read the table as its owner.")  # fmt: skip
        connection.execute(f"LOCK TABLE {self.table} IN ACCESS SHARE MODE".encode())
        if one_row(connection, "SELECT to_regclass(%s)::oid", (self.table,))[0] != self.oid:
            raise InputError(f"{one_line(self.table)} was renamed in the meantime")

    def row_count(self, connection: UserConnection) -> float:
        rows = self.drawn(connection) * 100 / self.percent
        if not rows:
            raise InputError(f"{one_line(self.table)} has no rows to imitate")
        return rows


def draw_of(connection: UserConnection, name: str) -> Draw:
    oid = table_oid(connection, name)
    (row,) = rows(connection, "like_table", oid)
    return Draw(oid, str(row[2]), int(row[7]))


def read_shape(
    connection: UserConnection, oid: int, key: str, without: Sequence[str], fillfactor: int
) -> tuple[Shape, list[str]]:
    columns, enums, renamed = read_columns(connection, oid, without)
    partitions = tuple(
        ShapePartition(-1 if above is None else int(above), str(bounds or ""), str(divided or ""), names(key_columns))
        for _, above, bounds, divided, key_columns in rows(connection, "like_partitions", oid)
    )
    dividing = {name for partition in partitions for name in partition.columns}
    all_indexes, notes = [], []
    primary: tuple[str, ...] = ()
    for name, definition, plain, mentions, unique, is_primary, exclusion, foreign in rows(
        connection, "like_indexes", oid
    ):
        if foreign or set(without) & {*names(plain), *names(mentions)}:
            reason = ", which needs an extension or a user-defined function" if foreign else ""
            notes.append(f"Left out: the index {name}{reason}.")
            continue
        notes += [f"Left out: the exclusion constraint {name}, but not its index."] if exclusion else []
        primary = names(plain) if is_primary else primary
        all_indexes.append(ShapeIndex(str(name), renamed(str(definition)), names(plain), names(mentions), bool(unique)))
    key = key or key_of(primary, dividing)
    of_key = [index for index in all_indexes if index.columns[:1] == (key,)]
    if key not in {column.name for column in columns} or not of_key:
        raise InputError(f"--key {key}: the table has no such column, or no index that begins with it")
    checks = []
    for name, definition, mentions, foreign in rows(connection, "like_checks", oid):
        if foreign or set(without) & set(names(mentions)):
            notes.append(f"Left out: the constraint {name}.")
        else:
            checks.append(Check(renamed(str(definition)), names(mentions)))
    first = max(of_key, key=lambda index: index.unique)
    indexes = (first, *(index for index in all_indexes if index is not first))
    return Shape(key, tuple(columns), indexes, tuple(checks), enums, partitions, fillfactor), notes


def key_of(primary: tuple[str, ...], dividing: set[str]) -> str:
    """Return the primary key column that is not in the partition key. Raise InputError unless there is exactly one."""
    candidates = primary if len(primary) == 1 else [name for name in primary if name not in dividing]
    if len(candidates) != 1:
        has = f"the primary key of the table is ({listed(primary)})" if primary else "the table has no primary key"
        raise InputError(f"{has}; HINT: Use --key to name the column whose values are generated.")
    return candidates[0]


def names(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def read_columns(
    connection: UserConnection, oid: int, without: Sequence[str]
) -> tuple[list[ShapeColumn], tuple[str, ...], Callable[[str], str]]:
    column_rows, enums, types = rows(connection, "like_columns", oid), list[str](), dict[str, str]()
    if unknown := set(without) - {str(row[0]) for row in column_rows}:
        raise InputError(f"--leave-out: the table has no column {', '.join(sorted(unknown))}")
    used_columns = [row for row in column_rows if row[0] not in without]
    for name, type_name, domain, labels, foreign, *_rest, needs in used_columns:
        if foreign or needs:
            reason = f"is of the type {one_line(str(type_name))}" if foreign else "needs a user-defined function"
            column = one_line(str(name))
            raise InputError(f"the column {column} {reason}, which other servers do not have; HINT: "
                             f"Use --leave-out {column}.")  # fmt: skip
        if isinstance(labels, list) and type_name not in types:
            types[str(type_name)] = f"{SCHEMA}.enum_{len(enums)}"
            enums.append(f"CREATE TYPE {types[str(type_name)]} AS ENUM ({', '.join(map(literal, labels))})")
        if domain != type_name:
            types[str(domain)] = types.get(str(type_name), str(type_name))

    def renamed(text: str) -> str:
        for name, new in types.items():
            text = re.sub(re.escape(name) + r'(?![\w"$.])', new.replace("\\", r"\\"), text)
        return text

    columns = []
    for name, type_name, _, _, _, not_null, generated, how, default, identity, collation, _ in used_columns:
        stored = f" GENERATED ALWAYS AS ({renamed(str(generated))}) {'STORED' if how == 's' else 'VIRTUAL'}"
        columns.append(ShapeColumn(
            str(name), renamed(str(type_name)) + (f" COLLATE {collation}" if collation else ""), bool(not_null),
            stored if generated else "",
            type_name in WHOLE and bool(identity or (default and SEQUENCE.search(str(default)))),
            bool(default and CLOCK.search(str(default))),
        ))  # fmt: skip
    return columns, tuple(enums), renamed
