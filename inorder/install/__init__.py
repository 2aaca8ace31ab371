"""``inorder install``: find the edition that a server can have, and install, upgrade or remove it in a database."""
