"""Rows that a Spark executor reads as Arrow batches: each type, and values that Spark cannot represent."""

import datetime
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from decimal import Decimal
from types import SimpleNamespace

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.errors import InorderError, InputError
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from inorder.spark.columns import types_of
from inorder.spark.driver import Driver, Task
from inorder.spark.options import parsed

from conftest import SETTINGS
from tail_runs import insert
from waiting import PATIENCE, wait_for
from world.server import Standby, with_standby

NEEDED = "the extra 'spark' is not installed: script/engines installs it, and runs this"
rows = pytest.importorskip("inorder.spark.rows", reason=NEEDED)

pytestmark = pytest.mark.server

UTC = datetime.UTC


def plan_of(cluster: Cluster, **options: str) -> Driver:
    return Driver(parsed({"dsn": f"{cluster.dsn} dbname=tail", "table": "events"} | options))


def read(plan: Driver, dsn: str, schema: dict[str, str] | None = None, wait: int = 60) -> list[dict[str, object]]:
    with plan:
        names = schema or types_of(plan.fields())
        start = plan.start()
        return rows_of(plan.tasks(start, plan.next(start, None)), dsn, names, wait)


def rows_of(tasks: list[Task], dsn: str, names: dict[str, str], wait: int = 60) -> list[dict[str, object]]:
    batches = [batch for task in tasks for batch in rows.read(dsn, task, names, wait)]
    assert all(batch.schema.names == list(names) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


VALUES = [
    ("boolean", "true", "boolean", True),
    ("smallint", "-32768", "smallint", -32768),
    ("integer", "2147483647", "int", 2147483647),
    ("bigint", "-9223372036854775808", "bigint", -(2**63)),
    ("oid", "4294967295", "bigint", 4294967295),
    ("real", "'NaN'", "float", "nan"),
    ("double precision", "'-Infinity'", "double", float("-inf")),
    ("text", "E'a\\n\\\\\"ü'", "string", 'a\n\\"ü'),
    ("varchar(3)", "'ab '", "string", "ab "),
    ("char(4)", "'ab'", "string", "ab  "),
    ("bytea", "'\\x00ff'", "binary", b"\0\xff"),
    ("date", "'9999-12-31'", "date", datetime.date(9999, 12, 31)),
    ("date", "'0001-01-01'", "date", datetime.date(1, 1, 1)),
    ("timestamp", "'9999-12-31 23:59:59.999999'", "timestamp_ntz", datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("timestamptz", "'2020-01-01 00:00+02'", "timestamp", datetime.datetime(2019, 12, 31, 22, tzinfo=UTC)),
    ("numeric(5,2)", "-999.99", "decimal(5,2)", Decimal("-999.99")),
    ("numeric", "1e40", "string", "1" + "0" * 40),
    ("numeric(50,1)", "0.5", "string", "0.5"),
    ("numeric(2,-3)", "99000", "string", "99000"),
    ("uuid", "'00000000-0000-0000-0000-0000000000ff'", "string", "00000000-0000-0000-0000-0000000000ff"),
    ("jsonb", """'{"a": [1, null]}'""", "string", '{"a": [1, null]}'),
    ("inet", "'10.0.0.1'", "string", "10.0.0.1"),
    ("interval", "'1 mon 2 days'", "string", "1 mon 2 days"),
    ("time", "'24:00'", "string", "24:00:00"),
    ("tstzrange", "'[2020-01-01 00:00+02,)'", "string", '["2019-12-31 22:00:00+00",)'),
    ("integer[]", "'{1,null,3}'", "array<int>", [1, None, 3]),
    ("text[]", "'{}'", "array<string>", []),
    ("numeric(5,2)[]", "'{1.5}'", "array<decimal(5,2)>", [Decimal("1.50")]),
    ("date[]", "'{2020-01-01}'", "array<date>", [datetime.date(2020, 1, 1)]),
    ("inet[]", "'{10.0.0.1}'", "string", "{10.0.0.1}"),
    ("mood", "'fine'", "string", "fine"),
    ("mood[]", "'{fine}'", "string", "{fine}"),
    ("pair", "'(1,)'", "string", "(1,)"),
    ("small", "5", "decimal(5,2)", Decimal("5.00")),
    ("smaller", "4", "decimal(5,2)", Decimal("4.00")),
]


def test_every_type_has_a_type_in_spark(cluster: Cluster, fresh: Connection) -> None:
    fresh.execute("CREATE TYPE mood AS ENUM ('fine')")
    fresh.execute("CREATE TYPE pair AS (a int, b int)")
    fresh.execute("CREATE DOMAIN small AS numeric(5,2)")
    fresh.execute("CREATE DOMAIN smaller AS small CHECK (VALUE < 5)")
    for place, (kind, _, _, _) in enumerate(VALUES):
        fresh.execute(f"""ALTER TABLE events ADD "c {place}%" {kind}""".encode())
    names = ", ".join(f'"c {place}%"' for place in range(len(VALUES)))
    fresh.execute(f"INSERT INTO events (n, {names}) VALUES (1, {', '.join(v for _, v, _, _ in VALUES)}), "
                  f"(2{', null' * len(VALUES)})".encode())  # fmt: skip
    plan = plan_of(cluster)
    kinds = types_of(plan.fields())
    full, empty = sorted(read(plan, f"{cluster.dsn} dbname=tail"), key=lambda row: str(row["n"]))
    for place, (kind, _, expected, value) in enumerate(VALUES):
        name = f"c {place}%"
        assert (kind, kinds[name]) == (kind, expected)
        assert full[name] == value or (str(full[name]) == value == "nan"), (kind, full[name])
        assert empty[name] is None


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("date", "'infinity'", "infinity, or a value outside the years"),
        ("date", "'0001-12-31 BC'", "infinity, or a value outside the years"),
        ("timestamp", "'-infinity'", "infinity, or a value outside the years"),
        ("timestamptz", "'10000-01-01 00:00Z'", "infinity, or a value outside the years"),
        ("date[]", "'{2020-01-01,infinity}'", "infinity, or a value outside the years"),
        ("integer[]", "'{{1,2},{3,4}}'", "an array of 2 dimensions"),
        ("integer[]", "'[2:2][3:3]={{1}}'", "an array of 2 dimensions"),
        ("integer[]", "'[0:1]={1,2}'", "an array whose first index is not 1"),
        ("numeric(5,2)[]", "'[5:6]={1,2}'", "an array whose first index is not 1"),
        ("numeric(5,2)", "'NaN'", "NaN"),
    ],
)
def test_a_value_that_spark_cannot_represent_is_an_error_that_names_the_column(
    cluster: Cluster, fresh: Connection, kind: str, value: str, message: str
) -> None:
    """An error is better than a substitute value. A value without an equivalent in Spark can be read as text."""
    fresh.execute(f"ALTER TABLE events ADD odd {kind}".encode())
    fresh.execute(f"INSERT INTO events (n, odd) VALUES (1, {value})".encode())
    with pytest.raises(InputError) as error:
        read(plan_of(cluster), f"{cluster.dsn} dbname=tail")
    assert 'column "odd"' in str(error.value) and message in str(error.value)
    (row,) = read(plan_of(cluster), f"{cluster.dsn} dbname=tail", {"odd": "string"})
    assert row["odd"] == fresh.execute("SELECT odd::text FROM events").fetchall()[0][0]


