"""Polls do not become more expensive during a long transaction, which retains all versions of a feed's state."""

from typing import Any

import psycopg
import pytest
from inorder.connection.database import Connection, connect

from conftest import LONG_RUN
from restoring import FINISH_SHARE, TAKE_SHARE, TURN, check_shares
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

BATCHES = 1000 if LONG_RUN else 300
MOVE = """DO $$ BEGIN
    FOR i IN 1 .. {batches} LOOP
        INSERT INTO t DEFAULT VALUES; COMMIT;
        PERFORM * FROM ({step}) AS s; COMMIT;
    END LOOP;
END $$"""
READ = "SELECT feed_apply('f', 'SELECT count(*) FROM batch')"
ASK = "SELECT number FROM feed_take_batch('f', 'w')"
TAKE = "SELECT feed_finish_batch('f', number, token) FROM feed_take_batch('f', 'w')"
VIEWS = "SELECT * FROM feeds", "SELECT * FROM feed_batches"
STATE = "inorder_internal.feed_state, inorder_internal.worker_batch, inorder_internal.share_worker"
SHARES = ", partition_by => 'n', shares => 4"
# One share waits for another worker. All new rows of this share go into one batch.
HELD = "INSERT INTO t DEFAULT VALUES; SELECT feed_take_batch('f', 'other', lease => '1 day')"


def all_pages(connection: psycopg.Connection[Any], look: str, rows: int) -> list[int]:
    """Return the numbers of pages read by the statement, with ``rows`` new rows, and by each view."""
    return [pages(connection, look, rows), *(pages(connection, view, 0) for view in VIEWS)]


def pages(connection: psycopg.Connection[Any], look: str, rows: int) -> int:
    """Return the number of pages that the second execution of the statement reads, with ``rows`` new rows."""
    insert = f"INSERT INTO t SELECT FROM generate_series(1, {rows})"
    run(connection, insert, look, insert)
    return explained(connection, look)


def explained(connection: psycopg.Connection[Any], look: str) -> int:
    ((plan,),) = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {look}".encode()).fetchall()
    return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])


@pytest.mark.parametrize(
    ("step", "look", "rows", "options", "before"),
    [
        (READ, READ, 0, "", ""), (READ, READ, 1, "", ""), (TAKE, ASK, 0, "", ""), (TAKE, TAKE, 1, "", ""),
        *((TAKE, *look, SHARES, held) for look in ((ASK, 0), (TAKE, 1)) for held in ("", HELD)),
    ],
)  # fmt: skip
def test_a_held_snapshot_does_not_increase_the_pages_that_a_poll_touches(
    fresh: Connection, other: Connection, step: str, look: str, rows: int, options: str, before: str
) -> None:
    run(
        fresh, "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n bigserial)",
        f"SELECT feed_create('f', 't'{options}); {before}",
    )  # fmt: skip
    # This VACUUM replaces autovacuum. With the statistics of a small table, the planner may choose a sequential scan,
    # and cached plans of this session could keep it.
    run(fresh, f"VACUUM (ANALYZE) {STATE}")
    fresh.execute(MOVE.format(batches=50, step=step).encode())
    at_first = all_pages(fresh, look, rows)
    run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM t")
    fresh.execute(MOVE.format(batches=BATCHES, step=step).encode())
    assert [now for now, was in zip(all_pages(fresh, look, rows), at_first, strict=True) if now > 2 * was] == []
    # The table now has few rows in many pages. With these statistics, a bitmap scan of all versions would appear
    # cheaper.
    run(fresh, f"VACUUM (ANALYZE) {STATE}")
    fresh.execute(MOVE.format(batches=20, step=step).encode())
    assert [now for now, was in zip(all_pages(fresh, look, rows), at_first, strict=True) if now > 2 * was] == []
    held = "SELECT pg_relation_size('inorder_internal.feed_state') > %s"
    assert value(fresh, held, 300 * BATCHES)


def test_a_share_is_found_by_its_index_after_vacuum(fresh: Connection) -> None:
    """The planner estimates the same cost for the index of all batches as for the index of one share.

    The few rows of a share are spread over many pages.
    """
    run(
        fresh, "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n bigserial)",
        "SELECT feed_create('f', 't', partition_by => 'n', shares => 256)",
        "INSERT INTO t SELECT FROM generate_series(1, 2000)",
        *(f"SELECT feed_take_batch('f', 'other {n}', 2)" for n in range(5)),
    )  # fmt: skip
    pages = []
    for _ in range(3):
        run(fresh, "BEGIN")
        pages.append(explained(fresh, "SELECT feed_take_batch('f', 'w', 500)"))
        run(fresh, "ROLLBACK", f"VACUUM {STATE}")
    assert pages[-1] < 2 * pages[0], pages


def test_a_waiting_share_keeps_its_rows_in_order(fresh: Connection, other: Connection) -> None:
    """Each update moves the batch's row within the file, so dead versions fill more and more pages."""
    run(
        fresh, "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n bigserial)",
        f"CREATE TABLE got (place bigserial, n bigint); SELECT feed_create('f', 't'{SHARES})",
    )  # fmt: skip
    waiting = "SELECT number FROM inorder_internal.worker_batch WHERE is_open"

    with connect(fresh.info.dsn) as holder:
        run(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM t")
        run(other, "INSERT INTO t DEFAULT VALUES", TAKE_SHARE.format("other"))
        places = set()
        for _ in range(90):
            run(fresh, "INSERT INTO t SELECT FROM generate_series(1, 4)", *TURN)
            places |= set(fresh.execute(waiting.encode()).fetchall())
        assert len(places) > 3
        run(other, FINISH_SHARE.format("other"))
        for _ in range(6):
            run(fresh, *TURN)
    check_shares(fresh, 361)


def test_a_retried_batch_is_taken_although_later_batches_are_finished(fresh: Connection) -> None:
    run(
        fresh, "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)", "SELECT feed_create('f', 't')"
    )
    for n in range(4):
        run(fresh, f"INSERT INTO t (n) VALUES ({n})")
        give_back = "feed_fail_batch('f', number, token, 'x')" if n == 1 else "feed_finish_batch('f', number, token)"
        run(fresh, f"SELECT {give_back} FROM feed_take_batch('f', 'w', max_tries => 1)")
    assert value(fresh, "SELECT number FROM feed_take_batch('f', 'w')") is None
    run(fresh, "SELECT feed_retry_batch('f', 2)", "INSERT INTO t (n) VALUES (4)")
    for batch in (2, 5, None):
        assert value(fresh, "SELECT number FROM feed_take_batch('f', 'w')") == batch
        run(fresh, "SELECT feed_finish_batch('f', b.number, w.token) FROM feed_batches AS b "
                       "JOIN inorder_internal.worker_batch AS w ON w.number = b.number")  # fmt: skip
