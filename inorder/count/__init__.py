"""``inorder count``: the exact number of rows in a table, maintained by the extension."""
