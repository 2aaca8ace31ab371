"""``inorder install``: find the edition that a server supports, and install, upgrade or remove it in a database."""
