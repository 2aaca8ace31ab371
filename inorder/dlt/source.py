"""The resource: batches of a table, and the position after them in the state of the resource.

dlt puts rows and state into one load package, and neither if the extraction fails: a row is in a package exactly once.
"""

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import dlt
from dlt.extract import DltResource

from inorder.connection.reading import Column, Reader
from inorder.errors import InputError

DEFAULT_ROWS, MOST_ROWS = 10_000, 2**31 - 1


def feed_table(
    dsn: str,
    table: str,
    *,
    start: str = "beginning",
    max_rows: int = DEFAULT_ROWS,
    max_batches: int | None = None,
    accept_origin: bool = False,
    **hints: Any,
) -> DltResource:
    """The rows of an insert-only table that were committed since the last run, as a resource.

    dsn is a connection string of libpq. start is where the first run begins: at the ``beginning``, or ``now`` for rows
    that commit later. A run ends with the transactions that had ended when it began, or after max_batches batches of
    max_rows rows. accept_origin continues after a switchover or pg_upgrade. The hints are those of ``dlt.resource``:
    name (by default that of the table), write_disposition (append), primary_key and so on.
    """
    if not 1 <= max_rows <= MOST_ROWS:
        raise InputError(f"max_rows is {max_rows} and must be from 1 to {MOST_ROWS:,}")
    if max_batches is not None and max_batches < 1:
        raise InputError(f"max_batches is {max_batches} and must be at least 1")
    if start not in ("beginning", "now"):
        raise InputError(f"start is {start!r} and must be beginning or now")

    def rows() -> Iterator[list[dict[str, object]]]:
        reader = Reader(dsn, table, accept_origin)
        try:
            given = by_column(hints.get("columns"))
            found = {name: hint for name, hint in hints_for(reader.columns()).items() if name not in given}
            for batch in batches(reader, dlt.current.resource_state(), start, max_rows, max_batches):
                yield dlt.mark.with_hints(loadable(batch, found | given), dlt.mark.make_hints(columns=found))
        finally:
            reader.close()

    defaults = {"name": table.rpartition(".")[2].strip('"'), "write_disposition": "append"}
    return dlt.resource(rows, **defaults | hints)


def by_column(hints: Any) -> dict[str, Any]:
    """What the caller says of columns: in a dictionary, a list, or a model of pydantic.

    >>> by_column([{"name": "n", "data_type": "text"}]), by_column(None)
    ({'n': {'name': 'n', 'data_type': 'text'}}, {})
    """
    if isinstance(hints, (list, tuple)):
        return {str(hint["name"]): hint for hint in hints}
    return hints if isinstance(hints, dict) else getattr(hints, "model_fields", {})


def hints_for(columns: Sequence[Column]) -> dict[str, Any]:
    """Of numbers, which dlt would round to nine places: as declared, or as text if any form is allowed.

    >>> number = Column("n", "numeric(12,2)", "numeric", (12 << 16 | 2) + 4)
    >>> hints_for([number, Column("m", "numeric", "numeric")])
    {'n': {'data_type': 'decimal', 'precision': 12, 'scale': 2}, 'm': {'data_type': 'text'}}
    """
    found: dict[str, Any] = {}
    for column in columns:
        if column.decimal:
            digits, scale = column.decimal
            found[column.name] = {"data_type": "decimal", "precision": digits, "scale": scale}
        elif column.type == "numeric":
            found[column.name] = {"data_type": "text"}
    return found


def loadable(rows: list[dict[str, object]], hints: dict[str, Any]) -> list[dict[str, object]]:
    """Rows with numbers as the hints say; an error for one that dlt would make null of, or cannot load.

    >>> loadable([{"n": Decimal("1.50")}], {"n": {"data_type": "text"}})
    [{'n': '1.50'}]
    """
    texts = {name for name, hint in hints.items() if isinstance(hint, dict) and hint.get("data_type") == "text"}
    for row in rows:
        for name, value in row.items():
            if isinstance(value, (float, Decimal)):
                row[name] = str(value) if name in texts else finite(name, value)
    return rows


def finite(name: str, value: float | Decimal) -> float | Decimal:
    if not math.isfinite(value):
        raise InputError(
            f"column {name!r} has the value {value}, which dlt does not load\n"
            f"HINT:  As text it does: columns={{{name!r}: {{'data_type': 'text'}}}}"
        )
    return value


def batches(
    reader: Reader, state: dict[str, Any], start: str, max_rows: int, max_batches: int | None
) -> Iterator[list[dict[str, object]]]:
    """The rows of batch after batch; the state has the position after those that are handed out.

    A batch is handed out as a whole, and its position is kept before: dlt may want no more (add_limit).
    """
    database = reader.table().database
    if state.setdefault("database", database) != database:
        raise InputError(f"the state has a position in the database {state['database']!r}, this is {database!r}")
    if "position" not in state:
        state["position"] = reader.start(start)
    end, done = reader.start("now"), 0
    while (max_batches is None or done < max_batches) and reader.has_rows(state["position"]):
        after = reader.next(state["position"], max_rows, until=end)
        if after is None:
            return
        rows = [row for part in reader.slices(state["position"], after) for some in reader.rows(part) for row in some]
        state["position"] = after
        yield rows
        done += 1
