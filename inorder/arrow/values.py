"""Cast the driver's batches to a schema. A value that Arrow cannot represent becomes null, or raises an error."""

import datetime
from collections.abc import Callable, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from inorder.arrow.types import Field
from inorder.connection.patience import changed
from inorder.errors import InputError
from inorder.text import one_line, quoted

EPOCH = datetime.date(1970, 1, 1)
FIRST_DAY = (datetime.date(1, 1, 1) - EPOCH).days
LAST_DAY = (datetime.date(9999, 12, 31) - EPOCH).days
MICROSECONDS = 86_400_000_000  # per day
NO_NUMBERS = pa.array(["NaN", "Infinity", "-Infinity", "nan", "inf", "-inf"])

# Called with a row number and a description of the value. If it raises no error, the value becomes null.
Refused = Callable[[int, str], None]


def converted(batch: pa.RecordBatch, fields: Sequence[Field], schema: pa.Schema, hint: str | None) -> pa.RecordBatch:
    """Cast a batch to the types of a schema. The columns of the schema are the first columns of the batch.

    ``hint`` belongs to the error for a value that Arrow cannot represent. Without a hint, the value becomes null.
    """
    columns = iter(batch.columns)
    field_arrays = [[next(columns) for _ in range(field.width)] for field in fields]
    keys = [(field.name, arrays[0]) for field, arrays in zip(fields, field_arrays, strict=True) if field.column.is_key]
    results = []
    for field, arrays, kind in zip(fields, field_arrays, schema.types, strict=True):
        refused = Misfit(field, keys, hint)
        extra = next(columns) if field.extra else None
        if pa.types.is_struct(kind):
            parts = [column_as(child, kind[place].type, refused) for place, child in enumerate(arrays)]
            results.append(pa.StructArray.from_arrays(parts, fields=list(kind), mask=extra))
        elif pa.types.is_dictionary(kind):
            results.append(labelled(arrays[0], field))
        else:
            if extra is not None:
                check_flat(extra, refused)
            results.append(column_as(arrays[0], kind, refused))
    return pa.RecordBatch.from_arrays(results, schema=schema)


def labelled(texts: pa.Array, field: Field) -> pa.DictionaryArray:
    """Encode strings as enum labels. Raise an error for an unknown string: its label was renamed meanwhile."""
    labels = pa.array(field.column.labels, pa.string())
    places = pc.index_in(texts, labels)
    if places.null_count > texts.null_count:
        raise changed(f"column {quoted(field.column.name)}")
    return pa.DictionaryArray.from_arrays(places, labels)


class Misfit:
    """Handles a value of a column that Arrow cannot represent: raises an error if there is a hint for it."""

    def __init__(self, field: Field, keys: Sequence[tuple[str, pa.Array]], hint: str | None) -> None:
        self.column, self.keys, self.hint = field.column, keys, hint

    def __call__(self, row: int, description: str) -> None:
        if self.hint is not None:
            names, values = (one_line(", ".join(texts)) for texts in (
                [name for name, _ in self.keys], [str(array[row]) for _, array in self.keys],
            ))  # fmt: skip
            place = f" in the row ({names}) = ({values})" if self.keys else ""
            raise InputError(
                f"column {quoted(self.column.name)} of type {one_line(self.column.written)} "
                f"has {description}{place}\n"
                f"HINT:  {self.hint.format(column=self.column.name)}"
            )


def check_flat(dimensions: pa.Array, refused: Refused) -> None:
    """Refuse arrays with several dimensions or a lower bound other than 1. An Arrow list cannot represent them."""
    if (row := pc.index(dimensions, 0).as_py()) >= 0:
        refused(row, "an array whose first index is not 1")
    if (row := pc.index(pc.greater(dimensions, 1), True).as_py()) >= 0:
        refused(row, f"an array of {dimensions[row].as_py()} dimensions")


def column_as(array: pa.Array, kind: pa.DataType, refused: Refused) -> pa.Array:
    """Cast an array. The values of a list are cast, and its offsets are kept.

    The offsets stay valid, because the driver's offsets begin at 0 and its null lists are empty.
    """
    if pa.types.is_list(kind):
        parents = pc.list_parent_indices(array)
        values = column_as(
            array.values, kind.value_type, lambda at, description: refused(parents[at].as_py(), description)
        )
        return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=array.is_null())
    plain = array.storage if isinstance(array, pa.ExtensionArray) and array.type != kind else array
    plain = fitting(plain, kind, refused)
    return plain if plain.type == kind else cast(plain, kind, refused)


def cast(array: pa.Array, kind: pa.DataType, refused: Refused) -> pa.Array:
    """Cast an array. If a value is out of range, cast each value separately.

    A value can be out of range only for a type that the caller has chosen.
    """
    with suppress(pa.ArrowInvalid):
        return array.cast(kind)
    pieces = []
    for row in range(len(array)):
        try:
            pieces.append(array.slice(row, 1).cast(kind))
        except pa.ArrowInvalid as error:
            refused(row, f"a value out of range for {kind} ({error})")
            pieces.append(pa.nulls(1, kind))
    return pa.concat_arrays(pieces)


def fitting(array: pa.Array, kind: pa.DataType, refused: Refused) -> pa.Array:
    """Set each value that the type cannot represent to null, unless ``refused`` raises an error."""
    if (misfits := misfits_of(array, kind)) is None or not pc.any(misfits[0]).as_py():
        return array
    refused(pc.index(misfits[0], True).as_py(), misfits[1])
    return pc.if_else(misfits[0], None, array)


def misfits_of(array: pa.Array, kind: pa.DataType) -> tuple[pa.Array, str] | None:
    if pa.types.is_decimal(kind):
        return pc.is_in(array, NO_NUMBERS), "NaN or an infinity"
    if pa.types.is_date32(kind):
        days = array.view(pa.int32())
        return outside(days, FIRST_DAY, LAST_DAY), "infinity, or a value outside the years 1 to 9999"
    if pa.types.is_timestamp(kind):
        ends = FIRST_DAY * MICROSECONDS, (LAST_DAY + 1) * MICROSECONDS - 1
        return outside(array.view(pa.int64()), *ends), "infinity, or a value outside the years 1 to 9999"
    if pa.types.is_time(kind):
        return pc.greater_equal(array.view(pa.int64()), MICROSECONDS), "24:00"
    return None


def outside(numbers: pa.Array, least: int, most: int) -> pa.Array:
    return pc.or_(pc.less(numbers, least), pc.greater(numbers, most))
