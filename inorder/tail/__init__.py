"""``inorder tail``: the rows of a table in the order of their transactions, on standard output."""
