"""A run of the recipe of docs/spark.md in a Spark that has Delta: prints the copy. Only PySpark is imported.

python merge.py RECIPE: the text of the recipe, in the folder of its files.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.jars.packages": "io.delta:delta-spark_2.13:4.0.0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    # No Hive metastore: the catalog is in memory, because a run is one process, which reads a line for each step.
    "spark.sql.warehouse.dir": str(Path("warehouse").absolute()),
}  # fmt: skip


def main() -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    recipe = Path(sys.argv[1]).read_text()
    print(json.dumps("ready"), flush=True)
    for _ in sys.stdin:
        exec(recipe, {"spark": spark})
        rows = spark.sql("SELECT id, name FROM customers ORDER BY id").collect()
        print(json.dumps([list(row) for row in rows]), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
