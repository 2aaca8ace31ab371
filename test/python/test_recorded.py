"""Recorded result files of every experiment give the tables that they gave when they were recorded."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from inorder.lab.catalogue import EXPERIMENTS
from inorder.lab.results import Result, load
from inorder.report.catalogue import report_of

FOLDER = Path(__file__).parent / "recorded"
NAMES = sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz"))


def tables_of(result: Result) -> list[dict[str, Any]]:
    """All tables of a report: the data, and what a page shows of them."""
    return [
        {
            "name": section.name,
            "data": section.records() if section.data else [],
            "page": section.of_columns(lambda column: column.page).shown(),
        }
        for section in report_of(result).sections(result)
    ]


def read(path: Path) -> Any:
    """What is in a compressed JSON file."""
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_are_as_recorded(name: str, tmp_path: Path) -> None:
    """Every figure, to the last digit."""
    file = tmp_path / f"{name}.json"
    file.write_bytes(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    found = json.loads(json.dumps(tables_of(load(file))))
    expected = read(FOLDER / "tables" / f"{name}.json.gz")
    assert [table["name"] for table in found] == [table["name"] for table in expected]
    for now, then in zip(found, expected, strict=True):
        assert now == then


def test_every_experiment_is_recorded() -> None:
    """A new experiment records one, too."""
    experiments = {read(FOLDER / f"{name}.json.gz")["experiment"] for name in NAMES}
    assert experiments == set(EXPERIMENTS)
