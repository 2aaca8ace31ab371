"""Plans of runs: the measurements, their order, the kinds of key, and the restrictions of a server."""
