"""The writers experiment: rows that the order check counts as misplaced, rows that each form writes, and turns."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from inorder.connection.database import Connection, connect
from inorder.errors import InorderError
from inorder.installations import Installation
from inorder.lab.experiments.writers import STATEMENT_ROWS, WritersExperiment, count_misplaced
from inorder.lab.experiments.writers.forms import (
    BASELINE,
    CACHED,
    FORMS,
    LOCK,
    LOCK_CACHED,
    LOCK_KEPT,
    OWN_TABLE,
    PARTITION_TRIGGER,
    STATEMENTS,
    TABLE,
    TABLE_FORMS,
    XACT,
    WritersPlan,
    by_writer,
    one_table,
)
from inorder.lab.instruments import pgbench
from inorder.lab.plan.turn import Progress
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.throw_away import ThrowAway

from world.sql import run, value

CLIENTS = 4
TRANSACTIONS = 5
CONCURRENT = (BASELINE, CACHED, LOCK_KEPT)  # forms that do not order the ids


# --- the order check ----------------------------------------------------------


@pytest.fixture
def log(connection: Connection) -> Iterator[Connection]:
    connection.execute("CREATE TABLE ids (id bigint)")
    yield connection
    connection.execute("DROP TABLE ids")


def misplaced(connection: Connection, transactions: Sequence[Sequence[int]]) -> int:
    for ids in transactions:
        connection.execute("INSERT INTO ids SELECT unnest(%s::bigint[])", (list(ids),))
    rows, misplaced_rows = count_misplaced(connection, ["ids"])
    assert rows == sum(map(len, transactions))
    return misplaced_rows


@pytest.mark.server
@pytest.mark.parametrize(
    ("transactions", "expected"),
    [
        ([], 0),
        ([[1], [2], [3]], 0),
        ([[10], [20, 30], [500]], 0),  # gaps do not count
        ([[3, 2, 1], [6, 5, 4]], 0),  # the order within a transaction does not count
        ([[2], [1]], 2),
        ([[1], [3], [2], [4]], 2),
        ([[1, 3], [2, 4]], 2),
        ([[2], [3], [4], [1]], 4),  # the late row displaces all rows that it should precede
        ([[1001, 1002], [1, 2, 3]], 5),
    ],
)
def test_misplaced_rows_are_counted(log: Connection, transactions: list[list[int]], expected: int) -> None:
    assert misplaced(log, transactions) == expected


@pytest.mark.server
def test_every_row_that_a_shuffle_moves_is_misplaced(log: Connection) -> None:
    ids = random.Random(5).sample(range(60), 60)
    assert misplaced(log, [[number] for number in ids]) == sum(place != number for place, number in enumerate(ids)) > 0


@pytest.mark.server
def test_misplaced_rows_of_each_table_are_counted_separately(log: Connection) -> None:
    log.execute("CREATE TABLE other_ids (id bigint)")
    try:
        log.execute("INSERT INTO ids VALUES (7)")
        log.execute("INSERT INTO other_ids VALUES (1)")
        assert count_misplaced(log, ["ids", "other_ids"]) == (2, 0)
        log.execute("INSERT INTO ids TABLE other_ids")
        assert count_misplaced(log, ["ids", "other_ids"]) == (3, 2)
    finally:
        log.execute("DROP TABLE other_ids")


@pytest.mark.server
def test_transactions_are_in_order_across_the_end_of_32_bits(server: Installation) -> None:
    with Cluster(server) as cluster:
        cluster.start()
        with connect(cluster.dsn) as connection:
            connection.execute("VACUUM (FREEZE)")
        cluster.stop()
        resetwal: list[str | Path] = [server.program("pg_resetwal"), "-D", cluster.data, "-x", str(2**32 - 8)]
        done = cluster._run(resetwal)
        assert done.returncode == 0, done.stderr
        segment = cluster.data / "pg_xact" / "0FFF"
        segment.write_bytes(bytes(2**18))
        segment.chmod(0o666)
        cluster.start()
        with connect(cluster.dsn) as connection:
            connection.execute("CREATE TABLE ids (id bigint)")
            assert misplaced(connection, [[number] for number in range(30)]) == 0
            numbers = [int(str(row[0])) for row in connection.execute("SELECT xmin FROM ids ORDER BY id")]
            assert numbers[0] > 2**31 > numbers[-1]


# --- effects of each form on a server ------------------------------------------


class Few(WritersExperiment):
    def load(self, clients: int) -> pgbench.Load:
        return pgbench.Load(clients, CLIENTS, transactions=TRANSACTIONS)


@pytest.fixture(scope="module")
def bench(server: Installation) -> Iterator[Few]:
    """Yield the experiment on a separate server, because each turn recreates the schema."""
    with Cluster(server) as cluster:
        few = Few(WritersPlan(clients=(CLIENTS,)), ThrowAway(cluster), Progress())
        few.prepare()
        yield few


@pytest.mark.server
@pytest.mark.parametrize("rows", STATEMENT_ROWS)
@pytest.mark.parametrize("form", FORMS)
def test_each_form_writes_its_rows_where_they_belong(bench: Few, form: str, rows: int) -> None:
    metrics = bench.measure(form, CLIENTS, rows, 1)
    assert metrics["written"] == CLIENTS * TRANSACTIONS * rows
    assert form in CONCURRENT or metrics["misplaced"] == 0
    assert metrics["wal_bytes"] > 200 * metrics["written"] and metrics["tps"] > 0
    assert metrics["rows_per_second"] == metrics["tps"] * rows
    each = {name: metrics[f"{name}_ms"] for name in STATEMENTS.get(form, ())}
    assert ("lock_ms" in metrics) == (form in STATEMENTS) and sum(each.values()) <= 1.1 * metrics["latency_ms"]
    tables = FORMS[form].tables(CLIENTS)
    assert len(tables) in (1, CLIENTS)
    with bench.connection() as connection:
        assert [value(connection, f"SELECT count(*) FROM {table}") for table in tables] == (
            [metrics["written"] / len(tables)] * len(tables)
        )
        assert value(connection, f"SELECT count(DISTINCT (c1, c2, c5)) FROM {tables[0]}") == 1
        if len(tables) > 1 and form != OWN_TABLE:
            assert value(connection, f"SELECT count(DISTINCT id) FROM {TABLE}") == metrics["written"]
            assert value(connection, f"SELECT bool_and(writer = 2) FROM {tables[2]}") is True
        if form == PARTITION_TRIGGER:
            assert value(connection, f"SELECT count(*) FROM ONLY {TABLE}") == 0


def chosen(script: Sequence[str], writer: int) -> list[str]:
    """Return the statements of a script that pgbench would execute for this writer."""
    done, branches = [], [True]
    for line in script:
        if line.startswith("\\if "):
            branches.append(branches[-1] and writer < int(line.rpartition(" ")[2]))
        elif line == "\\else":
            branches[-1] = branches[-2] and not branches[-1]
        elif line == "\\endif":
            branches.pop()
        elif branches[-1]:
            done.append(line)
    return done


@pytest.mark.parametrize("writers", [1, 2, 3, 16, 512])
def test_each_writer_has_its_statement(writers: int) -> None:
    script = by_writer([f"INSERT {number}" for number in range(writers)])
    assert [chosen(script, number) for number in range(writers)] == [[f"INSERT {number};"] for number in range(writers)]


@pytest.mark.server
@pytest.mark.parametrize("form", TABLE_FORMS)
def test_one_session_writes_into_all_tables(bench: Few, form: str) -> None:
    metrics = bench.measure(form, 1, 600, 1, tables=3)
    with bench.connection() as connection:
        rows = [int(value(connection, f"SELECT count(*) FROM {table}")) for table in FORMS[form].tables(3)]
        connection.execute(f"DROP TABLE IF EXISTS {', '.join(FORMS[form].tables(3))} CASCADE".encode())
    assert sum(rows) == metrics["written"] == TRANSACTIONS * 600 and all(count % 600 == 0 for count in rows)
    assert sum(count > 0 for count in rows) > 1 and metrics["misplaced"] == 0


@pytest.mark.server
@pytest.mark.parametrize(("form", "ids", "expected"), [(LOCK_KEPT, [1, 1001, 2, 1002], 2), (LOCK, [1, 2, 3, 4], 0)])
def test_a_lock_alone_does_not_order_cached_ids(bench: Few, form: str, ids: list[int], expected: int) -> None:
    assert alternately(bench, form) == (ids, expected)


@pytest.mark.server
def test_cached_ids_that_a_session_forgets_are_gaps(bench: Few) -> None:
    assert alternately(bench, LOCK_CACHED) == ([1, 1001, 2001, 3001], 0)


def alternately(bench: Few, form: str) -> tuple[list[int], int]:
    how = FORMS[form]
    with bench.connection() as first, bench.connection() as second:
        bench.create(first, how, 2)
        for session in (first, second, first, second):
            run(session, *how.script(2, 1))
        rows = first.execute(f"SELECT id FROM {TABLE} ORDER BY c11".encode()).fetchall()
        return [int(str(row[0])) for row in rows], count_misplaced(first, [TABLE])[1]


@pytest.mark.server
def test_the_feeds_form_is_guarded_and_can_be_read(bench: Few) -> None:
    bench.measure(XACT, CLIENTS, 1, 1)
    with bench.connection() as connection:
        connection.execute(f"SELECT feed_create('writers', '{TABLE}', start => 'beginning')".encode())
        read = value(connection, f"SELECT count(DISTINCT id) FROM feed_read('writers', null::{TABLE})")
        assert read == CLIENTS * TRANSACTIONS
        with pytest.raises(Exception, match="transaction"):
            connection.execute(f"INSERT INTO {TABLE} (id) VALUES (uuid_xact_floor(1))".encode())


@pytest.mark.server
def test_rows_that_are_missing_are_an_error(bench: Few, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMS, BASELINE, one_table("", behind=(f"DELETE FROM {TABLE} WHERE id = 3",)))
    with pytest.raises(InorderError, match="plain: 19 rows of 20 statements of 1"):
        bench.measure(BASELINE, CLIENTS, 1, 1)
