"""The command-line tool of inorder.

In a checkout, the sources of the extension are beside this package, in ``src`` and ``sql``.
"""

__version__ = "0.2.0"
