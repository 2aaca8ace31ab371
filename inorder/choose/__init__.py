"""``inorder choose``: choose a kind of key for a table from its requirements and the modeled costs."""
