"""The driver that is killed: a stream of several servers into Parquet; at the end what Spark finds there.

python -m engines.stream FOLDER DSN… [--to-the-end]
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
from inorder.spark.source import InorderDataSource
from pyspark.sql import SparkSession

SCHEMA = "writer int, token bigint, body string"
MAX_ROWS, PARTS = 100_000, 2
# Starts in half of the CPU time, and it is started often.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.memory": "1g", "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2", "spark.driver.extraJavaOptions": JAVA, "spark.executor.extraJavaOptions": JAVA,
}  # fmt: skip


def session(master: str, **more: str) -> SparkSession:
    """A Spark on this machine, with the source."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("inorder")
    for name, value in (SETTINGS | more).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(InorderDataSource)
    return spark


def start(spark: SparkSession, folder: Path, dsns: list[str], **trigger: Any) -> Any:
    """The query."""
    options = {"dsn": json.dumps(dsns), "table": "events", "max_rows": MAX_ROWS, "parts": PARTS}
    frame = spark.readStream.schema(SCHEMA).format("inorder").options(**options).load()
    writer = frame.writeStream.format("parquet").option("path", str(folder / "out"))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**trigger).start()


def main() -> None:
    """Until it is killed; or to the end, and then the tokens that Spark finds into one file."""
    folder, dsns = Path(sys.argv[1]), sys.argv[2:]
    if "--to-the-end" not in dsns:
        start(session("local-cluster[1,2,700]"), folder, dsns, processingTime="200 milliseconds").awaitTermination()
        return
    dsns.remove("--to-the-end")
    spark = session("local[2]")
    start(spark, folder, dsns, availableNow=True).awaitTermination()
    found = spark.read.parquet(str(folder / "out")).select("writer", "token").toArrow()
    pyarrow.parquet.write_table(found, folder / "found.parquet")


if __name__ == "__main__":
    main()
