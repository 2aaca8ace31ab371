"""``inorder prepare``: make an existing table readable by feeds, online."""
