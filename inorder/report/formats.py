"""Results as data on stdout: JSON or CSV rows, one a line of the table."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from inorder.lab.stats import Estimate

FORMATS = ("table", "json", "csv")


def flat(row: Any) -> dict[str, Any]:
    """A dataclass as plain columns; an estimate becomes three.

    >>> from inorder.report.generators import GeneratorSummary
    >>> list(flat(GeneratorSummary("x", Estimate(1.0, 0.5, 1.5, 3), None, None, None)))[:4]
    ['name', 'call_ns', 'call_ns_low', 'call_ns_high']
    """
    assert is_dataclass(row)
    columns: dict[str, Any] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if isinstance(value, Estimate):
            columns |= {field.name: value.median, f"{field.name}_low": value.low, f"{field.name}_high": value.high}
        elif not isinstance(value, tuple):
            columns[field.name] = value
    return columns


def as_json(records: Sequence[dict[str, Any]]) -> str:
    """A JSON array of objects."""
    return json.dumps(list(records), indent=1)


def as_csv(records: Sequence[dict[str, Any]]) -> str:
    """CSV with a header; every column that any row has.

    >>> as_csv([{"a": 1}, {"a": 2, "b": 3}]).splitlines()
    ['a,b', '1,', '2,3']
    """
    columns = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().rstrip("\n")


WRITERS = {"json": as_json, "csv": as_csv}
