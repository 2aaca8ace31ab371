"""The rows of a query as Arrow or Parquet to standard output, by ADBC and pyarrow alone: adbc.py FORMAT QUERY."""

import sys

import pyarrow as pa
from adbc_driver_postgresql import dbapi
from pyarrow import parquet


def main(output: str, query: str) -> None:
    with dbapi.connect("postgresql://") as connection, connection.cursor() as cursor:
        cursor.execute(query)
        rows = cursor.fetch_record_batch()
        if output == "arrow":
            writer = pa.ipc.new_stream(sys.stdout.buffer, rows.schema)
        else:
            writer = parquet.ParquetWriter(sys.stdout.buffer, rows.schema, compression="zstd")
        with writer:
            for batch in rows:
                writer.write_batch(batch)


if __name__ == "__main__":
    main(*sys.argv[1:])
