"""The source in Spark itself: batch reads, streams into Parquet, and files that Spark writes."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from inorder.arrow.reader import schema_of
from inorder.arrow.types import Field, list_of
from inorder.connection.database import Connection
from inorder.connection.reading import TableColumn
from inorder.lab.server.cluster import Cluster
from inorder.spark.columns import TYPES, ddl, types_of

from conftest import copy_of
from tail_runs import insert, make_table

NEEDED = "the extra 'spark' is not installed: script/engines installs it, and runs this"
sessions = pytest.importorskip("pyspark.sql", reason=NEEDED)
pytest.importorskip("adbc_driver_postgresql", reason=NEEDED)
if shutil.which("java") is None:
    pytest.skip("Spark requires Java: script/engines installs it, and runs this", allow_module_level=True)

pytestmark = [pytest.mark.server, pytest.mark.filterwarnings("ignore")]

SECRET = "hunter2-is-not-written-down"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def spark(events: Path, cluster: Cluster) -> Iterator[Any]:
    source = pytest.importorskip("inorder.spark.source", reason=NEEDED)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SHOP_DSN"] = f"{cluster.dsn} dbname=tail password={SECRET}"
    settings = {
        "spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false", "spark.eventLog.dir": events.as_uri(),
        "spark.sql.session.timeZone": "UTC",
    }  # fmt: skip
    builder = sessions.SparkSession.builder.master("local[2]").appName("inorder")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(source.InorderDataSource)
    yield session
    session.stop()


class Shop:
    def __init__(self, spark: Any, dsn: str, folder: Path) -> None:
        self.spark, self.dsn, self.folder = spark, dsn, folder
        self.options: dict[str, Any] = {"dsn": dsn, "table": "events"}

    def batch(self, **options: Any) -> Any:
        return self.spark.read.format("inorder").options(**self.options | options).load()

    def numbers(self, **options: Any) -> list[int]:
        return sorted(row.n for row in self.batch(**options).select("n").collect())

    def stream(self, **options: Any) -> Any:
        return self.spark.readStream.format("inorder").options(**self.options | options).load()

    def to_parquet(self, frame: Any, now: bool = True) -> Any:
        writer = frame.writeStream.format("parquet").option("path", str(self.folder / "out"))
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        query = (
            writer.trigger(availableNow=True) if now else writer.trigger(processingTime="100 milliseconds")
        ).start()
        if now:
            assert query.awaitTermination(120)
        return query

    def written(self) -> list[Any]:
        frame = self.spark.read.option("mergeSchema", "true").parquet(str(self.folder / "out"))
        return sorted(frame.collect(), key=lambda row: int(row.n))


@pytest.fixture
def shop(spark: Any, cluster: Cluster, fresh: Connection, tmp_path: Path) -> Shop:
    insert(fresh, 10)
    return Shop(spark, f"{cluster.dsn} dbname=tail", tmp_path)


def test_a_batch_read_returns_all_rows(shop: Shop) -> None:
    frame = shop.batch(parts=3)
    assert [field.simpleString() for field in frame.schema] == ["id:string", "n:int"]
    assert frame.rdd.getNumPartitions() == 3 and frame.count() == 10
    assert shop.numbers() == list(range(1, 11))
    text = shop.spark.read.schema("n string").format("inorder").options(**shop.options).load()
    assert sorted(text.collect())[:2] == [("1",), ("10",)]
    assert shop.numbers(start="now") == []


def test_a_stream_ends_with_the_available_rows_and_continues_from_its_checkpoint(shop: Shop, fresh: Connection) -> None:
    query = shop.to_parquet(shop.stream(max_rows=4, parts=2))
    assert [progress.numInputRows for progress in query.recentProgress] == [4, 4, 2]
    insert(fresh, 5, 11)
    shop.to_parquet(shop.stream())
    assert [row.n for row in shop.written()] == list(range(1, 16))


def test_a_batch_that_is_read_again_has_the_same_rows(shop: Shop, fresh: Connection) -> None:
    """The batch has the same rows regardless of later commits.

    The test takes the offsets from the progress of the query.
    """
    query = shop.to_parquet(shop.stream(max_rows=3))
    insert(fresh, 5, 11)
    source = query.recentProgress[1].sources[0]
    assert shop.numbers(start=source.startOffset, end=source.endOffset) == [4, 5, 6]


def test_the_progress_shows_the_backlog(shop: Shop, fresh: Connection) -> None:
    """The progress shows a backlog for each server, in ended transactions and in rows."""
    query = shop.to_parquet(shop.stream(max_rows=4), now=False)
    query.processAllAvailable()
    first, *_, last = query.recentProgress
    query.stop()
    first, last = (json.loads(progress.sources[0].latestOffset)["server"] for progress in (first, last))
    assert first["backlog_transactions"] > 0 and last["backlog_rows"] == 0


def test_a_column_that_is_added_is_read_after_a_restart(shop: Shop, fresh: Connection) -> None:
    query = shop.to_parquet(shop.stream(), now=False)
    query.processAllAvailable()
    fresh.execute("ALTER TABLE events ADD note text")
    fresh.execute("INSERT INTO events (n, note) VALUES (11, 'new')")
    query.processAllAvailable()
    query.stop()
    fresh.execute("INSERT INTO events (n, note) VALUES (12, 'newer')")
    shop.to_parquet(shop.stream())
    notes = [row.note if "note" in row else None for row in shop.written()]
    assert notes == [None] * 11 + ["newer"]


def test_one_query_can_read_streams_of_several_servers(shop: Shop, cluster: Cluster, template: str) -> None:
    second = f"{cluster.dsn} dbname=second"
    with copy_of(template, cluster, "second") as connection:
        make_table(connection)
        insert(connection, 10, 101)
        query = shop.to_parquet(shop.stream(max_rows=4).unionByName(shop.stream(dsn=second, max_rows=4)))
        assert [progress.numInputRows for progress in query.recentProgress] == [8, 8, 4]
        assert [row.n for row in shop.written()] == [*range(1, 11), *range(101, 111)]


def test_no_password_is_written_down(shop: Shop, events: Path) -> None:
    del shop.options["dsn"]
    frame = shop.stream(dsn_env="SHOP_DSN")
    shop.to_parquet(frame)
    assert len(shop.written()) == 10
    plan = shop.batch(dsn_env="SHOP_DSN")
    assert SECRET not in plan._jdf.queryExecution().toString() and plan.count() == 10
    files = [path for folder in (shop.folder, events) for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_arrow_batches_have_the_types_that_spark_takes() -> None:
    types = pytest.importorskip("pyspark.sql.pandas.types")
    kinds = [*TYPES, pa.decimal128(38, 10)]
    kinds += [list_of(kind) for kind in kinds]
    fields = [Field(TableColumn(f"c{n}", "", None), "", kind) for n, kind in enumerate(kinds)]
    schema = sessions.types.StructType.fromDDL(ddl(fields))
    assert schema_of(fields).equals(types.to_arrow_schema(schema, timezone="UTC"))
    assert [field.dataType.simpleString() for field in schema] == list(types_of(fields).values())


def test_an_error_has_the_message_of_inorder(shop: Shop) -> None:
    for options, message in (
        ({"max_row": 5}, 'unknown option "max_row"'),
        ({"table": "nothing"}, 'relation "nothing" does not exist'),
        ({"dsn": f"{shop.dsn} password={SECRET}"}, "has a password"),
    ):
        with pytest.raises(Exception, match=message) as error:
            shop.batch(**options)
        assert SECRET not in str(error.value)
