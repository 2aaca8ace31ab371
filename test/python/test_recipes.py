"""Each recipe of docs/recipes.md is compared with the usual method, and delivers rows that the usual method loses."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster
from psycopg import sql
from pyarrow import parquet

from conftest import copy_of, text
from examples import programs
from tail_runs import Tail
from world.sql import value

pytestmark = pytest.mark.server

BLOCKS = programs("docs/recipes.md") | {"events: project": text("docs/recipes/project.py")}
(EXPORT,) = re.findall(r"^inorder tail (clicks .*)$", text("docs/recipes.md"), re.M)
DAY = "2024-05-01"


@pytest.fixture
def shop(cluster: Cluster, template: str) -> Iterator[Connection]:
    with copy_of(template, cluster, "recipes") as connection:
        yield connection


@pytest.fixture
def other(shop: Connection, cluster: Cluster) -> Iterator[Connection]:
    with connect(f"{cluster.dsn} dbname=recipes") as connection:
        yield connection


def run(connection: Connection, name: str, **values: object) -> list[tuple[Any, ...]]:
    statement = re.sub(r"(?<!:):(\w+)", lambda match: sql.Literal(values[match[1]]).as_string(connection), BLOCKS[name])
    cursor = connection.execute(statement.encode())
    while cursor.nextset():
        pass
    return cursor.fetchall() if cursor.description else []


def function(name: str) -> Callable[..., Any]:
    defined: dict[str, Any] = {}
    exec(BLOCKS[name], defined)
    return defined[name.split(": ")[1]]  # type: ignore[no-any-return]


def test_the_subscription_to_an_event_store_loses_no_event(shop: Connection, other: Connection) -> None:
    run(shop, "events: tables")
    shop.execute("SELECT feed_create('unordered', 'events')")
    project = function("events: project")
    with other.transaction():
        run(other, "events: append", stream="a", amount=1)
        run(shop, "events: append", stream="b", amount=10)
        usual = run(shop, "events: usual way", last=0)
        assert project(shop) == 1
        run(other, "events: append", stream="c", amount=5)
        run(shop, "events: append", stream="d", amount=100)
        run(other, "events: append", stream="d", amount=200)
    usual += run(shop, "events: usual way", last=usual[-1][0])
    assert ("a", 1) not in [(stream, version) for _, stream, version in usual]
    unordered = shop.execute("SELECT stream, version FROM feed_read('unordered', null::events)").fetchall()
    assert [row for row in unordered if row[0] == "d"] == [("d", 2), ("d", 1)]
    while project(shop, 1):
        pass
    balances = shop.execute("SELECT stream, version, balance FROM balances ORDER BY stream").fetchall()
    assert balances == [("a", 1, 1), ("b", 1, 10), ("c", 1, 5), ("d", 2, 300)]


def test_the_projection_notices_rows_out_of_order(shop: Connection, other: Connection) -> None:
    run(shop, "events: tables")
    shop.execute("SELECT feed_drop('balances'), feed_create('balances', 'events')")
    with other.transaction():
        run(other, "events: append", stream="a", amount=1)
        run(shop, "events: append", stream="d", amount=100)
        run(other, "events: append", stream="d", amount=200)
    for _ in range(2):
        with pytest.raises(ValueError, match="version 2 of stream d is out of order"):
            function("events: project")(shop)


@pytest.mark.parametrize("overlap", ["0", "1 hour"])
def test_the_incremental_model_has_late_rows(shop: Connection, other: Connection, overlap: str) -> None:
    run(shop, "model: tables")
    shop.execute("CREATE TABLE usual (LIKE sales INCLUDING ALL)")

    def models() -> None:
        with shop.transaction():
            run_as_usual(shop, overlap)
        with shop.transaction():
            run(shop, "model: run")

    with other.transaction():
        # These are the values that now() would have: the first transaction began at ten, and the other at noon.
        insert(other, f"{DAY} 10:00", 1)
        insert(shop, f"{DAY} 12:00", 2)
        models()
    models()
    insert(shop, f"{DAY} 13:00", 4)
    models()
    amounts = {
        name: value(shop, f"SELECT array_agg(amount ORDER BY amount) FROM {name}") for name in ("usual", "sales")
    }
    assert amounts == {"usual": [2, 4], "sales": [1, 2, 4]}


def insert(connection: Connection, at: str, amount: int) -> None:
    connection.execute("INSERT INTO orders (at, amount) VALUES (%s, %s)", [at, amount])


def run_as_usual(connection: Connection, overlap: str) -> None:
    statement = BLOCKS["model: usual way"].replace("sales", "usual").replace(":overlap", f"'{overlap}'")
    connection.execute(statement.encode())


def test_a_failed_run_of_the_model_does_not_move_its_position(shop: Connection) -> None:
    run(shop, "model: tables")
    insert(shop, f"{DAY} 10:00", 1)
    with pytest.raises(psycopg.errors.DivisionByZero), shop.transaction():
        run(shop, "model: run")
        shop.execute("SELECT 1 / 0")
    with shop.transaction():
        run(shop, "model: run")
    assert value(shop, "SELECT count(*) FROM sales") == 1


def test_the_export_has_late_rows(shop: Connection, other: Connection, cluster: Cluster, tmp_path: Path) -> None:
    run(shop, "export: tables")
    tail = Tail(cluster, tmp_path, "recipes")
    statement = "INSERT INTO clicks (at, body) VALUES (%s, %s)"
    with closing(other), other.transaction():
        other.execute(statement, [f"{DAY} 10:30", "late"])
        shop.execute(statement, [f"{DAY} 10:31", "early"])
        usual = run(shop, "export: usual way", hour=f"{DAY} 10:00")
        assert tail(*EXPORT.split()) == ""
    shop.execute(statement, [f"{DAY} 11:30", "next"])
    usual += run(shop, "export: usual way", hour=f"{DAY} 11:00")
    before = {path: path.read_bytes() for path in (tmp_path / "clicks").glob("*.parquet")}
    assert tail(*EXPORT.split()) == ""
    files = list((tmp_path / "clicks").glob("*.parquet"))
    assert len(before) == 1 and {path: path.read_bytes() for path in before} == before
    exported = [body for path in files for body in parquet.read_table(path).column("body").to_pylist()]
    assert [row[2] for row in usual] == ["early", "next"]
    assert sorted(exported) == ["early", "late", "next"]
