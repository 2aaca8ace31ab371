"""Record a result file and the tables of its report: python test/python/record.py NAME FILE."""

import gzip
import json
import sys
from pathlib import Path

from inorder.lab.results import journal

from replay import RECORDED, tables_of


def record(name: str, file: Path) -> None:
    """Write the files that test_recorded.py and test_experiments.py read."""
    parts = {"": file.read_bytes(), "tables": json.dumps(tables_of(journal.load(file)), separators=(",", ":")).encode()}
    for folder, content in parts.items():
        (RECORDED / folder / f"{name}.json.gz").write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]))
