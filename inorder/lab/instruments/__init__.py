"""Instruments: programs of PostgreSQL, counters of the server and the kernel, clocks, limits."""
