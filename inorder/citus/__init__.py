"""Tables that Citus has distributed: the places of their shards, and ``inorder citus``, which makes shards readable."""
