"""The dlt resource loads each row into DuckDB once, even if a run is killed between extraction and load."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import cast

import pytest
from inorder.connection.database import Connection
from inorder.errors import InputError
from inorder.lab.server.cluster import Cluster

from examples import python_with
from tail_runs import insert
from world.sql import run

NEEDED = "the extra 'dlt' is not installed: script/engines installs it, and runs this"
duckdb = pytest.importorskip("duckdb", reason=NEEDED)
pytest.importorskip("dlt", reason=NEEDED)
source = pytest.importorskip("inorder.dlt.source", reason=NEEDED)
arrow_reader = pytest.importorskip("inorder.arrow.reader", reason=NEEDED)

pytestmark = [pytest.mark.server, pytest.mark.filterwarnings("ignore")]

RUN = """
import os, signal, sys
import dlt
from inorder.dlt.source import feed_table

dsn, folder, how = sys.argv[1:]
pipeline = dlt.pipeline("shop", pipelines_dir=folder, dataset_name="shop",
                        destination=dlt.destinations.duckdb(folder + "/lake.duckdb"))
events = feed_table(dsn, "events", max_rows=4)
die = lambda row=None: os.kill(os.getpid(), signal.SIGKILL)
if how == "killed while extracting":
    pipeline.extract(events.add_map(lambda rows: die() if 6 in rows["n"].to_pylist() else rows))
elif how == "killed before normalize":
    pipeline.extract(events)
    die()
elif how == "killed before load":
    pipeline.extract(events)
    pipeline.normalize()
    die()
else:
    pipeline.run(events)
