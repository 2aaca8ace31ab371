"""The short form of script/stress."""

import random

import pytest
from inorder.lab.server.servers import Server

from stress.edition import EDITIONS
from stress.report import show
from stress.round import run_round

LEAST_CHECKS = 20


@pytest.mark.server
@pytest.mark.parametrize(("edition", "seconds"), [("c", 6), ("sql", 5)])
def test_nothing_is_lost_and_nothing_comes_twice(server: Server, edition: str, seconds: float) -> None:
    """Writers, readers of every kind and counts at once, on a primary and a standby. A failure shows the seed."""
    result = run_round(server, seconds, random.SystemRandom().randrange(1_000_000), edition=EDITIONS[edition])
    print(show(result))
    assert not result.failed
    assert result.checks >= LEAST_CHECKS and result.reread > 0
    assert all(line.delivered > 0 for line in result.lines)
