"""Arrow batches of the driver as those that Spark expects; a value that Spark has not is an error, with its column."""

import datetime
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from inorder.errors import InputError
from inorder.spark.columns import CHECKED, Field

EPOCH = datetime.date(1970, 1, 1)
FIRST_DAY = (datetime.date(1, 1, 1) - EPOCH).days
LAST_DAY = (datetime.date(9999, 12, 31) - EPOCH).days
MICROSECONDS = 86_400_000_000  # of a day
TYPES = {
    "boolean": pa.bool_(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"), "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip


def schema_of(fields: Sequence[Field]) -> pa.Schema:
    """What Spark takes for columns of these types.

    >>> schema_of([Field("a", "array<decimal(5,2)>", "")]).field(0).type
    ListType(list<element: decimal128(5, 2)>)
    """
    return pa.schema([(field.name, type_of(field.type)) for field in fields])


def type_of(kind: str) -> pa.DataType:
    if kind.startswith("array<"):
        return pa.list_(pa.field("element", type_of(kind.removeprefix("array<").removesuffix(">"))))
    if kind.startswith("decimal("):
        return pa.decimal128(*map(int, kind.removeprefix("decimal(").removesuffix(")").split(",")))
    return TYPES[kind]


def converted(batch: pa.RecordBatch, fields: Sequence[Field], schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a batch in the types of a schema; after them it has the dimensions of arrays."""
    dimensions = iter(range(len(fields), batch.num_columns))
    arrays = []
    for place, field in enumerate(fields):
        if field.is_array:
            check_flat(batch.column(next(dimensions)), field)
        arrays.append(column_as(batch.column(place), field, schema.field(place).type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def check_flat(dimensions: pa.Array, field: Field) -> None:
    """Arrow has lists: an array of several dimensions, or that begins elsewhere, would lose its form."""
    ends = pc.min_max(dimensions)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    if most is not None and most > 1:
        raise refused(field, f"an array of {most} dimensions")
    if least == 0:
        raise refused(field, "an array whose first index is not 1")


def column_as(array: pa.Array, field: Field, kind: pa.DataType) -> pa.Array:
    element = field.type.removeprefix("array<").removesuffix(">")
    if element in CHECKED:
        check_range(array.flatten() if field.is_array else array, field, element)
    try:
        return array.cast(kind)
    except pa.ArrowInvalid as error:
        raise refused(field, str(error)) from error


def check_range(array: pa.Array, field: Field, element: str) -> None:
    unit = 1 if element == "date" else MICROSECONDS
    ends = pc.min_max(array.view(pa.int32() if element == "date" else pa.int64()))
    least, most = ends["min"].as_py(), ends["max"].as_py()
    if least is not None and (least < FIRST_DAY * unit or most >= (LAST_DAY + 1) * unit):
        raise refused(field, "a value that is infinite or not in the years 1 to 9999")


def refused(field: Field, what: str) -> InputError:
    return InputError(
        f"column {field.name!r} has what {field.type} does not: {what}\n"
        f"HINT:  Read the column as text, by schema() with {field.name!r} as string."
    )