"""


class Pipeline:
    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn, self.folder = dsn, folder

    def run(self, how: str = "") -> int:
        environment = os.environ | {"RUNTIME__DLTHUB_TELEMETRY": "false"}
        done = subprocess.run(
            [sys.executable, "-c", RUN, self.dsn, str(self.folder), how],
            env=environment, cwd=self.folder, check=False, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode

    def loaded(self, column: str = "n") -> list[object]:
        with duckdb.connect(str(self.folder / "lake.duckdb"), read_only=True) as connection:
            rows = connection.execute(f"SELECT {column} FROM shop.events ORDER BY n").fetchall()
        return [value for (value,) in rows]


@pytest.fixture
def pipeline(cluster: Cluster, fresh: Connection, tmp_path: Path) -> Pipeline:
    insert(fresh, 10)
    return Pipeline(f"{cluster.dsn} dbname=tail", tmp_path)


def test_each_run_loads_the_new_rows(pipeline: Pipeline, fresh: Connection) -> None:
    fresh.execute("ALTER TABLE events ADD price numeric(5,2) DEFAULT 1.5, ADD body jsonb DEFAULT '{\"a\": 1}'")
    pipeline.run()
    assert pipeline.loaded() == list(range(1, 11))
    assert pipeline.loaded("body->>'a'") == ["1"] * 10 and str(pipeline.loaded("price")[0]) == "1.50"
    insert(fresh, 3, 11)
    shutil.rmtree(pipeline.folder / "shop")
    pipeline.run()
    pipeline.run()
    assert pipeline.loaded() == list(range(1, 14))


VALUES = [
    ("numeric", "0.12345678901234567", "VARCHAR", "0.12345678901234567"),
    ("numeric", "NaN", "VARCHAR", "NaN"),
    ("numeric(20,15)", "1.123456789012345", "DECIMAL(20,15)", "1.123456789012345"),
    ("numeric(40,2)", "12345678901234567890123456789012345678.25", "VARCHAR",
     "12345678901234567890123456789012345678.25"),
    ("float8", "NaN", "DOUBLE", "nan"),
    ("interval", "1 day 02:00", "VARCHAR", "1 day 02:00:00"),
    ("timetz", "12:00+02", "VARCHAR", "12:00:00+02"),
    ("timestamp", "2020-01-01 12:00", "TIMESTAMP WITH TIME ZONE", "2020-01-01 12:00:00+00:00"),
    ("inet", "10.0.0.1/8", "VARCHAR", "10.0.0.1/8"),
    ("int4range", "[1,5)", "VARCHAR", "[1,5)"),
    ("datemultirange", "{[2020-01-01,2020-02-01)}", "VARCHAR", "{[2020-01-01,2020-02-01)}"),
    ("uuid", "00000000-0000-0000-0000-0000000000ff", "VARCHAR", "00000000-0000-0000-0000-0000000000ff"),
    ("jsonb", '{"a": [1, null]}', "JSON", '{"a": [1, null]}'),
    ("int[]", "{1,null,3}", "JSON", "[1,null,3]"),
    ("uuid[]", "{00000000-0000-0000-0000-0000000000ff}", "JSON", '["00000000-0000-0000-0000-0000000000ff"]'),
    ("jsonb[]", '{"{\\"a\\": 1}"}', "JSON", '["{\\"a\\": 1}"]'),
    ("mood", "fine", "VARCHAR", "fine"),
    ("mood[]", "{fine}", "JSON", '["fine"]'),
    ("pair", "(1,x)", "JSON", '{"a":1,"b":"x"}'),
    ("key", "(00000000-0000-0000-0000-0000000000ff)", "VARCHAR", "(00000000-0000-0000-0000-0000000000ff)"),
    ("bytea", "\\x00ff", "BLOB", "b'\\x00\\xff'"),
]  # fmt: skip


def test_each_value_arrives_unchanged(pipeline: Pipeline, fresh: Connection) -> None:
    fresh.execute(
        "CREATE TYPE mood AS ENUM ('fine'); CREATE TYPE pair AS (a int, b text); CREATE TYPE key AS (id uuid)"
    )
    for place, (kind, value, _, _) in enumerate(VALUES):
        fresh.execute(f"ALTER TABLE events ADD v{place} {kind} DEFAULT '{value}'".encode())
    pipeline.run()
    names = ", ".join(f"typeof(v{place}), v{place}" for place in range(len(VALUES)))
    (values,) = {tuple(map(str, cast(tuple[object, ...], row))) for row in pipeline.loaded(f"({names})")}
    for place, (kind, _, loaded_type, loaded) in enumerate(VALUES):
        assert (kind, *values[2 * place : 2 * place + 2]) == (kind, loaded_type, loaded)


@pytest.mark.parametrize(
    ("kind", "value", "hint", "loaded"),
    [
        ("numeric(5,2)", "NaN", {"data_type": "text"}, "NaN"),
        ("date", "infinity", {"data_type": "text"}, "infinity"),
        ("int[]", "{{1,2},{3,4}}", {"data_type": "text"}, "{{1,2},{3,4}}"),
        ("numeric", "1.25", {"data_type": "decimal", "precision": 20, "scale": 3}, "1.250"),
    ],
)
def test_a_hint_of_the_caller_is_used(
    pipeline: Pipeline, fresh: Connection, kind: str, value: str, hint: dict[str, object], loaded: str
) -> None:
    """Without the hint, a value that Arrow cannot represent is an error.

    The message contains the row's key and the hint.
    """
    fresh.execute(f"ALTER TABLE events ADD v {kind} DEFAULT '{value}'".encode())
    fresh.execute("INSERT INTO events (n) VALUES (11)")
    if hint["data_type"] == "text":
        named = r'column "v" of type .* in the row \(id\) = (.|\n)*' r"columns=\{'v': \{'data_type': 'text'\}\}"
        with pytest.raises(Exception, match=named):
            list(source.feed_table(pipeline.dsn, "events"))
    rows = list(source.feed_table(pipeline.dsn, "events", columns=[{"name": "v", **hint}]))
    assert {str(value) for table in rows for value in table["v"].to_pylist()} == {loaded}


def test_a_number_beyond_the_precision_of_a_hint_is_an_error(pipeline: Pipeline, fresh: Connection) -> None:
    fresh.execute("ALTER TABLE events ADD v numeric DEFAULT 0.125")
    hint = {"v": {"data_type": "decimal", "precision": 20, "scale": 2}}
    with pytest.raises(Exception, match=r'column "v" of type numeric has a value out of range for decimal128\(20, 2\)'):
        list(source.feed_table(pipeline.dsn, "events", columns=hint))


@pytest.mark.parametrize("when", ["killed while extracting", "killed before normalize", "killed before load"])
def test_a_run_that_was_killed_is_resumed(pipeline: Pipeline, fresh: Connection, when: str) -> None:
    assert pipeline.run(when) == -signal.SIGKILL
    insert(fresh, 3, 11)
    pipeline.run()
    pipeline.run()
    assert pipeline.loaded() == list(range(1, 14))


def test_the_number_of_batches_of_a_run_is_limited(cluster: Cluster, fresh: Connection) -> None:
    insert(fresh, 10)
    dsn = f"{cluster.dsn} dbname=tail"
    reader, arrow = source.Reader(dsn, "events"), source.ArrowReader("")
    state: dict[str, object] = {}
    first = [n for rows in source.batches(reader, arrow, state, "beginning", 4, 2) for n in rows["n"].to_pylist()]
    later_rows = []
    for rows in source.batches(reader, arrow, state, "beginning", 4, None):
        later_rows += rows["n"].to_pylist()
        if len(later_rows) < 5:  # limits the inserts in case the loop would follow new rows forever
            insert(fresh, 1, 100)
    arrow.close()
    reader.close()
    assert (first, later_rows) == (list(range(1, 9)), [9, 10])
    with pytest.raises(InputError, match='belongs to the database "other", and this is "tail"'):
        next(source.batches(source.Reader(dsn, "events"), arrow, {"database": "other"}, "now", 4, 1))


def test_a_batch_without_rows_is_skipped(cluster: Cluster, fresh: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run notices rows that are committed after it began, but only the next run delivers them."""
    reader, arrow = source.Reader(f"{cluster.dsn} dbname=tail", "events"), source.ArrowReader("")
    start: Callable[[str], str] = reader.start

    def and_then(where: str) -> str:
        position = start(where)
        if where == "now":
            insert(fresh, 3)
        return position

    state: dict[str, object] = {}
    with monkeypatch.context() as patch:
        patch.setattr(reader, "start", and_then)
        assert list(source.batches(reader, arrow, state, "beginning", 4, 1)) == []
    (rows,) = source.batches(reader, arrow, state, "beginning", 4, 1)
    arrow.close()
    reader.close()
    assert rows["n"].to_pylist() == [1, 2, 3]


