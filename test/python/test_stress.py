"""The short form of script/stress."""

import random

import pytest
from inorder.lab.server.servers import Server

from stress.report import show
from stress.round import run_round

SECONDS = 10
LEAST_CHECKS = 50


@pytest.mark.server
def test_nothing_is_lost_and_nothing_comes_twice(server: Server) -> None:
    """Writers, readers of every kind and counts at once, on a primary and a standby. A failure shows the seed."""
    result = run_round(server, SECONDS, random.SystemRandom().randrange(1_000_000))
    print(show(result))
    assert not result.failed
    assert result.checks >= LEAST_CHECKS and result.reread > 0
    assert all(line.delivered > 0 for line in result.lines)
