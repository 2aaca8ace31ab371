"""``inorder advise``: which tables of a database pay for the kind of their keys, and what it would save."""
