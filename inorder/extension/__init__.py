"""Build the extension's files from the sources that this package carries, and install them for a server."""
