"""The short form of script/stress."""

import random

import pytest
from inorder.connection.database import connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from stress.changes import run_changes
from stress.edition import EDITIONS
from stress.readers import TwoStep
from stress.report import show
from stress.round import SETTINGS, prepare, run_round
from stress.world import World
from waiting import blocked, wait_for

pytestmark = pytest.mark.server

LEAST_CHECKS = 20


@pytest.mark.parametrize(("edition", "seconds"), [("c", 2.5), ("sql", 5)])
def test_nothing_is_lost_and_nothing_comes_twice(server: Installation, edition: str, seconds: float) -> None:
    result = run_round(server, seconds, random.SystemRandom().randrange(1_000_000), edition=EDITIONS[edition])
    print(show(result))
    assert not result.failed
    assert result.checks >= LEAST_CHECKS and result.reread > 0
    assert all(line.delivered > 0 for line in result.lines)


@pytest.mark.parametrize("edition", ["c", "sql"])
def test_copies_by_changes_are_the_table(server: Installation, edition: str) -> None:
    run = run_changes(server, 2.5, random.SystemRandom().randrange(1_000_000), EDITIONS[edition])
    print(run.seed, run.seen)
    assert not run.faults
    assert run.seen["compared"] > 0


@pytest.mark.parametrize("edition", ["c", "sql"])
def test_no_worker_forgets_what_another_was_given_meanwhile(server: Installation, edition: str) -> None:
    with Cluster(server) as cluster:
        cluster.start(SETTINGS)
        world = World(cluster.dsn, seed=1, edition=EDITIONS[edition])
        first = TwoStep(world, "workers", None)
        second = TwoStep(world, first.kind, None, first)
        prepare(world, [first, second])
        first.connect()
        second.connect()
        with first.connection, second.connection, connect(cluster.dsn) as other:
            ask = "SELECT feed_next_batch(%s)"
            second.connection.execute("BEGIN")
            assert second.connection.execute(ask, [second.feed("r_parts")]).fetchone() == (1,)
            with blocked(lambda _: first.accept_partitions("r_parts"), first.connection) as accepted:
                second.connection.execute("COMMIT")
            accepted.result()
            second.finish("r_parts", 1)
            assert not first.forgotten
            # What nobody has is forgotten.
            assert second.connection.execute(ask, [second.feed("r_uuid")]).fetchone() == (1,)
            second.connection.close()
            wait_for(
                lambda: other.execute("SELECT batch_pid FROM feeds WHERE unfinished_batch = 1").fetchone() == (None,)
            )
            first.accept_partitions("r_uuid")
            assert first.forgotten == {"r_uuid": 1}
