"""Counts by group after a dump was restored in parts or into the same database."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from inorder.connection.database import Connection
from inorder.lab.server.cluster import Cluster

from conftest import copy_of
from counted_groups import FOLD, PARTS, PLAIN, difference, stands, start
from world.server import run_program
from world.sql import run

pytestmark = [pytest.mark.server, pytest.mark.editions]

PLAIN_AND_PARTS = pytest.mark.parametrize("tables", [PLAIN, PARTS], ids=["plain", "partitions"])


def dumped(cluster: Cluster, database: str, folder: Path, *options: str) -> str:
    file = str(folder / "dump")
    result = run_program(cluster, "pg_dump", "--format=custom", *options, "-f", file, database)
    assert result.returncode == 0, result.stderr
    return file


def restore(cluster: Cluster, database: str, file: str, *options: str) -> None:
    result = run_program(cluster, "pg_restore", "--exit-on-error", "--no-owner", *options, "-d", database, file)
    assert result.returncode == 0, result.stderr


def play(connection: Connection) -> None:
    """Check that the view equals GROUP BY before and after the first fold.

    The view counts the table before that fold, and reads the stored counts afterwards.
    """
    assert difference(connection) == []
    for statement in ("INSERT INTO orders VALUES (-2, 'new')", FOLD, "DELETE FROM orders WHERE id < 9"):
        run(connection, statement)
        assert difference(connection) == [], statement
    assert stands(connection)


@PLAIN_AND_PARTS
@pytest.mark.parametrize(
    "options",
    [("--section=pre-data", "--section=data", "--section=post-data"), ("--schema-only", "--data-only")],
    ids=["sections", "schema and data"],
)
def test_rows_of_a_dump_restored_in_parts_are_counted_once(
    fresh: Connection, cluster: Cluster, tables: Sequence[str], options: Sequence[str], tmp_path: Path
) -> None:
    """If the triggers are restored before the data, they count the data."""
    start(fresh, tables)
    run(fresh, "INSERT INTO orders VALUES (-1, 'unfolded')")
    file = dumped(cluster, fresh.info.dbname, tmp_path)
    with copy_of("template1", cluster, "restored") as restored:
        for option in options:
            restore(cluster, "restored", file, option)
        run(restored, "SET search_path = public, inorder")
        play(restored)


@PLAIN_AND_PARTS
@pytest.mark.parametrize("emptied", [(), ("DELETE FROM orders_by_status_deltas",), ("TRUNCATE orders",)])
def test_rows_restored_where_they_were_deleted_are_counted_once(
    fresh: Connection, cluster: Cluster, tables: Sequence[str], emptied: Sequence[str], tmp_path: Path
) -> None:
    """Rows are counted when they are restored. The restored deltas must not count them again."""
    start(fresh, tables)
    run(fresh, "INSERT INTO orders VALUES (-1, 'unfolded')")
    file = dumped(cluster, fresh.info.dbname, tmp_path, "--data-only", "--schema=public")
    run(fresh, "DELETE FROM orders", *emptied)
    restore(cluster, fresh.info.dbname, file)
    assert stands(fresh) == (emptied == ())
    play(fresh)
