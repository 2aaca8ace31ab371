"""The short form of script/stress."""

import random

import pytest
from inorder.installations import Installation

from stress.changes import run_changes
from stress.edition import EDITIONS
from stress.report import show
from stress.round import run_round

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
