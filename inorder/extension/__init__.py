"""Build the extension's files from the sources in this package, and install the files on a server."""
