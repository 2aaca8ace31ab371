"""The report of each recorded result still has the tables that were recorded with it."""

import builtins
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from replay import RECORDED, recorded, recorded_names, tables_of

NAMES = recorded_names()
SUM = sum


def read(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def sum_of_whole(values: Iterable[float], start: float = 0) -> float:
    """Return the sum of whole numbers, and fail if there are fractions.

    Since Python 3.12, sum() rounds fractions differently. math.fsum() does not depend on the version.
    """
    numbers = list(values)
    assert all(float(number).is_integer() for number in numbers), (
        "the last digit of this sum depends on the version of Python"
    )
    return SUM(numbers, start)


@pytest.mark.parametrize("name", NAMES)
def test_reports_of_recorded_results_have_the_recorded_tables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "sum", sum_of_whole)
    tables = json.loads(json.dumps(tables_of(recorded(name))))
    expected = read(RECORDED / "tables" / f"{name}.json.gz")
    assert [table["name"] for table in tables] == [table["name"] for table in expected]
    for now, then in zip(tables, expected, strict=True):
        assert now == then
