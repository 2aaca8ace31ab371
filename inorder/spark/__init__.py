"""The Spark data source "inorder". This package requires the extra ``spark``, and no other package imports it.

The modules ``offsets`` and ``options`` do not import pyspark or pyarrow.
"""
