"""Instruments: PostgreSQL programs, counters of the server and the kernel, clocks, and limits."""
