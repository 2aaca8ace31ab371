"""``inorder tail``: write the new rows of a table to standard output, in the order of their transactions."""
