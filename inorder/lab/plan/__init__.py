"""Plans of runs: the measurements, the kinds of key, their order, and the restrictions of a server."""
