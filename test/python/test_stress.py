"""A short run of script/stress."""

import random
from unittest.mock import Mock

import psycopg
import pytest
from inorder.installations import Installation

import pooler
from conftest import LONG_RUN
from load.stress.around import Around
from load.stress.changes import run_changes
from load.stress.groups import run_groups
from load.stress.report import show
from load.stress.round import LEAST_CHECKS, run_round
from world.edition import EDITIONS
from world.world import World
from world.writers import Writer

pytestmark = pytest.mark.server


def test_a_row_is_doubtful_if_the_connection_is_lost_before_the_answer() -> None:
    """The server may have committed the row."""
    world = World("", seed=1)
    writer = Writer(world, 1)
    lost = Mock(side_effect=psycopg.OperationalError("server closed the connection unexpectedly"))
    writer.connection = Mock(execute=lost, cursor=lost)
    with pytest.raises(psycopg.OperationalError):  # the caller reconnects
        writer.row()
    (rows,) = world.ledger.doubtful
    assert [len(tokens) for tokens in rows.values()] == [1]


@pytest.mark.parametrize("edition", ["c", "sql"])
def test_nothing_is_lost_and_nothing_comes_twice(
    server: Installation, edition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 5 if LONG_RUN else 0.3
    if not LONG_RUN:
        monkeypatch.setattr("load.stress.round.WRITERS", 6)
    result = run_round(server, seconds, random.SystemRandom().randrange(1_000_000), edition=EDITIONS[edition])
    print(show(result))
    assert not result.failed
    assert result.checks >= LEAST_CHECKS and result.reread > 0
    assert all(line.delivered > 0 for line in result.lines)


@pytest.mark.parametrize("around", [Around(has_clock=True), Around(pooler="session"), Around(pooler="transaction")])
def test_nothing_is_lost_with_a_changed_clock_or_a_pooler(server: Installation, around: Around) -> None:
    if reason := around.missing():
        pytest.skip(reason)
    if around.pooler:
        pooler.program()
    result = run_round(server, 4, random.SystemRandom().randrange(1_000_000), around=around)
    print(show(result))
    assert not result.failed
    assert around.pooler or "clock set" in result.done


@pytest.mark.parametrize("edition", ["c", "sql"])
def test_copies_survive_crashes_between_batch_and_rows(server: Installation, edition: str) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    run = run_changes(server, 4, seed, EDITIONS[edition], asynchronous=True)
    print(run.seed, run.seen)
    assert not run.faults
    assert run.seen["compared"] > 0 and run.seen["kill -9"] > 0


@pytest.mark.parametrize("edition", ["c", "sql"])
def test_copies_by_changes_equal_the_table(server: Installation, edition: str) -> None:
    run = run_changes(server, 2.5 if LONG_RUN else 0.5, random.SystemRandom().randrange(1_000_000), EDITIONS[edition])
    print(run.seed, run.seen)
    assert not run.faults
    assert run.seen["compared"] > 0


@pytest.mark.parametrize(("edition", "crashes"), [("c", False), ("c", True), ("sql", True)])
def test_counts_by_group_agree_with_each_snapshot(server: Installation, edition: str, crashes: bool) -> None:
    run = run_groups(
        server, 5 if LONG_RUN else 1, random.SystemRandom().randrange(1_000_000), EDITIONS[edition], crashes
    )
    print(run.seed, run.seen)
    assert not run.faults
    assert (
        run.seen["compared in REPEATABLE READ"] > 0 and run.seen["folded"] > 0 and bool(run.seen["kill -9"]) == crashes
    )
