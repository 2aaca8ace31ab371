"""dlt as a reader for inorder lab check: its sql_database source loads rows into DuckDB with an incremental cursor.

The program implements docs/check-protocol.md. The environment variable READERS names a folder for the pipelines and
their data. Each poll runs the pipeline once, and returns the rows that this run has added to the destination.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import dlt
import psycopg
from dlt.sources.sql_database import sql_table

LAG = 5  # rows of the last 5 seconds are read again


class Pipeline:
    """The pipeline for a table. A reader that was killed continues with the same pipeline when it is restarted."""

    def __init__(self, folder: Path) -> None:
        name = f"events_{self.made()}"
        self.loaded = dlt.destinations.duckdb(str(folder / f"{name}.duckdb"))
        self.pipeline = dlt.pipeline(name, str(folder), destination=self.loaded, dataset_name="loaded")

    def made(self) -> str:
        """Return the OID of the table and the system identifier of the server."""
        with psycopg.connect() as connection:
            row = connection.execute("SELECT 'events'::regclass::oid, system_identifier FROM pg_control_system()")
            return "_".join(map(str, row.fetchone() or ()))

    def run(self) -> None:
        cursor = dlt.sources.incremental("created_at", lag=LAG)
        self.pipeline.run(
            sql_table("postgresql+psycopg://", "events", "inorder_lab", incremental=cursor),
            primary_key="id",
            write_disposition="merge",
        )

    def keys(self) -> Counter[int]:
        if "events" not in self.pipeline.default_schema.tables:
            return Counter()
        with self.pipeline.sql_client() as client:
            return Counter(key for (key,) in client.execute_sql("SELECT id FROM events") or ())


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print to stdout, which now goes to stderr
    pipeline = Pipeline(Path(os.environ["READERS"]))
    for line in sys.stdin:
        counted_keys = Counter(json.loads(line)["last"] or ())
        pipeline.run()
        keys = pipeline.keys()
        new = sorted((keys - counted_keys).elements())
        print(*new, json.dumps({"last": [*keys.elements()]}), sep="\n", file=answers, flush=True)


if __name__ == "__main__":
    main()
