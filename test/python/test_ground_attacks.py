"""Attacks on what a read stands on, of kinds that nobody had listed before."""

import pytest

from conftest import scalar
from test_ground import PLAIN, READS, SNAPSHOT, Place, numbers, place, run, state, states

__all__ = ["place"]

pytestmark = pytest.mark.server


OWN_CHANGES = {
    "grant": "GRANT SELECT ON t TO PUBLIC",
    "parameter": "ALTER TABLE t SET (fillfactor = 90)",
    "cluster": "CLUSTER t USING t_pkey",
    "column": "ALTER TABLE t ADD late int",
}


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("change", OWN_CHANGES)
def test_an_own_change_does_not_hide_the_new_file_of_another(place: Place, change: str, isolation: str) -> None:
    """The row of the table in the catalog is our own then, the rows in its file are not."""
    owner, other = place.make(PLAIN), place.session()
    run(owner, f"BEGIN ISOLATION LEVEL {isolation}", "SELECT 1")
    run(other, "ALTER TABLE t ALTER note TYPE bigint")
    run(owner, OWN_CHANGES[change])
    assert states(owner, READS) == dict.fromkeys(READS, SNAPSHOT)
    run(owner, "ROLLBACK")


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("change", OWN_CHANGES)
def test_an_own_change_alarms_nobody(place: Place, change: str, isolation: str) -> None:
    """Before it, and after it."""
    owner = place.make(PLAIN)
    run(owner, f"BEGIN ISOLATION LEVEL {isolation}", "SELECT 1", OWN_CHANGES[change])
    assert states(owner, READS) == dict.fromkeys(READS, "")
    run(owner, "ALTER TABLE t ALTER note TYPE bigint", OWN_CHANGES["grant"])
    assert states(owner, READS) == dict.fromkeys(READS, "")
    run(owner, "COMMIT")


def test_a_table_of_the_own_transaction(place: Place) -> None:
    """The snapshot did not see it."""
    owner = place.session()
    run(owner, "BEGIN", PLAIN, "SELECT feed_create('f', 't'), exact_count_start('t')", "INSERT INTO t (n) VALUES (1)")
    run(owner, "ALTER TABLE t ALTER note TYPE bigint")
    assert scalar(owner, READS["count"]) == 1
    run(owner, "COMMIT")
    assert numbers(owner) == [1]


def test_a_count_before_an_own_rewrite(place: Place) -> None:
    """A cursor counts in the snapshot of its beginning; so does a query whose function writes the table anew."""
    owner = place.make(PLAIN)
    run(owner, "BEGIN", "DECLARE c CURSOR FOR SELECT exact_count('t')", "ALTER TABLE t ALTER note TYPE bigint")
    assert state(owner, "FETCH c") == SNAPSHOT
    run(owner, "ROLLBACK")
    run(
        owner, "CREATE FUNCTION anew() RETURNS text LANGUAGE plpgsql VOLATILE AS "
        "'BEGIN ALTER TABLE t ALTER note TYPE bigint; RETURN NULL; END'",
    )  # fmt: skip
    assert state(owner, "SELECT anew(), exact_count('t')") == SNAPSHOT
    assert scalar(owner, READS["count"]) == 4
