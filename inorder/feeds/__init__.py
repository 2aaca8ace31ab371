"""``inorder feeds``: which feed is behind, and what delays its rows."""
