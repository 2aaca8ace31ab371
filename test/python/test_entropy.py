"""The entropy pool: wiped, never shared by processes, never the same in two sessions."""

import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from conftest import SETTINGS, scalar

pytestmark = pytest.mark.server
SESSIONS = 300


def test_words_are_wiped_when_handed_out(connection: Connection) -> None:
    """Over two refills, so at every place of the pool."""
    assert scalar(connection, "SELECT test_pool_wiped(1100)") == 0


def test_a_forked_process_draws_its_own_words(connection: Connection) -> None:
    """The child inherits the parent's pool in memory, and must not use it."""
    assert scalar(connection, "SELECT test_fork_repeats(200)") == 0


def test_short_sessions_never_repeat(cluster: Cluster) -> None:
    cluster.restart(SETTINGS | {"shared_preload_libraries": "inorder"})
    words = []
    for _ in range(SESSIONS):
        with connect(cluster.dsn) as session:
            row = session.execute(
                "SELECT uuid_v7_nextval()::text, uuid_xact_nextval()::text, uuid_time_nextval()::text"
            ).fetchone()
            assert row is not None
            words += [str(value)[-12:] for value in row]  # 48 random bits: 900 of them collide with odds of 1 in 7e8
    assert len(set(words)) == 3 * SESSIONS
