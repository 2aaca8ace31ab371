"""The Spark source without Spark: its requirements for options, offsets, columns and servers."""

import json
from collections.abc import Iterator

import pytest
from inorder.connection.database import Connection, connect
from inorder.connection.reading import Reader, TableColumn
from inorder.errors import InorderError, InputError
from inorder.lab.server.cluster import Cluster
from inorder.spark.columns import fields_of, types_of, wanted
from inorder.spark.driver import Driver, Task
from inorder.spark.offsets import decoded
from inorder.spark.options import parsed
from inorder.spark.shards import ShardsDriver

from tail_runs import insert

ROWS = "SELECT n FROM reader_batch_rows('events', %s::jsonb::feed_batch, null::events) ORDER BY n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no server is named"),
        ({"dsn": "service=a"}, "no table is named"),
        ({"dsn": "service=a", "table": "t", "max_row": "1"}, 'unknown option "max_row"'),
        (
            {"dsn": "service=a", "table": "t", "max_rows": "0"},
            'max_rows must be a whole number from 1 to 2,147,483,647, not "0"',
        ),
        ({"dsn": "service=a", "table": "t", "parts": "10001"}, "from 1 to 10,000"),
        ({"dsn": "service=a", "table": "t", "parts": "²"}, 'not "²"'),
        ({"dsn": "service=a", "table": "t", "wait": "x"}, 'wait must be a whole number from 0 to 86,400, not "x"'),
        (
            {"dsn": "service=a", "table": "t", "start": "yesterday"},
            "start must be beginning, now, an",
        ),
        ({"dsn": "service=a", "table": "t", "accept_origin": "1"}, "must be true or false"),
        ({"dsn": "service=a", "dsn_env": "A", "table": "t"}, "cannot be used together"),
        ({"dsn": "service=a", "dsn.b": "service=b", "table": "t"}, 'unknown option "dsn.b"'),
        (
            {"dsn": "service=a", "read_dsn": "service=b", "table": "t", "shards": "true"},
            "shards and read_dsn cannot be used together",
        ),
        ({"dsn": '["service=a", "service=b"]', "table": "t"}, "dsn is not a connection string"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as error:
        parsed(options)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "host=a password=hunter2", "postgresql://u:hunter2@a/b", "host=a sslpassword=hunter2",
        "host=a password='hunter2", "hunter2",
    ],
)  # fmt: skip
def test_a_password_is_neither_accepted_as_an_option_nor_shown(dsn: str) -> None:
    """Spark displays options. An error about a connection string must not show the string."""
    with pytest.raises(InputError) as error:
        parsed({"dsn": dsn, "table": "t"})
    assert "hunter2" not in str(error.value)


