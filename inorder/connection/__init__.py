"""Connections to the user's servers: statements, retries, streams of rows, and positions kept by the client."""
