"""``inorder tail``: write the rows of a table, in the order of their transactions, to standard output."""
