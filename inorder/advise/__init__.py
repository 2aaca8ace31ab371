"""``inorder advise``: find tables whose kind of key is expensive, and calculate what another kind would save."""
