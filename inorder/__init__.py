"""The command-line tool of inorder.

In a checkout, ``src`` and ``sql`` next to this package contain the sources of the extension.
"""

__version__ = "0.2.0"
