"""The resource of dlt, loaded into DuckDB: each row once, wherever the run is killed between extraction and load."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from inorder.connection.database import Connection
from inorder.errors import InputError
from inorder.lab.server.cluster import Cluster

from examples import python_with
from tail_runs import insert

NEEDED = "the extra 'dlt' is not installed: script/engines installs it, and runs this"
duckdb = pytest.importorskip("duckdb", reason=NEEDED)
pytest.importorskip("dlt", reason=NEEDED)
source = pytest.importorskip("inorder.dlt.source", reason=NEEDED)

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
    pipeline.extract(events.add_map(lambda row: die() if row["n"] == 6 else row))
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


def test_each_run_loads_what_is_new(pipeline: Pipeline, fresh: Connection) -> None:
    fresh.execute("ALTER TABLE events ADD price numeric(5,2) DEFAULT 1.5, ADD body jsonb DEFAULT '{\"a\": 1}'")
    pipeline.run()
    assert pipeline.loaded() == list(range(1, 11))
    assert pipeline.loaded("body__a") == [1] * 10 and str(pipeline.loaded("price")[0]).startswith("1.5")
    insert(fresh, 3, 11)
    shutil.rmtree(pipeline.folder / "shop")
    pipeline.run()
    pipeline.run()
    assert pipeline.loaded() == list(range(1, 14))


@pytest.mark.parametrize(
    ("kind", "value", "loaded"),
    [
        ("numeric", "0.12345678901234567", "0.12345678901234567"),
        ("numeric", "NaN", "NaN"),
        ("numeric(20,15)", "1.123456789012345", "1.123456789012345"),
        ("numeric(40,2)", "12345678901234567890123456789012345678.25", "12345678901234567890123456789012345678.25"),
        ("interval", "1 day 02:00", "1 day 02:00:00"),
        ("timetz", "12:00+02", "12:00:00+02"),
        ("inet", "10.0.0.1/8", "10.0.0.1/8"),
        ("int4range", "[1,5)", "[1,5)"),
        ("datemultirange", "{[2020-01-01,2020-02-01)}", "{[2020-01-01,2020-02-01)}"),
    ],
)
def test_a_value_arrives_as_it_is(pipeline: Pipeline, fresh: Connection, kind: str, value: str, loaded: str) -> None:
    fresh.execute(f"ALTER TABLE events ADD v {kind} DEFAULT '{value}'".encode())
    pipeline.run()
    assert {str(found) for found in pipeline.loaded("v")} == {loaded}


def test_a_value_that_dlt_would_make_null_of_is_an_error(cluster: Cluster, fresh: Connection, tmp_path: Path) -> None:
    fresh.execute("ALTER TABLE events ADD v float8 DEFAULT 'NaN'")
    insert(fresh, 1)
    dsn, dlt = f"{cluster.dsn} dbname=tail", pytest.importorskip("dlt")
    with pytest.raises(Exception, match=r"column 'v' has the value nan(.|\n)*columns=\{'v': \{'data_type': 'text'\}\}"):
        list(source.feed_table(dsn, "events"))
    hints = [{"name": "v", "data_type": "text"}]
    destination = dlt.destinations.duckdb(str(tmp_path / "lake.duckdb"))
    dlt.pipeline("shop", pipelines_dir=str(tmp_path), dataset_name="shop", destination=destination).run(
        source.feed_table(dsn, "events", columns=hints)
    )
    assert Pipeline(dsn, tmp_path).loaded("v") == ["nan"]


@pytest.mark.parametrize("when", ["killed while extracting", "killed before normalize", "killed before load"])
def test_a_run_that_was_killed_is_resumed(pipeline: Pipeline, fresh: Connection, when: str) -> None:
    assert pipeline.run(when) == -signal.SIGKILL
    insert(fresh, 3, 11)
    pipeline.run()
    pipeline.run()
    assert pipeline.loaded() == list(range(1, 14))


def test_a_run_has_at_most_so_many_batches(cluster: Cluster, fresh: Connection) -> None:
    insert(fresh, 10)
    dsn = f"{cluster.dsn} dbname=tail"
    reader = source.Reader(dsn, "events")
    state: dict[str, object] = {}
    first = [row["n"] for rows in source.batches(reader, state, "beginning", 4, 2) for row in rows]
    rest = []
    for rows in source.batches(reader, state, "beginning", 4, None):
        rest += [row["n"] for row in rows]
        if len(rest) < 5:  # else it would go on for ever, if it did not end
            insert(fresh, 1, 100)
    reader.close()
    assert (first, rest) == (list(range(1, 9)), [9, 10])
    with pytest.raises(InputError, match="a position in the database 'other', this is 'tail'"):
        next(source.batches(source.Reader(dsn, "events"), {"database": "other"}, "now", 4, 1))


def test_a_batch_is_handed_out_with_its_position(cluster: Cluster, fresh: Connection) -> None:
    insert(fresh, 2500)
    reader = source.Reader(f"{cluster.dsn} dbname=tail", "events")
    state: dict[str, object] = {}
    found = []
    for _ in range(3):
        batches = source.batches(reader, state, "beginning", 2000, None)
        found += [row["n"] for row in next(batches, [])]
        batches.close()
    reader.close()
    assert sorted(found) == list(range(1, 2501))


@pytest.mark.parametrize(
    ("options", "said"),
    [({"max_rows": 0}, "max_rows is 0"), ({"max_batches": 0}, "max_batches is 0"), ({"start": "x"}, "start is 'x'")],
)
def test_wrong_arguments_are_named(options: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        source.feed_table("service=shop", "events", **options)


def test_the_first_example_of_the_manual(pipeline: Pipeline) -> None:
    example = python_with("docs/dlt.md", "dlt.pipeline(").replace("service=shop", pipeline.dsn)
    folder = repr(str(pipeline.folder))
    example = example.replace('destination="duckdb"', f'pipelines_dir={folder}, destination="duckdb"')
    subprocess.run([sys.executable, "-c", example], cwd=pipeline.folder, check=True,
                   env=os.environ | {"RUNTIME__DLTHUB_TELEMETRY": "false"})  # fmt: skip
    with duckdb.connect(str(pipeline.folder / "shop_events.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM shop.events").fetchall() == [(10,)]
