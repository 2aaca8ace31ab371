"""Servers, tables and writers for the load tests, and a ledger of the committed rows."""
