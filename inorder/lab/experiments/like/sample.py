"""Rows like those of an existing table, generated from a sample of its rows.

A new row has the values of a sampled row, which preserves widths, nulls and correlations. Columns whose values rise
with the order of rows, such as times and numbers, also rise in the new table. If the sample has fewer distinct values
in an indexed column than the table, values that occur once in the sample are varied.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

import psycopg

from inorder.connection.database import Connection, UserConnection, execute, identifier, one_row
from inorder.lab.experiments.like.shape import Draw, Shape, ShapeColumn
from inorder.lab.plan.keys import SCHEMA

SAMPLE = f"{SCHEMA}.sample"
N = "inorder_n"  # the number of a row in the sample, in the order of the table
RAW = f"{SCHEMA}.sample_as_read"
ODD = 2654435761  # a prime that scatters numbers
RISING = 0.9  # a column counts as rising if its correlation with the physical order is at least this
NEWEST = 0.01  # the load takes values of rising columns from the newest rows, which are this fraction of the sample
FRACTION = 0.1  # with more distinct values than this fraction of the rows, their number grows with the table
FIRST_NUMBER = 2**30  # number of the first row that the load inserts; filled rows have lower numbers

WHOLE = ("smallint", "integer", "bigint", "numeric")
TEXT = ("text", "character varying", "character")
REAL = ("double precision", "real")
TIMES = ("timestamp with time zone", "timestamp without time zone")


def base_type(column: ShapeColumn) -> tuple[str, int]:
    """Return the type without its modifier, and its limit, or 0 if there is none.

    The limit is the maximum number of characters, or of digits before the decimal point.

    >>> [base_type(ShapeColumn("a", name)) for name in ("character varying(20)", "timestamp(3) without time zone")]
    [('character varying', 20), ('timestamp without time zone', 3)]
    >>> base_type(ShapeColumn("a", "numeric(10,2)"))
    ('numeric', 8)
    """
    plain = column.type.partition(" COLLATE ")[0]
    modifier = re.search(r"\((\d+)(?:,(-?\d+))?\)", plain)
    limit = int(modifier[1]) - int(modifier[2] or 0) if modifier else 0
    return re.sub(r"\([\d,-]+\)", "", plain), limit


def can_be_unique(column: ShapeColumn) -> bool:
    """Return True if the type has enough values for a different value in each row.

    >>> [can_be_unique(ShapeColumn("a", name)) for name in ("text", "character varying(4)", "uuid", "inet", "smallint")]
    [True, False, True, False, False]
    """
    name, limit = base_type(column)
    return (name in (*TEXT, "numeric") and (limit == 0 or limit >= 10)) or name in ("integer", "bigint", "uuid", *TIMES)


def scrambled(number: str) -> str:
    """Return SQL for a pseudorandom permutation of the numbers below 2^31."""
    return f"(({number})::bigint * {ODD} & 2147483647)"


@dataclass(frozen=True)
class Spread:
    """Facts about an indexed column of the sample.

    * ``rises``: the values rise with the order of rows.
    * ``low``, ``high``: the range of the values.
    * ``each``: the number of distinct values that a value represents if it occurs once in the sample.
    * ``behind``: seconds from the latest time to the present, or None if new rows reuse sampled values.
    * ``unique``: each row has a different value.
    """

    rises: bool = False
    low: float = 0.0
    high: float = 0.0
    each: int = 1
    behind: float | None = None
    unique: bool = False

    @property
    def varied(self) -> bool:
        return self.unique or self.each > 1


@dataclass(frozen=True)
class Sample:
    """The sample on the measured server, and facts about its columns.

    ``plain``: the unique indexes that are created without UNIQUE.
    """

    shape: Shape
    rows: int
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    plain: frozenset[str] = frozenset()
    key_rises: bool = False
    key_length: float = 0.0

    @property
    def numbered(self) -> bool:
        return any(spread.unique for spread in self.spreads.values())

    @property
    def newest(self) -> int:
        return max(0, min(self.rows - 1, int(self.rows * (1 - NEWEST))))

    def values(self, number: str, share: str = "") -> list[str]:
        """Return SQL for the values of the new row ``number``.

        Values of rising columns come from row o of the sample, and all other values from row s. While the table is
        filled, ``share`` is the position of the new row between row o and the next row.
        """
        return [self.value(column, number, share) for column in self.shape.sampled]

    def value(self, column: ShapeColumn, number: str, share: str) -> str:
        spread = self.spreads.get(column.name, Spread())
        name = f"{'o' if spread.rises else 's'}.{identifier(column.name)}"
        if not spread.varied:
            return name
        if spread.unique and not spread.rises:
            new = varied(column, spread, name, number)
        elif spread.rises:
            new = risen(column, spread, f"o.{beside(self.shape, column)}", number, share)
        else:
            place = f"s.{beside(self.shape, column)}"
            new = varied(column, spread, name, f"{place} * {spread.each} + ({number}) % {spread.each}")
            return f"CASE WHEN {place} IS NULL THEN {name} ELSE {new} END"
        return f"CASE WHEN {name} IS NOT NULL THEN {new} END"


def beside(shape: Shape, column: ShapeColumn) -> str:
    """Return the name of an additional column of the sample.

    For a rising column, the additional column contains the next value. For any other column, it numbers the values that
    occur once in the raw sample, and is null for other values.
    """
    return f"{N}_{shape.columns.index(column)}"


def varied(column: ShapeColumn, spread: Spread, name: str, number: str) -> str:
    """Return SQL for a value that depends on ``number``, or for the sampled value if the type has too few values."""
    (kind, limit), scattered = base_type(column), scrambled(number)
    share, span = f"({scattered} / 2147483648.0)", spread.high - spread.low
    if kind in TEXT:
        digits = f"lpad(to_hex({scattered}), 8, '0')"
        return f"left({digits}, {limit})" if 0 < limit < 11 else f"overlay({name}::text placing {digits} from 4 for 8)"
    if kind == "uuid":
        return f"md5({name}::text || ({number})::text)::uuid"
    if kind in WHOLE:
        offset = f"(({number})::bigint * {ODD} % {max(1, int(span) + 1)})"
        return scattered if spread.unique else f"({spread.low:.0f} + {offset})"
    if kind in REAL:
        return f"({spread.low!r} + {share} * {span!r})"
    if kind in TIMES or kind == "date":
        return moment(kind, f"{spread.low!r} + {share} * {span!r}")
    return name


def risen(column: ShapeColumn, spread: Spread, after: str, number: str, share: str) -> str:
    """Return SQL for a value between the value of the column and the next value, ``after``.

    In rows that the load inserts, times follow the clock.
    """
    kind, name = base_type(column)[0], f"o.{identifier(column.name)}"
    if kind in TIMES and not share and spread.behind is not None:
        return moment(kind, f"extract(epoch FROM clock_timestamp())::float8 - {spread.behind!r}")
    more = f"({after} - {name}) * ({share or scrambled(number) + ' / 2147483648.0'})"
    if kind in WHOLE:
        return f"({number})::{kind}" if spread.unique else f"({name} + floor({more})::{kind})"
    if kind in (*REAL, *TIMES):
        return f"({name} + {more})"
    return varied(column, spread, name, number) if spread.unique else name


def moment(kind: str, seconds: str) -> str:
    """Return SQL for a time given in seconds since 1970. pgbench would read colons in a time literal as variables."""
    text = f"to_timestamp({seconds})"
    return text if kind == TIMES[0] else f"({text} AT TIME ZONE 'UTC')" + ("::date" if kind == "date" else "")


def take_sample(
    target: Connection, user_session: UserConnection, draw: Draw, shape: Shape, sample_rows: int, rows: int
) -> Sample:
    columns = [*shape.sampled, shape.column(shape.key)]
    listed = ", ".join(identifier(column.name) for column in columns)
    typed = ", ".join(f"{identifier(column.name)} {column.type}" for column in columns)
    create = f"CREATE TABLE {RAW} ({N} int PRIMARY KEY, {typed})"
    execute(target, f"DROP TABLE IF EXISTS {RAW}, {SAMPLE}", create)
    drawn_rows = draw.drawn(user_session)
    share, total = min(1.0, sample_rows / max(1, drawn_rows)), drawn_rows * 100 / draw.percent
    user_session.execute("SELECT setseed(0.5)")
    draw.require_own(user_session)
    query = f"SELECT row_number() OVER () - 1, * FROM (SELECT {listed} {draw.clause} WHERE random() < {share}) AS drawn"
    with (
        user_session.cursor().copy(f"COPY ({query}) TO STDOUT".encode()) as out,
        target.cursor().copy(f"COPY {RAW} FROM STDIN".encode()) as into,
    ):
        for data in out:
            into.write(data)
    return RawSample(target, shape, total, rows).sample()


class RawSample:
    """A sample as it was read, from which the final sample is created. The sampled table has ``total`` rows."""

    def __init__(self, session: Connection, shape: Shape, total: float, rows: int) -> None:
        self.session, self.shape, self.total, self.rows = session, shape, total, rows
        self.count = int(self.numbers("SELECT count(*) FROM {raw}")[0])

    def numbers(self, text: str) -> list[float]:
        return [float(value or 0) for value in one_row(self.session, text.replace("{raw}", RAW))]

    def sample(self) -> Sample:
        unique, plain = unique_columns(self.shape)
        indexed = {name for index in self.shape.indexes for name in index.mentions} | self.shape.dividing
        spreads = {
            column.name: self.spread(column, column.name in unique)
            for column in self.shape.sampled if column.name in indexed
        }  # fmt: skip
        key = identifier(self.shape.key)
        (length,) = self.numbers(f"SELECT avg(length({key}::text)) FROM {{raw}}")
        sample = Sample(self.shape, self.count, spreads, plain, self.rises(self.shape.column(self.shape.key)), length)
        self.make(sample)
        return sample

    def rises(self, column: ShapeColumn) -> bool:
        name = identifier(column.name)
        ranks = f"SELECT {N}, rank() OVER (ORDER BY {name}) AS place FROM {{raw}} WHERE {name} IS NOT NULL"
        try:
            return self.numbers(f"SELECT corr(place, {N}) FROM ({ranks}) AS ranks")[0] >= RISING
        except psycopg.errors.UndefinedFunction:
            return False

    def spread(self, column: ShapeColumn, unique: bool) -> Spread:
        name, kind = identifier(column.name), base_type(column)[0]
        try:
            groups = f"SELECT count(*) AS times FROM {{raw}} WHERE {name} IS NOT NULL GROUP BY {name}"
            counts = f"SELECT count(*), count(*) FILTER (WHERE times = 1), sum(times) FROM ({groups}) AS groups"
            distinct, single, sampled = self.numbers(counts)
        except psycopg.errors.UndefinedFunction:
            return Spread()
        number = {**dict.fromkeys((*TIMES, "date"), f"extract(epoch FROM {name})")}.get(kind, name)
        low, high = 0.0, 0.0
        if kind in (*WHOLE, *REAL, *TIMES, "date"):
            low, high = self.numbers(f"SELECT min({number}), max({number}) FROM {{raw}}")
        total = self.total * sampled / self.count
        each, grows = each_stands_for(distinct, single, sampled, total, self.rows / self.total)
        high += (high - low) * max(0.0, self.rows / self.total - 1) * (grows and kind in WHOLE)
        behind = time.time() - high if kind in TIMES and column.name not in self.shape.dividing else None
        return Spread(column.clock or self.rises(column), low, high, each, behind, unique)

    def make(self, sample: Sample) -> None:
        expressions, joined = [], ""
        for place, column in enumerate(self.shape.sampled):
            name, spread = identifier(column.name), sample.spreads.get(column.name, Spread())
            expressions.append(f"{f'o{place}' if spread.rises else 'r'}.{name}")
            if spread.rises:
                order = f"OVER (ORDER BY {name} NULLS LAST)"
                following = f"coalesce(lead({name}) {order}, {name}) AS {beside(self.shape, column)}"
                sorted_by = f"SELECT row_number() {order} - 1 AS {N}, {name}, {following} FROM {RAW}"
                joined += f" JOIN ({sorted_by}) AS o{place} USING ({N})"
                expressions.append(f"o{place}.{beside(self.shape, column)}")
            elif spread.each > 1:
                single = f"SELECT min({N}) AS {N}, row_number() OVER () AS place FROM {RAW} WHERE {name} IS NOT NULL"
                joined += f" LEFT JOIN ({single} GROUP BY {name} HAVING count(*) = 1) AS s{place} USING ({N})"
                expressions.append(f"s{place}.place AS {beside(self.shape, column)}")
        listed = "".join(f", {expression}" for expression in expressions)
        create = f"CREATE TABLE {SAMPLE} AS SELECT {N}{listed} FROM {RAW} AS r{joined}"
        key, vacuum = f"ALTER TABLE {SAMPLE} ADD PRIMARY KEY ({N})", f"VACUUM (FREEZE, ANALYZE) {SAMPLE}"
        execute(self.session, create, key, f"DROP TABLE {RAW}", vacuum)


def each_stands_for(distinct: float, single: float, sampled: float, total: float, share: float) -> tuple[int, bool]:
    """Return how many distinct values a single value stands for, and True if their number grows with the table.

    A single value occurs once in the sample. The sample has ``sampled`` values, and the table has ``total`` values. The
    estimator is the one used by ANALYZE (Haas and Stokes). ``share`` is the number of rows in the new table relative to
    the sampled table.

    >>> each_stands_for(1000, 1000, 1000, 50_000, 1.0), each_stands_for(1000, 1000, 1000, 50_000, 0.1)
    ((50, True), (5, True))
    >>> each_stands_for(5, 0, 1000, 50_000, 1.0), each_stands_for(900, 810, 1000, 50_000, 1.0)
    ((1, False), (6, False))
    """
    if not single:
        return 1, False
    in_table = sampled * distinct / (sampled - single + single * sampled / max(sampled, total))
    grows = in_table > FRACTION * total
    in_copy = in_table * share if grows else in_table
    return (max(1, ceil((in_copy - (distinct - single)) / single)) if in_copy > distinct else 1), grows


def unique_columns(shape: Shape) -> tuple[set[str], frozenset[str]]:
    """Return the columns that get a different value in each row, because of unique indexes.

    Also return the unique indexes that must be created without UNIQUE.
    """
    chosen: set[str] = set()
    plain = set()
    for index in shape.indexes:
        mentioned = [shape.column(name) for name in (*reversed(index.columns), *index.mentions)]
        if not index.unique or any(column.counts or column.name == shape.key for column in mentioned):
            continue
        can = [
            column.name for column in mentioned
            if column in shape.sampled and column.name not in shape.dividing and can_be_unique(column)
        ]  # fmt: skip
        if can and not chosen & set(can):
            chosen.add(can[0])
        elif not can:
            plain.add(index.name)
    return chosen, frozenset(plain)
