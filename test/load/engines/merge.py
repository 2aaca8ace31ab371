"""Run the recipe in docs/spark.md in Spark with Delta Lake, and print the copy.

Run ``python merge.py RECIPE`` in the folder for the recipe's files. RECIPE is a file with the source code of the
recipe, which is executed once for each line of standard input. This program imports only PySpark.
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
    # The catalog is in memory, without a Hive metastore, because one process runs all steps.
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
