"""Columns of a table as columns of Spark: the type, and the expression by which the server is asked for it.

A type that Spark has is itself; every other one is its text, as the server writes it, which loses nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from psycopg import sql

from inorder.arrow.expressions import AS_TEXT, DIMENSIONS, LIST
from inorder.connection.reading import Column
from inorder.errors import InputError

NATIVE = {
    "bool": "boolean", "int2": "smallint", "int4": "int", "int8": "bigint", "float4": "float", "float8": "double",
    "text": "string", "varchar": "string", "bpchar": "string", "bytea": "binary",
    "date": "date", "timestamp": "timestamp_ntz", "timestamptz": "timestamp",
}  # fmt: skip
WIDER = {"oid": ("bigint", "int8")}  # which Arrow would take for signed
CHECKED = ("date", "timestamp", "timestamp_ntz")  # PostgreSQL has values beyond the years 1 to 9999


@dataclass(frozen=True)
class Field:
    """A column of the result: its type in Spark, and what the server is asked for."""

    name: str
    type: str
    expression: str  # of SQL, with the column's name as {column}
    is_array: bool = False

    @property
    def ddl(self) -> str:
        """As Spark writes it.

        >>> Field("a`b", "int", "").ddl
        '`a``b` int'
        """
        quoted = self.name.replace("`", "``")
        return f"`{quoted}` {self.type}"


def as_text(column: Column) -> Field:
    """By the type's output function: a cast could be anybody's."""
    return Field(column.name, "string", AS_TEXT)


def scalar(column: Column) -> tuple[str, str] | None:
    """The type in Spark of a column, or of its elements, and that in which the server is to send it.

    >>> scalar(Column("n", "int[]", "_int4", -1, "int4")), scalar(Column("i", "inet", "inet"))
    (('int', 'int4'), None)
    """
    kind = column.element or column.type
    if decimal := replace(column, type=kind).decimal:
        return "decimal({},{})".format(*decimal), "text"
    if kind in WIDER:
        return WIDER[kind]
    return (NATIVE[kind], kind) if kind in NATIVE else None


def field_of(column: Column) -> Field:
    """A column as Spark is given it.

    >>> field_of(Column("n", "bigint", "int8")).type, field_of(Column("a", "inet[]", "_inet", -1, "inet")).type
    ('bigint', 'string')
    """
    found = scalar(column)
    if found is None:
        return as_text(column)
    kind, sent = found
    if column.element is not None:
        return Field(column.name, f"array<{kind}>", LIST.replace("SENT", f"::pg_catalog.{sent}[]"), is_array=True)
    return Field(column.name, kind, f"{{column}}::pg_catalog.{sent}")


def fields_of(columns: Sequence[Column], table: str) -> list[Field]:
    seen: dict[str, str] = {}
    for column in columns:
        other = seen.setdefault(column.name.lower(), column.name)
        if other != column.name:
            raise InputError(
                f"columns {other!r} and {column.name!r} of {table} have the same name for Spark\n"
                "HINT:  Name the columns that are to be read by schema(), and set spark.sql.caseSensitive for both."
            )
    return [field_of(column) for column in columns]


def wanted(columns: Sequence[Column], schema: Mapping[str, str], table: str) -> list[Field]:
    """The columns of a schema, which may leave columns out, and ask for any as its text."""
    present = {column.name: column for column in columns}
    return [field_as(present.get(name), name, kind, table) for name, kind in schema.items()]


def field_as(column: Column | None, name: str, kind: str, table: str) -> Field:
    """One column in the type that the schema has for it; an error that names it if that cannot be."""
    if column is None:
        raise InputError(
            f"column {name!r} is not in {table}\n"
            "HINT:  If it was dropped or renamed, start the query again: its schema is that of its start."
        )
    field = field_of(column)
    if field.type == kind:
        return field
    if kind == "string":
        return as_text(column)
    raise InputError(
        f"column {name!r} of {table} is {column.written}, which is {field.type} (or string), not {kind}\n"
        "HINT:  If its type was changed, start the query again: its schema is that of its start."
    )


def select_list(fields: Sequence[Field]) -> sql.Composed:
    """What the server is asked for: the columns, then the number of dimensions of each array."""
    parts = [sql.SQL(field.expression).format(column=sql.Identifier("e", field.name)) for field in fields]
    dimensions = sql.SQL(DIMENSIONS)
    parts += [dimensions.format(column=sql.Identifier("e", field.name)) for field in fields if field.is_array]
    return sql.SQL(", ").join(sql.SQL("{} AS c{}").format(part, sql.SQL(str(i))) for i, part in enumerate(parts))
