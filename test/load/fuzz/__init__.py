"""Calls by a hostile role: everything that it may execute, with everything that it may pass, set and create."""
