"""The world of the tests of load: servers, tables, writers, and a ledger of committed rows."""
