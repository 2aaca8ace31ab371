"""``inorder count``: the exact number of rows of a table, kept by the extension."""
