"""Distributed Citus tables: the location of their shards, and ``inorder citus``, which makes shards readable."""
