"""``inorder count``: the exact number of rows of a table, maintained by the extension."""
