"""Tests of a reader. The fixture ``lossless``, of inorder[lab], starts one server for all tests of a run."""

import psycopg


def poll(dsn, last):
    """Return the keys of the new rows, and the position after them."""
    with psycopg.connect(dsn) as connection:
        keys = [key for (key,) in connection.execute("SELECT id FROM events WHERE id > %s ORDER BY id", [last or 0])]
    return keys, keys[-1] if keys else last


def test_the_reader_loses_no_row(lossless):
    lossless.check(poll, schedules=20)


def test_the_query_loses_no_row(lossless):
    lossless.check("SELECT id FROM events WHERE id > :last ORDER BY id")
