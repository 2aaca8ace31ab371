"""Table columns as Arrow columns: the Arrow type, and the SQL expression that selects the value.

A type with an Arrow equivalent is mapped to it. Values of all other types are strings, as the server writes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from psycopg import sql

from inorder.connection.reading import TableColumn

# A composite is selected as (column).*, without the names of its attributes. If an attribute were dropped in the
# meantime, the server would treat (column).name as a function call. The driver refuses null composites, or does not
# report which values are null. The additional column IS_NULL shows this.
FIELDS = "({column}).*"
IS_NULL = "pg_catalog.num_nulls({column}) OPERATOR(pg_catalog.=) 1"
# format() calls the type's output function. A cast to text could call a user-defined function.
AS_TEXT = "CASE WHEN pg_catalog.num_nulls({column}) OPERATOR(pg_catalog.=) 0 THEN pg_catalog.format('%s', {column}) END"

# The driver converts every array to a list, or raises an error that does not name the column. Arrays that are not lists
# are therefore selected as null. The column DIMENSIONS distinguishes them from nulls.
IS_LIST = (
    "pg_catalog.array_ndims({column}) OPERATOR(pg_catalog.=) 1 AND pg_catalog.array_lower({column}, 1) "
    "OPERATOR(pg_catalog.=) 1"
)
IS_EMPTY = "pg_catalog.cardinality({column}) OPERATOR(pg_catalog.=) 0"
LIST = "CASE WHEN " + IS_LIST + " OR " + IS_EMPTY + " THEN {column}SENT END"
DIMENSIONS = (  # number of dimensions; 0 if the first subscript is not 1
    "CASE WHEN pg_catalog.array_ndims({column}) OPERATOR(pg_catalog.>) 1 THEN pg_catalog.array_ndims({column}) "
    "WHEN pg_catalog.array_lower({column}, 1) OPERATOR(pg_catalog.<>) 1 THEN 0 ELSE 1 END"
)


NATIVE: dict[str, pa.DataType] = {
    "bool": pa.bool_(), "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "float4": pa.float32(),
    "float8": pa.float64(), "text": pa.string(), "varchar": pa.string(), "bpchar": pa.string(), "bytea": pa.binary(),
    "date": pa.date32(), "time": pa.time64("us"), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "uuid": pa.uuid(), "json": pa.json_(), "jsonb": pa.json_(),
}  # fmt: skip
WIDER = {"oid": ("int8", pa.int64())}  # the driver would treat oid as a signed integer


@dataclass(frozen=True)
class Field:
    """A column of the result: its Arrow type, and the SQL expression that selects it."""

    column: TableColumn
    expression: str  # {column} stands for the quoted column name
    type: pa.DataType
    extra: str = ""  # an additional column of the query: DIMENSIONS or IS_NULL

    @property
    def width(self) -> int:
        return self.type.num_fields if self.expression == FIELDS else 1

    @property
    def name(self) -> str:
        return self.column.name


def scalar(column: TableColumn) -> tuple[pa.DataType, str] | None:
    """Return the Arrow type of a column or of its elements, and the server type to which the value is cast.

    >>> scalar(TableColumn("n", "numeric(5,2)", "numeric", (5 << 16 | 2) + 4)), scalar(TableColumn("i", "inet", "inet"))
    ((Decimal128Type(decimal128(5, 2)), 'text'), None)
    """
    kind = column.element or column.type or ""
    if decimal := replace(column, type=kind).decimal:
        return pa.decimal128(*decimal), "text"
    if kind in WIDER:
        return WIDER[kind][1], WIDER[kind][0]
    return (NATIVE[kind], kind) if kind in NATIVE else None


def as_text(column: TableColumn) -> Field:
    """Return the column as text from the type's output function. A cast could call a user-defined function."""
    return Field(column, AS_TEXT, pa.string())


def fields_of(columns: Sequence[TableColumn]) -> list[Field]:
    return [field_of(column) for column in columns]


def field_of(column: TableColumn) -> Field:
    """Return the Arrow field for a column.

    >>> field_of(TableColumn("a", "int[]", "_int4", -1, "int4")).type, field_of(TableColumn("i", "inet", "inet")).type
    (ListType(list<element: int32>), DataType(string))
    """
    if column.labels and column.is_array:
        return Field(column, LIST.replace("SENT", ""), list_of(pa.string()), DIMENSIONS)
    if column.labels:
        return Field(column, AS_TEXT, pa.dictionary(pa.int32(), pa.string()))
    if column.fields and not column.is_array and (kinds := [part_of(field) for field in column.fields]) and all(kinds):
        names = [field.name for field in column.fields]
        return Field(column, FIELDS, pa.struct(list(zip(names, kinds, strict=True))), IS_NULL)
    if (as_scalar := scalar(column)) is None:
        return as_text(column)
    kind, server_type = as_scalar
    if column.element is not None:
        return Field(column, LIST.replace("SENT", f"::pg_catalog.{server_type}[]"), list_of(kind), DIMENSIONS)
    return Field(column, f"{{column}}::pg_catalog.{server_type}", kind)


def list_of(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind))


def part_of(column: TableColumn) -> pa.DataType | None:
    """Return the driver's Arrow type for an attribute of a composite. Return None if the composite should be text."""
    if column.element is not None or column.type in WIDER:
        return None
    as_scalar = scalar(column)
    return as_scalar and as_scalar[0]


# True if the text form of a value is valid UTF-8. The pattern matches its bytes in hexadecimal.
IS_UTF8 = (
    "pg_catalog.encode(pg_catalog.convert_to(pg_catalog.format('%s', {column}), 'SQL_ASCII'), 'hex') "
    "OPERATOR(pg_catalog.~) '^([0-7].|(c[2-9a-f]|d.)[89ab].|e0[ab].[89ab].|e[1-9a-cef]([89ab].){{2}}|ed[89].[89ab].|"
    "f0[9ab].([89ab].){{2}}|f[1-3]([89ab].){{3}}|f48.([89ab].){{2}})*$'"
)


def text_or_null(field: Field) -> Field:
    """Make a field null if its text is not valid UTF-8. Used for servers that do not check encodings."""
    kind = field.type.value_type if pa.types.is_list(field.type) else field.type
    is_text = pa.types.is_string(kind) or pa.types.is_dictionary(kind) or isinstance(kind, pa.JsonType)
    if not is_text or field.expression == FIELDS:
        return field
    return replace(field, expression=f"CASE WHEN {IS_UTF8} THEN {field.expression} END")


def select_list(fields: Sequence[Field]) -> sql.Composed:
    parts = [(field.expression, field.name) for field in fields]
    parts += [(field.extra, field.name) for field in fields if field.extra]
    return sql.SQL(", ").join(
        sql.SQL(text if text == FIELDS else f"{text} AS c{place}").format(column=sql.Identifier("e", name))
        for place, (text, name) in enumerate(parts)
    )
