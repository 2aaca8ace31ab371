"""Tables that Citus has distributed: where their shards are, and ``inorder citus``, which makes these readable."""
