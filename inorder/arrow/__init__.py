"""Read rows as Arrow batches, by the ADBC driver, from the server's binary COPY; for Spark, dlt and inorder tail."""
