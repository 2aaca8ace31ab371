"""The environment of the load tests: servers, tables, writers, and a ledger of committed rows."""
