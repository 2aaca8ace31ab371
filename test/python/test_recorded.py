"""Recorded result files of every experiment give the tables that they gave when they were recorded."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from replay import RECORDED, recorded, recorded_names, tables_of

NAMES = recorded_names()


def read(path: Path) -> Any:
    """What is in a compressed JSON file."""
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_are_as_recorded(name: str) -> None:
    """Every figure, to the last digit."""
    found = json.loads(json.dumps(tables_of(recorded(name))))
    expected = read(RECORDED / "tables" / f"{name}.json.gz")
    assert [table["name"] for table in found] == [table["name"] for table in expected]
    for now, then in zip(found, expected, strict=True):
        assert now == then
