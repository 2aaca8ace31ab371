"""Changes read with positions of the reader, including on a standby and after partitions of the log are dropped."""

import threading
from collections.abc import Iterator

import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import LONG_RUN, SETTINGS, install_edition
from copies import SNAPSHOT, Copy, KeptCopy
from ground import state
from world.beside import beside
from world.server import Standby
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

WRITES = (
    "INSERT INTO t SELECT n, 'new' FROM generate_series(1, 40) AS n ON CONFLICT DO NOTHING",
    "UPDATE t SET note = note || 'x' WHERE id % 3 = 0", "DELETE FROM t WHERE id % 5 = 0",
    "UPDATE t SET id = id + 100 WHERE id = 7", "DELETE FROM t WHERE id > 100", "TRUNCATE t",
)  # fmt: skip
PARTITIONED = (
    "CREATE TABLE t_changes (change uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), id int[], op \"char\" NOT NULL) "
    "PARTITION BY RANGE (change)",
)  # fmt: skip


def prepare(connection: Connection) -> None:
    run(connection, "CREATE TABLE t (id int PRIMARY KEY, note text)", WRITES[0], "SELECT changes_enable('t')")


@pytest.mark.parametrize("max_rows", [None, 3])
def test_a_reader_can_keep_the_position_of_a_copy_itself(fresh: Connection, max_rows: int | None) -> None:
    prepare(fresh)
    copy = KeptCopy()
    for write in WRITES:
        copy.follow(fresh, max_rows)
        run(fresh, write)
    copy.follow(fresh, max_rows)
    run(fresh, "ALTER TABLE t ADD COLUMN more int", SNAPSHOT)
    with pytest.raises(Exception, match="may be missing from its log"):
        copy.step(fresh)
    run(fresh, "ROLLBACK", "SELECT changes_resync('t')")
    copy.follow(fresh)


def test_a_snapshot_older_than_the_rows_that_were_read_is_refused(cluster: Cluster, fresh: Connection) -> None:
    """Reading the remaining rows of a batch in an older snapshot would permanently overwrite newer rows."""
    prepare(fresh)
    copy, dsn = KeptCopy(), f"{cluster.dsn} dbname={fresh.info.dbname}"
    copy.follow(fresh)
    with connect(dsn) as late, connect(dsn) as older:
        run(late, "BEGIN", "SELECT pg_current_xact_id()")
        run(fresh, "UPDATE t SET note = 'y'")
        run(older, SNAPSHOT, "SELECT 1")
        run(late, "UPDATE t SET note = 'z'", "COMMIT")
        run(fresh, SNAPSHOT)
        assert copy.step(fresh, 41)  # the rows of the late transaction, which come first, plus one row
        run(fresh, "COMMIT")
        with pytest.raises(Exception, match="this position is newer than the snapshot of this transaction"):
            copy.step(older)
    copy.follow(fresh)


@pytest.fixture
def pair(server: Installation, edition_name: str) -> Iterator[tuple[Cluster, Standby]]:
    with Cluster(server) as primary:
        primary.start(SETTINGS)
        install_edition(edition_name, server, primary, "postgres")
        with Standby(primary) as standby:
            standby.start(SETTINGS)
            yield primary, standby


def test_a_copy_of_a_standby_equals_its_table(pair: tuple[Cluster, Standby], edition_name: str) -> None:
    """While the primary is written to, the copy equals the table on the standby after each batch."""

    def write(ended: threading.Event) -> None:
        with connect(pair[0].dsn) as connection:
            while not ended.is_set():
                run(connection, *WRITES)

    with connect(pair[0].dsn) as primary:
        prepare(primary)
        pair[1].catch_up()
        with connect(pair[1].dsn) as standby:
            if edition_name == "sql":
                assert state(standby, "SELECT reader_start('t_changes')") is not None
                return
            with beside(write):
                copy = KeptCopy()
                for _ in range(50 if LONG_RUN else 15):
                    run(standby, SNAPSHOT)
                    copy.step(standby)
                    assert copy.rows == copy.table_now(standby)
                    run(standby, "COMMIT")
            run(primary, "ALTER TABLE t ADD COLUMN more int")
            pair[1].catch_up()
            run(standby, SNAPSHOT)
            with pytest.raises(Exception, match="may be missing from its log"):
                copy.step(standby)


def test_a_copy_continues_after_partitions_of_the_log_are_dropped(fresh: Connection) -> None:
    """A feed needs none of the partitions that it has passed. Writers fail if no partition accepts new rows."""
    run(fresh, *PARTITIONED)
    bound = int(value(fresh, "SELECT pg_current_xact_id()::text"))
    floor = (
        "SELECT format('CREATE TABLE {} PARTITION OF t_changes FOR VALUES FROM (%L) TO (%L)', "
        "uuid_xact_floor({}), uuid_xact_floor({}))"
    )
    run(fresh, str(value(fresh, floor.format("first", 0, bound + 30))))
    prepare(fresh)
    run(fresh, "SELECT feed_create('copy', 't_changes')")
    copy = Copy()
    copy.follow(fresh)
    while int(value(fresh, "SELECT pg_current_xact_id()::text")) < bound + 31:
        pass
    assert state(fresh, WRITES[1]) == "23514"  # check_violation: the log has no partition for the row
    run(fresh, str(value(fresh, floor.format("second", bound + 30, 2**47))), *WRITES[:3])
    copy.follow(fresh)
    run(fresh, WRITES[1])
    assert value(fresh, "SELECT array_agg(p::text) FROM feed_passed_partitions('t_changes') AS p") == ["first"]
    run(fresh, "DROP TABLE first", *WRITES[1:4])
    copy.follow(fresh)
    assert copy.rows