def test_a_connection_string_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_DSN", raising=False)
    options = parsed({"dsn_env": "SHOP_DSN", "read_dsn": "service=standby", "table": "t"})
    with pytest.raises(InputError, match="SHOP_DSN is not set"):
        options.plan.dsn()
    monkeypatch.setenv("SHOP_DSN", "password=hunter2")
    assert (options.plan.dsn(), options.read.dsn()) == ("password=hunter2", "service=standby")


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        ([], "invalid offset"),
        ({"a": "{}"}, "invalid offset"),
        ({"a": {"database": "d"}}, "invalid offset"),
        ({"a": {"database": "d", "position": "["}}, "invalid offset"),
        ({"a": {"database": "d", "position": "{}", "more": ""}}, "invalid offset"),
        ({"b": {"database": "d", "position": "{}"}}, 'positions of "b", not of one server'),
        ({}, "positions of nothing, not of one server"),
    ],
)
def test_invalid_offsets_are_refused(offset: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        decoded(offset)


def test_columns_that_spark_cannot_tell_apart_are_named() -> None:
    with pytest.raises(InputError, match='columns "a" and "A" of t'):
        fields_of([TableColumn("a", "integer", "int4"), TableColumn("A", "integer", "int4")], "t")


@pytest.mark.parametrize(
    ("schema", "message"),
    [({"b": "int"}, 'column "b" is not in t'), ({"a": "bigint"}, 'column "a" of t is integer, which is int')],
)
def test_a_column_that_differs_from_the_schema_is_named(schema: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        wanted([TableColumn("a", "integer", "int4")], schema, "t")
    assert types_of(wanted([TableColumn("a", "integer", "int4")], {"a": "string"}, "t")) == {"a": "string"}


class Shop:
    """A plan for the table "events", and the rows that the plan's tasks read."""

    def __init__(self, dsn: str, connection: Connection) -> None:
        self.dsn, self.connection = dsn, connection
        self.plans: list[Driver] = []

    def plan(self, **options: str) -> Driver:
        plan = Driver(parsed({"dsn": self.dsn, "table": "events"} | options))
        self.plans.append(plan)
        return plan

    def read(self, tasks: list[Task]) -> list[int]:
        batches = [self.connection.execute(ROWS.encode(), [task.slice.batch]).fetchall() for task in tasks]
        return [int(str(n)) for rows in batches for (n,) in rows]


@pytest.fixture
def shop(cluster: Cluster, fresh: Connection) -> Iterator[Shop]:
    insert(fresh, 10)
    new_shop = Shop(f"{cluster.dsn} dbname=tail", fresh)
    yield new_shop
    for plan in new_shop.plans:
        plan.close()


@pytest.mark.server
def test_batches_follow_each_other_and_an_idle_source_has_no_batch(shop: Shop) -> None:
    plan = shop.plan()
    start = plan.start()
    first = plan.next(start, 4)
    second = plan.next(first, None)
    shop.connection.execute("CREATE TABLE other AS SELECT 1")
    assert shop.read(plan.tasks(start, first)) == [1, 2, 3, 4]
    assert shop.read(plan.tasks(first, second)) == [5, 6, 7, 8, 9, 10]
    assert plan.next(second, 4) == second and plan.tasks(second, second) == []


@pytest.mark.server
def test_a_batch_that_is_read_later_in_parts_has_the_same_rows(shop: Shop) -> None:
    """The batch between two offsets has the same rows regardless of later commits."""
    plan = shop.plan(parts="3")
    start = plan.start()
    end = plan.next(start, None)
    insert(shop.connection, 10, 11)
    tasks = shop.plan(parts="3").tasks(start, end)
    assert len(tasks) == 3 and sorted(shop.read(tasks)) == list(range(1, 11))


@pytest.mark.server
def test_a_query_of_the_rows_available_now_ends(shop: Shop, cluster: Cluster) -> None:
    with connect(shop.dsn) as long:
        long.execute("BEGIN")
        insert(long, 2, 100)
        insert(shop.connection, 2, 11)
        plan = shop.plan()
        place = plan.start()
        plan.stop_here()
        long.execute("COMMIT")
        insert(shop.connection, 5, 50)
        rows: list[int] = []
        while (after := plan.next(place, 5)) != place:
            rows += shop.read(plan.tasks(place, after))
            place = after
        assert rows == list(range(1, 13))
    plan = shop.plan()
    assert shop.read(plan.tasks(place, plan.next(place, None))) == [50, 51, 52, 53, 54, 100, 101]


@pytest.mark.server
def test_a_query_of_the_rows_available_now_ends_despite_a_new_partition(shop: Shop) -> None:
    connection = shop.connection
    connection.execute("CREATE TABLE p (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY LIST (n)")
    connection.execute("CREATE INDEX ON p (id)")
    connection.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)")
    connection.execute("SELECT feed_enable('p')")
    connection.execute("INSERT INTO p (n) SELECT 1 FROM generate_series(1, 10)")
    plan = shop.plan(table="p")
    start = plan.start()
    plan.stop_here()
    connection.execute("CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)")
    connection.execute("INSERT INTO p (n) VALUES (2)")
    end = plan.next(start, None)
    (task,) = plan.tasks(start, end)
    rows = "SELECT n FROM reader_batch_rows('p', %s::jsonb::feed_batch, null::p)"
    assert connection.execute(rows.encode(), [task.slice.batch]).fetchall() == [(1,)] * 10
    assert plan.next(end, None) == end
    plan = shop.plan(table="p")
    (task,) = plan.tasks(end, plan.next(end, None))
    assert connection.execute(rows.encode(), [task.slice.batch]).fetchall() == [(2,)]


@pytest.mark.server
def test_a_stream_starts_where_the_option_says(shop: Shop) -> None:
    plan = shop.plan(start="now")
    insert(shop.connection, 2, 11)
    start = plan.start()
    assert plan.next(start, None) == start
    beginning = shop.plan().start()
    middle = shop.plan().next(beginning, 7)
    plan = shop.plan(start=json.dumps(middle))
    assert plan.start() == middle
    assert shop.read(plan.tasks(middle, plan.end(middle))) == [8, 9, 10, 11, 12]
    plan = shop.plan(end=json.dumps(middle))
    assert shop.read(plan.tasks(plan.start(), plan.end(plan.start()))) == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(InputError, match="positions of nothing, not of one server"):
        shop.plan(end="{}").end(beginning)
    other = {"server": beginning["server"] | {"database": "second"}}
    with pytest.raises(InputError, match='belongs to the database "second", and this is "tail"'):
        shop.plan().next(other, None)


@pytest.mark.server
def test_a_position_of_another_server_is_accepted_on_request(shop: Shop) -> None:
    start = shop.plan().start()
    position = json.loads(start["server"]["position"]) | {"origin": "1/1"}
    other = {"server": start["server"] | {"position": json.dumps(position)}}
    with pytest.raises(
        InorderError, match=r"another server or timeline(.|\n)*use the option accept_origin for one run"
    ):
        shop.plan().next(other, None)
    plan = shop.plan(accept_origin="true")
    assert shop.read(plan.tasks(other, plan.next(other, None))) == list(range(1, 11))


@pytest.mark.server
def test_the_backlog_is_shown(shop: Shop) -> None:
    plan = shop.plan()
    start = plan.start()
    end = plan.next(start, None)
    shop.connection.execute("ANALYZE events")
    before, after = plan.backlog(start)["server"], plan.backlog(end)["server"]
    assert before["backlog_transactions"] > after["backlog_transactions"] == 1  # the transaction of ANALYZE
    assert before["backlog_rows"] == 10 and after["backlog_rows"] == 0


@pytest.mark.server
def test_a_lost_session_is_opened_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = shop.plan()
    start = plan.start()
    shop.connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'inorder' "
                            "AND pid <> pg_backend_pid() AND datname = current_database()")  # fmt: skip
    assert shop.read(plan.tasks(start, plan.next(start, None))) == list(range(1, 11))
    monkeypatch.setattr("time.sleep", pytest.fail)
    with pytest.raises(InorderError, match="No such file"):
        Reader("host=/nowhere", "events").table()


@pytest.mark.server
def test_the_option_shards_needs_citus(shop: Shop) -> None:
    with (
        ShardsDriver(parsed({"dsn": shop.dsn, "table": "events", "shards": "true"})) as plan,
        pytest.raises(InputError, match="has no extension citus"),
    ):
        plan.start()
