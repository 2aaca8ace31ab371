"""Tables on a terminal."""

from collections.abc import Callable

import pytest
from inorder import text
from inorder.count.groups import show_groups
from inorder.feeds.formats import Row, as_table

FEED: Row = {
    "owner": "app_owner", "table": "app.events", "caught_up": False, "lag_seconds": 420, "polled_seconds": 3.2,
    "backlog_rows": 1200, "unfinished_batch": 17, "batch_worker": "a", "worker_batches": 0, "dead_batches": 0,
    "held_seconds": 360, "writers": 1, "holder_pid": 977, "holder_application": "importer",
}  # fmt: skip


def feeds_as_table(rows: int, width: int) -> str:
    return as_table([FEED | {"feed": f"mailer {row}"} for row in range(rows)], width)


def print_groups(rows: int) -> None:
    show_groups([{"status": f"new {row}", "count": row} for row in range(rows)], ["status"], "text", clear=False)


TABLES: dict[str, Callable[[int], object]] = {
    "groups": print_groups,
    "feeds": lambda rows: feeds_as_table(rows, 120),
    "narrow feeds": lambda rows: feeds_as_table(rows, 80),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_cost_of_a_table_is_proportional_to_its_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Column widths were once computed for each row. A table of 3,000 rows then took 14 s."""
    measured: list[str] = []
    cells = text.cells

    def measure(cell: str) -> int:
        measured.append(cell)
        return cells(cell)

    monkeypatch.setattr(text, "cells", measure)
    TABLES[name](10)
    few = len(measured)
    TABLES[name](100)
    assert few and len(measured) - few < 11 * few
