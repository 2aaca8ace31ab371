"""The Spark driver that is killed. It streams rows into Parquet files, and reads the files at the end.

``python -m load.engines.stream FOLDER STREAM [--to-the-end]``
"""

import json
import os
import sys
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow.parquet
from inorder.spark.source import InorderDataSource
from pyspark.sql import DataFrame, SparkSession

# These settings halve the CPU time of Spark's startup, and the test starts Spark often.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.memory": "1g", "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2", "spark.driver.extraJavaOptions": JAVA, "spark.executor.extraJavaOptions": JAVA,
}  # fmt: skip


def session(master: str, **more: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("inorder")
    for name, value in (SETTINGS | more).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(InorderDataSource)
    return spark


@dataclass(frozen=True)
class Stream:
    options: list[dict[str, object]]  # one entry for each server
    schema: str
    key: list[str]

    def start(self, spark: SparkSession, folder: Path, **trigger: Any) -> Any:
        frames = [
            spark.readStream.schema(self.schema).format("inorder").options(**options).load() for options in self.options
        ]
        frame = reduce(DataFrame.unionByName, frames)
        writer = frame.writeStream.format("parquet").option("path", str(folder / "out"))
        return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**trigger).start()


def main() -> None:
    """Stream until the process is killed. With --to-the-end, stream all rows, then write their keys to a file."""
    folder, stream = Path(sys.argv[1]), Stream(**json.loads(sys.argv[2]))
    if "--to-the-end" not in sys.argv:
        running = stream.start(session("local-cluster[1,2,700]"), folder, processingTime="200 milliseconds")
        running.awaitTermination()
        return
    spark = session("local[2]")
    stream.start(spark, folder, availableNow=True).awaitTermination()
    keys = spark.read.parquet(str(folder / "out")).select(*stream.key).toArrow()
    pyarrow.parquet.write_table(keys, folder / "found.parquet")


if __name__ == "__main__":
    main()
