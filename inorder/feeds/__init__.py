"""``inorder feeds``: show which feed is behind, and which transaction delays its rows."""
