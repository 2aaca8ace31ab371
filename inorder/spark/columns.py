"""Table columns as Spark columns: the Spark type, and the SQL expression that selects the value.

A type with a Spark equivalent is mapped to it. Values of all other types are strings, as the server writes them.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from inorder.arrow import types as arrow
from inorder.arrow.types import Field, as_text
from inorder.connection.reading import TableColumn
from inorder.errors import InputError
from inorder.text import quoted

TYPES = {
    pa.bool_(): "boolean", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint", pa.float32(): "float",
    pa.float64(): "double", pa.string(): "string", pa.binary(): "binary", pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz", pa.timestamp("us", "UTC"): "timestamp",
}  # fmt: skip


def type_of(kind: pa.DataType) -> str | None:
    """Return the Spark type for an Arrow type, or None if Spark has no such type.

    >>> type_of(pa.list_(pa.decimal128(5, 2))), type_of(pa.uuid())
    ('array<decimal(5,2)>', None)
    """
    if pa.types.is_list(kind):
        element = type_of(kind.value_type)
        return element and f"array<{element}>"
    return f"decimal({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else TYPES.get(kind)


def types_of(fields: Sequence[Field]) -> dict[str, str]:
    return {field.name: type_of(field.type) or "string" for field in fields}


def ddl(fields: Sequence[Field]) -> str:
    """Return the columns as a schema in Spark's DDL syntax.

    >>> ddl([as_text(TableColumn("a`b", "inet", "inet"))])
    '`a``b` string'
    """
    quoted = {name.replace("`", "``"): kind for name, kind in types_of(fields).items()}
    return ", ".join(f"`{name}` {kind}" for name, kind in quoted.items())


def field_of(column: TableColumn) -> Field:
    """Return a column with a type that Spark supports.

    >>> columns = [TableColumn("n", "bigint", "int8"), TableColumn("u", "uuid", "uuid")]
    >>> [type_of(field_of(column).type) for column in columns]
    ['bigint', 'string']
    """
    field = arrow.field_of(column)
    return field if type_of(field.type) and not column.labels else as_text(column)


def fields_of(columns: Sequence[TableColumn], table: str) -> list[Field]:
    names: dict[str, str] = {}
    for column in columns:
        former = names.setdefault(column.name.lower(), column.name)
        if former != column.name:
            raise InputError(
                f"columns {quoted(former)} and {quoted(column.name)} of {table} have the same name except for case, "
                "which Spark ignores\n"
                "HINT:  Name the columns to read in schema(); to read both, set spark.sql.caseSensitive."
            )
    return [field_of(column) for column in columns]


def wanted(columns: Sequence[TableColumn], schema: Mapping[str, str], table: str) -> list[Field]:
    """Return the columns of the user's schema, which may omit columns and declare any column as ``string``."""
    present = {column.name: column for column in columns}
    return [field_as(present.get(name), name, kind, table) for name, kind in schema.items()]


def field_as(column: TableColumn | None, name: str, kind: str, table: str) -> Field:
    """Return a column in its declared type. Raise InputError if the column is missing or has a different type."""
    if column is None:
        raise InputError(
            f"column {quoted(name)} is not in {table}\n"
            "HINT:  If it was dropped or renamed, start the query again: a query keeps the schema of its start."
        )
    field = field_of(column)
    if type_of(field.type) == kind:
        return field
    if kind == "string":
        return as_text(column)
    raise InputError(
        f"column {quoted(name)} of {table} is {column.written}, which is {type_of(field.type)} (or string), "
        f"not {kind}\n"
        "HINT:  If the type of the column was changed, start the query again: a query keeps the schema of its start."
    )
