"""The command-line tool of inorder: the lab and its reports.

The extension's C and SQL live beside this package, in ``src`` and ``sql``.
"""

__version__ = "0.2.0"
