"""inorder in a database: which edition the server can have, and ``inorder install``, which puts it there."""
