"""Read rows as Arrow batches for Spark, dlt and ``inorder tail``, with the ADBC driver, which uses binary COPY."""
