"""Connections to the user's servers: statements, retries, streams of rows, and positions that a client keeps."""
