"""Rows as Arrow batches, from the server's binary COPY by the driver of ADBC; Spark and inorder tail read with it."""
