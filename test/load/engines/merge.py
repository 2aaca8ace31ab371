"""Run the recipe of docs/spark.md in Spark with Delta Lake, and print the copy. Imports only PySpark.

``python merge.py RECIPE`` runs in the folder for the files of the recipe. RECIPE is a file with the text of the recipe,
which is run for each line of standard input.
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
    # There is no Hive metastore: the catalog is in memory, because one process runs all steps.
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