def test_a_connection_that_is_lost_while_rows_come_is_an_error_of_this_source(
    cluster: Cluster, fresh: Connection
) -> None:
    fresh.execute("ALTER TABLE events ADD body text")
    fresh.execute("INSERT INTO events (n, body) SELECT g, repeat('x', 1000) FROM generate_series(1, 50000) AS g")
    dsn = f"{cluster.dsn} dbname=tail"
    with plan_of(cluster) as plan:
        start = plan.start()
        (task,) = plan.tasks(start, plan.next(start, None))
    batches = rows.read(dsn, task, {"n": "int", "body": "string"}, 0)
    next(batches)
    fresh.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY (SELECT %'")
    with pytest.raises(InorderError, match="canceling statement due to user request"):
        list(batches)


def test_rows_that_spark_has_received_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark already has the first rows, so a later error ends the task instead of repeating the read."""

    def batches(*_: object) -> Iterator[str]:
        yield "rows"
        raise psycopg.errors.SerializationFailure

    for name, other in (("batches", batches), ("connected", nullcontext), ("wait_for", lambda *_: None)):
        monkeypatch.setattr(rows, name, other)
    read = rows.read("", SimpleNamespace(slice=SimpleNamespace(lsn="")), {}, 0)
    assert next(read) == "rows"
    with pytest.raises(InorderError, match="cannot read a part of the batch"):
        next(read)


def test_a_cast_created_by_a_user_is_not_run(cluster: Cluster, fresh: Connection) -> None:
    """The owner of a type can create a cast from it, and its function would run as the reader."""
    fresh.execute("CREATE TYPE mood AS ENUM ('fine')")
    fresh.execute("CREATE FUNCTION shout(mood) RETURNS text LANGUAGE sql AS $$SELECT 'FINE'$$")
    fresh.execute("CREATE CAST (mood AS text) WITH FUNCTION shout(mood)")
    fresh.execute("ALTER TABLE events ADD mood mood")
    fresh.execute("INSERT INTO events (n, mood) VALUES (1, 'fine')")
    (row,) = read(plan_of(cluster), f"{cluster.dsn} dbname=tail", {"mood": "string"})
    assert row["mood"] == "fine"


def test_changed_columns_give_a_stream_a_clear_error(cluster: Cluster, fresh: Connection) -> None:
    dsn = f"{cluster.dsn} dbname=tail"
    insert(fresh, 1)
    schema = {"id": "string", "n": "int"}
    with plan_of(cluster) as plan:
        start = plan.start()
        tasks = plan.tasks(start, plan.next(start, None))
        fresh.execute("ALTER TABLE events ADD note text DEFAULT 'none'")
        assert [row["n"] for row in rows_of(tasks, dsn, schema)] == [1]
        assert [field.name for field in plan.fields()] == ["id", "n", "note"]
        fresh.execute("ALTER TABLE events ALTER n TYPE bigint")
        with pytest.raises(InputError, match=r'column "n" of public.events is bigint, which is bigint'):
            rows_of(tasks, dsn, schema)
        fresh.execute("ALTER TABLE events DROP n")
        with pytest.raises(InputError, match=r'column "n" is not in public.events'):
            rows_of(tasks, dsn, schema)


def test_another_database_is_refused(cluster: Cluster, fresh: Connection) -> None:
    insert(fresh, 1)
    with connect(cluster.dsn) as admin:
        admin.execute("DROP DATABASE IF EXISTS clone WITH (FORCE)")
        fresh.execute("SELECT 1")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'tail'")
        admin.execute("CREATE DATABASE clone TEMPLATE tail")
    with pytest.raises(InputError, match='read_dsn connects to the database "clone", but dsn to "tail"'):
        read(plan_of(cluster), f"{cluster.dsn} dbname=clone")
    with connect(cluster.dsn) as admin:
        admin.execute("DROP DATABASE clone WITH (FORCE)")


@pytest.fixture(scope="module")
def pair(server: Installation) -> Iterator[tuple[Cluster, Standby]]:
    events = "CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)"
    with with_standby(server, SETTINGS, "CREATE EXTENSION inorder", events, "SELECT feed_enable('events')") as pair:
        yield pair


def test_a_task_waits_for_a_standby(pair: tuple[Cluster, Standby]) -> None:
    primary, standby = pair
    with connect(primary.dsn) as writer, connect(standby.dsn) as other:
        standby.catch_up()
        other.execute("SELECT pg_wal_replay_pause()")
        insert(writer, 5)
        with Driver(parsed({"dsn": primary.dsn, "table": "events"})) as plan:
            start = plan.start()
            tasks = plan.tasks(start, plan.next(start, None))
        with pytest.raises(InorderError, match="has not replayed the WAL up to"):
            rows_of(tasks, standby.dsn, {"n": "int"}, wait=1)
        other.execute("SELECT pg_wal_replay_resume()")
        assert [row["n"] for row in rows_of(tasks, standby.dsn, {"n": "int"})] == [1, 2, 3, 4, 5]


@pytest.fixture
def of_19(pair: tuple[Cluster, Standby]) -> tuple[Cluster, Standby]:
    with connect(pair[1].dsn) as connection:
        if connection.info.server_version < rows.HAS_WAIT_FOR_LSN:
            pytest.skip(f"WAIT FOR LSN needs PostgreSQL 19, and this is {connection.info.server_version // 10000}")
    return pair


def test_from_19_on_the_server_waits_for_replay(
    of_19: tuple[Cluster, Standby], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "replayed", lambda *_: pytest.fail("the client looked"))
    primary, standby = of_19
    with (
        connect(primary.dsn) as writer, connect(standby.dsn) as other, ThreadPoolExecutor(1) as pool,
        Driver(parsed({"dsn": primary.dsn, "table": "events"})) as plan,
    ):  # fmt: skip
        start = plan.start()
        offset = plan.next(start, None)
        standby.catch_up()
        other.execute("SELECT pg_wal_replay_pause()")
        insert(writer, 3)
        tasks = plan.tasks(offset, plan.next(offset, None))
        with pytest.raises(InorderError, match=r"has not replayed the WAL up to .* in 1 s"):
            rows_of(tasks, standby.dsn, {"n": "int"}, wait=1)
        reader = pool.submit(rows_of, tasks, standby.dsn, {"n": "int"})
        waiting = f"SELECT FROM pg_stat_activity WHERE query LIKE 'WAIT FOR LSN ''{tasks[0].slice.lsn}''%'"
        wait_for(lambda: other.execute(f"{waiting} AND state = 'active'".encode()).rowcount)
        assert not reader.done()
        other.execute("SELECT pg_wal_replay_resume()")
        assert [row["n"] for row in reader.result(PATIENCE)] == [1, 2, 3]


def test_from_19_on_a_standby_promoted_during_the_wait_is_refused(of_19: tuple[Cluster, Standby]) -> None:
    primary, _ = of_19
    with Standby(primary) as standby, ThreadPoolExecutor(1) as pool:
        standby.start(SETTINGS)
        standby.catch_up()
        with (
            connect(primary.dsn) as writer, connect(standby.dsn) as other,
            Driver(parsed({"dsn": primary.dsn, "table": "events"})) as plan,
        ):  # fmt: skip
            other.execute("SELECT pg_wal_replay_pause()")
            offset = plan.next(plan.start(), None)
            insert(writer, 3)
            tasks = plan.tasks(offset, plan.next(offset, None))
            reader = pool.submit(rows_of, tasks, standby.dsn, {"n": "int"})
            wait_for(lambda: other.execute("SELECT FROM pg_stat_activity WHERE query LIKE 'WAIT FOR LSN%'").rowcount)
            standby.promote()
            with pytest.raises(InorderError, match="another server or timeline"):
                reader.result(PATIENCE)


def test_parts_are_read_by_one_connection(cluster: Cluster, fresh: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, connection_class = [], rows.Connection

    def counted(dsn: str) -> object:
        opened.append(dsn)
        return connection_class(dsn)

    monkeypatch.setattr(rows, "Connection", counted)
    dsn, names = f"{cluster.dsn} dbname=tail", {"n": "int"}
    insert(fresh, 10)
    rows.close_kept()
    with plan_of(cluster, parts="3") as plan:
        start = plan.start()
        tasks = plan.tasks(start, plan.next(start, None))
        assert len(tasks) == 3
        for attempts, is_ended in ((1, True), (2, False), (2, False)):
            assert sorted(str(row["n"]) for row in rows_of(tasks, dsn, names)) == sorted(map(str, range(1, 11)))
            assert len(opened) == attempts
            assert fresh.execute("SELECT FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> "
                                 "pg_backend_pid() AND datname = current_database()").rowcount == 0  # fmt: skip
            if is_ended:
                fresh.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                              "WHERE pid <> pg_backend_pid() AND datname = current_database()")  # fmt: skip
        with pytest.raises(InputError, match='column "m" is not in'):
            rows_of(tasks, dsn, {"m": "int"})
        assert rows.KEPT == {}