def test_a_batch_is_handed_out_with_its_position(cluster: Cluster, fresh: Connection) -> None:
    insert(fresh, 2500)
    reader, arrow = source.Reader(f"{cluster.dsn} dbname=tail", "events"), source.ArrowReader("")
    state: dict[str, object] = {}
    numbers = []
    for _ in range(3):
        batches = source.batches(reader, arrow, state, "beginning", 2000, None)
        for rows in islice(batches, 1):
            numbers += rows["n"].to_pylist()
        batches.close()
    arrow.close()
    reader.close()
    assert sorted(numbers) == list(range(1, 2501))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_rows": 0}, "max_rows must be 1 to 2,147,483,647, not 0"),
        ({"max_batches": 0}, "max_batches must be at least 1, not 0"),
        ({"start": "x"}, 'start must be beginning or now, not "x"'),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        source.feed_table("service=shop", "events", **options)


def test_the_first_example_of_the_manual_loads_all_rows(pipeline: Pipeline) -> None:
    example = python_with("docs/dlt.md", "dlt.pipeline(").replace("service=shop", pipeline.dsn)
    folder = repr(str(pipeline.folder))
    example = example.replace('destination="duckdb"', f'pipelines_dir={folder}, destination="duckdb"')
    subprocess.run([sys.executable, "-c", example], cwd=pipeline.folder, check=True,
                   env=os.environ | {"RUNTIME__DLTHUB_TELEMETRY": "false"})  # fmt: skip
    with duckdb.connect(str(pipeline.folder / "shop_events.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM shop.events").fetchall() == [(10,)]


STEPS = (
    (), ("DELETE FROM t WHERE id = 2", "UPDATE t SET note = 'y' WHERE id > 3", "UPDATE t SET id = 9 WHERE id = 1"),
    ("INSERT INTO t VALUES (2, 7, 'again')", "UPDATE t SET note = 'z' WHERE id = 3", "DELETE FROM t WHERE id = 3"),
    ("UPDATE t SET note = 'w' WHERE id > 3", "TRUNCATE t", "INSERT INTO t VALUES (1, 1, 'new')"),
    ("INSERT INTO t VALUES (2, 1, 'new')", "SELECT changes_resync('t')", "DELETE FROM t WHERE id = 1"),
)  # fmt: skip


def test_changes_are_merged_and_deleted(cluster: Cluster, fresh: Connection, tmp_path: Path) -> None:
    """Changes are loaded in batches of a few rows.

    A batch with the whole table is loaded alone, and replaces the old rows.
    """
    run(fresh, "CREATE TABLE t (id int, version int, note text, PRIMARY KEY (id) INCLUDE (note))",
        "INSERT INTO t SELECT n, 0, 'x' FROM generate_series(1, 5) AS n", "SELECT changes_enable('t')")  # fmt: skip
    lake = f"{tmp_path}/lake.duckdb"
    pipeline = source.dlt.pipeline(
        "shop", pipelines_dir=str(tmp_path), dataset_name="shop", destination=source.dlt.destinations.duckdb(lake)
    )
    dsn = f"{cluster.dsn} dbname={fresh.info.dbname}"
    for statements in STEPS:
        run(fresh, *statements)
        for _ in range(2):  # the first run may end before it reaches the batch with the whole table
            pipeline.run(source.feed_table(dsn, "t", changes=True, max_rows=4))
        with duckdb.connect(lake) as loaded:
            rows = loaded.execute("SELECT id, version, note FROM shop.t ORDER BY id").fetchall()
        assert rows == fresh.execute("SELECT id, version, note FROM t ORDER BY id").fetchall()
    run(fresh, "ALTER TABLE t ADD COLUMN more int")
    with pytest.raises(Exception, match="may be missing from its log"):
        pipeline.run(source.feed_table(dsn, "t", changes=True))


EQUAL = (("numeric", "1.0", "1.00"), ("float8", "0", "-0"), ("interval", "1 day", "24:00"), ("bpchar", "a", "a "))


@pytest.mark.parametrize("equal", EQUAL, ids=[kind for kind, *_ in EQUAL])
def test_equal_keys_that_are_written_differently_are_merged(
    cluster: Cluster, fresh: Connection, tmp_path: Path, equal: tuple[str, str, str]
) -> None:
    """After each run the destination has the row once, whether or not it treats the two keys as equal."""
    kind, former, present = equal
    run(fresh, f"CREATE TABLE t (id {kind} PRIMARY KEY, n int)", f"INSERT INTO t VALUES ('{former}', 0)",
        "SELECT changes_enable('t')")  # fmt: skip
    pipeline = source.dlt.pipeline(
        "equal", pipelines_dir=str(tmp_path), dataset_name="shop",
        destination=source.dlt.destinations.duckdb(str(tmp_path / "lake.duckdb")),
    )  # fmt: skip
    for n, key in enumerate((former, present, former, present)):
        run(fresh, f"UPDATE t SET id = '{key}', n = {n}")
        pipeline.run(source.feed_table(f"{cluster.dsn} dbname=tail", "t", changes=True))
        with duckdb.connect(str(tmp_path / "lake.duckdb"), read_only=True) as lake:
            assert lake.execute("SELECT n FROM shop.t").fetchall() == [(n,)]


def test_batches_are_smaller_after_an_interrupted_read(
    cluster: Cluster, fresh: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the driver has received four megabytes, the server is still sending the eight megabytes of the batch."""
    fresh.execute("ALTER TABLE events ADD body text")
    fresh.execute("INSERT INTO events (n, body) SELECT n, repeat('x', 2000) FROM generate_series(1, 4000) AS n")
    converted, cuts = arrow_reader.converted, ["SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
        "WHERE datname = 'tail' AND state = 'active' AND pid <> pg_backend_pid()"]  # fmt: skip

    def cut(*arguments: object) -> object:
        while cuts:
            fresh.execute(cuts.pop().encode())
        return converted(*arguments)

    monkeypatch.setattr(arrow_reader, "converted", cut)
    rows = list(source.feed_table(f"{cluster.dsn} dbname=tail", "events", max_rows=4000))
    assert [len(batch) for batch in rows] == [2000, 2000]
    assert sorted(n for batch in rows for n in batch["n"].to_pylist()) == list(range(1, 4001))
