"""Write the result of a query to standard output as Parquet, using only ADBC and pyarrow: adbc.py QUERY."""

import sys

from adbc_driver_postgresql import dbapi
from pyarrow import parquet


def main(query: str) -> None:
    with dbapi.connect("postgresql://") as connection, connection.cursor() as cursor:
        cursor.execute(query)
        rows = cursor.fetch_record_batch()
        with parquet.ParquetWriter(sys.stdout.buffer, rows.schema, compression="zstd") as writer:
            for batch in rows:
                writer.write_batch(batch)


if __name__ == "__main__":
    main(*sys.argv[1:])
