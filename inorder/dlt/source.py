"""A dlt resource that yields batches of a table. The resource state contains the position after the last batch.

dlt puts rows and state into the same load package. If the extraction fails, there is no package. Each row is therefore
in exactly one package.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import dlt
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from dlt.extract import DltResource

from inorder.arrow.reader import ArrowReader, fields_of_changes, name_beside
from inorder.arrow.types import DIMENSIONS, LIST, Field, as_text, field_of, list_of
from inorder.connection.patience import retries, was_cut_off
from inorder.connection.reading import ACCEPTANCE, Reader, TableColumn
from inorder.connection.session import explained
from inorder.errors import InputError
from inorder.text import quoted

DEFAULT_ROWS, MOST_ROWS = 10_000, 2**31 - 1
MISFIT = "Load the column as text: columns={{{column!r}: {{'data_type': 'text'}}}}"


def require_allowed(start: str, max_rows: int, max_batches: int | None) -> None:
    if not 1 <= max_rows <= MOST_ROWS:
        raise InputError(f"max_rows must be 1 to {MOST_ROWS:,}, not {max_rows}")
    if max_batches is not None and max_batches < 1:
        raise InputError(f"max_batches must be at least 1, not {max_batches}")
    if start not in ("beginning", "now"):
        raise InputError(f"start must be beginning or now, not {quoted(start)}")


def feed_table(
    dsn: str,
    table: str,
    *,
    start: str = "beginning",
    max_rows: int = DEFAULT_ROWS,
    max_batches: int | None = None,
    accept_origin: bool = False,
    changes: bool = False,
    **hints: Any,
) -> DltResource:
    """Create a dlt resource with the rows of an insert-only table that were committed since the last run.

    With ``changes``, the resource yields the changes of a table with updates and deletes, which changes_enable() logs.
    dlt merges the changes by primary key.

    ``dsn`` is a libpq connection string. ``start`` is where the first run begins: at the ``beginning``, or ``now`` for
    rows that commit later. A run ends with the transactions that had ended at its start, or after ``max_batches``
    batches of ``max_rows`` rows. ``accept_origin`` continues after a switchover or pg_upgrade. The hints are arguments
    of ``dlt.resource``: name (by default, the table's name), write_disposition (append), primary_key and so on.
    """
    require_allowed(start, max_rows, max_batches)

    def rows() -> Iterator[pa.Table]:
        requested = by_column(hints.get("columns"))
        fields = partial(fields_for, requested)
        of_changes = partial(fields_of_changes, fields=fields)
        arrow = ArrowReader(MISFIT, of_changes, rows="reader_changes") if changes else ArrowReader(MISFIT, fields)
        reader, state = Reader(dsn, table, accept_origin), dlt.current.resource_state()
        try:
            column_hints = {name: hint for name, hint in hints_for(reader.columns()).items() if name not in requested}
            positions = reader.log() if changes else reader
            read = batches(positions, arrow, state, start, max_rows, max_batches, reader)
            yield from copied(reader, positions, state, read, column_hints) if changes else marked(read, column_hints)
        finally:
            arrow.close()
            reader.close()

    name, disposition = table.rpartition(".")[2].strip('"'), "merge" if changes else "append"
    return dlt.resource(rows, **{"name": name, "write_disposition": disposition} | hints)


def marked(read: Iterator[pa.Table], column_hints: dict[str, Any]) -> Iterator[pa.Table]:
    for batch in read:
        yield dlt.mark.with_hints(batch, dlt.mark.make_hints(columns=column_hints))


def copied(
    reader: Reader, positions: Reader, state: dict[str, Any], read: Iterator[pa.Table], column_hints: dict[str, Any]
) -> Iterator[pa.Table]:
    """Yield batches of changes, with hints that tell dlt how to merge the rows.

    A batch with the whole table is the last batch of a run. It replaces the table at the destination.
    """
    key = [column.name for column in reader.columns() if column.is_key]
    before = state.get("position")
    if before is not None:
        reader.require_logged(positions, before)
    for number, batch in enumerate(read):
        op, version, *_names = batch.column_names
        is_whole = batch[op][0].as_py() == "resync"
        if is_whole and number:
            state["position"] = before
            return
        before = state["position"]
        deleted = name_beside("deleted", batch.column_names)
        rows = batch.slice(1) if is_whole else batch
        rows = rows.set_column(0, deleted, pc.equal(rows[op], "delete"))
        marks = column_hints | {deleted: {"hard_delete": True}, version: {"dedup_sort": "desc"}}
        disposition = "replace" if is_whole else "merge"
        yield dlt.mark.with_hints(
            rows, dlt.mark.make_hints(columns=marks, primary_key=key, write_disposition=disposition)
        )
        if is_whole:
            return


def by_column(hints: Any) -> dict[str, Any]:
    """Return the caller's column hints by column name. They may be a dictionary, a list or a pydantic model.

    >>> by_column([{"name": "n", "data_type": "text"}]), by_column(None)
    ({'n': {'name': 'n', 'data_type': 'text'}}, {})
    """
    if isinstance(hints, (list, tuple)):
        return {str(hint["name"]): hint for hint in hints}
    return hints if isinstance(hints, dict) else getattr(hints, "model_fields", {})


def hints_for(columns: Sequence[TableColumn]) -> dict[str, Any]:
    """Return hints for columns that are strings in Arrow, but have a type of their own in dlt.

    >>> hints_for([TableColumn("n", "integer", "int4"), TableColumn("body", "jsonb", "jsonb")])
    {'body': {'data_type': 'json'}}
    """
    return {column.name: {"data_type": "json"} for column in columns if column.type in ("json", "jsonb")}


def fields_for(requested: Mapping[str, Any], columns: Sequence[TableColumn]) -> list[Field]:
    return [field_for(column, requested.get(column.name)) for column in columns]


def field_for(column: TableColumn, hint: Any) -> Field:
    """Return a column with an Arrow type that dlt supports, or with the type in the caller's hint.

    >>> uuids, number = TableColumn("u", "uuid[]", "_uuid", -1, "uuid"), TableColumn("n", "numeric", "numeric")
    >>> field_for(uuids, None).type, field_for(number, None).type
    (ListType(list<element: string>), DataType(string))
    >>> field_for(number, {"data_type": "decimal", "precision": 38, "scale": 12}).type
    Decimal128Type(decimal128(38, 12))
    """
    hints = hint if isinstance(hint, dict) else {}
    if hints.get("data_type") == "text":
        return as_text(column)
    if hints.get("data_type") == "decimal" and column.type == "numeric":
        kind = pa.decimal128(hints.get("precision", 38), hints.get("scale", 9))
        return Field(column, "{column}::pg_catalog.text", kind)
    field = field_of(column)
    if pa.types.is_list(field.type) and is_extension(field.type.value_type):
        return Field(column, LIST.replace("SENT", "::pg_catalog.text[]"), list_of(pa.string()), DIMENSIONS)
    inner_fields = list(field.type) if pa.types.is_struct(field.type) else [field]
    return as_text(column) if any(is_extension(inner.type) for inner in inner_fields) else field


def is_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


def batches(
    reader: Reader, arrow: ArrowReader, state: dict[str, Any], start: str, max_rows: int, max_batches: int | None,
    table: Reader | None = None,
) -> Iterator[pa.Table]:  # fmt: skip
    """Yield the rows, batch by batch. ``table`` is the table to read if ``reader`` reads its change log.

    The position after a batch is stored in the state before the batch is yielded, because dlt may stop at a yield
    (add_limit). A batch without rows is skipped. If the server ends a read early, the next attempt reads half as many
    rows.
    """
    database = reader.table().database
    if state.setdefault("database", database) != database:
        stored = quoted(state["database"])
        raise InputError(f"the state belongs to the database {stored}, and this is {quoted(database)}")
    if "position" not in state:
        state["position"] = reader.start(start)
    end, yielded, limit, more_tries = reader.start("now"), 0, max_rows, retries()
    while (max_batches is None or yielded < max_batches) and reader.has_rows(state["position"]):
        after = reader.next(state["position"], limit, until=end)
        if after is None:
            return
        try:
            blocks = rows_between(reader, arrow, state["position"], after, table or reader)
        except psycopg.Error as error:
            if not was_cut_off(error) or next(more_tries, None) is None:
                raise explained(error, ACCEPTANCE) from error
            limit = max(limit // 2, 1)
            continue
        limit, more_tries = min(2 * limit, max_rows), retries()
        state["position"] = after
        if any(rows.num_rows for rows in blocks):
            yield pa.Table.from_batches(blocks)
            yielded += 1


def rows_between(reader: Reader, arrow: ArrowReader, start: str, end: str, table: Reader) -> list[pa.RecordBatch]:
    return [rows for piece in reader.slices(start, end)
            for rows in arrow.of_batch(*table.opened(), piece.batch, reader.usable(end))]  # fmt: skip
