"""Connections to the user's servers: statements, retries, streams of rows, and positions stored by the client."""
