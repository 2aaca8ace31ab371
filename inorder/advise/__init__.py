"""``inorder advise``: find tables whose kind of key is expensive, and what another kind would save."""
