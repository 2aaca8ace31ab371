"""``inorder choose``: choose a kind of key for a table by requirements and modeled costs."""
