"""The delivery experiment: what its readers are given on a server, and its figures."""

from collections.abc import Iterator

import pytest
from inorder.errors import InorderError
from inorder.lab.experiments.delivery import (
    FEED,
    DeliveryExperiment,
    DeliveryPlan,
    delays_ms,
)
from inorder.lab.progress import Progress
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.throw_away import ThrowAway
from inorder.servers import Server

from replay import recorded
from tool import LabRun

PLAN = DeliveryPlan(rate=50, writers=2, seconds=1, intervals=(0.02,))


@pytest.mark.parametrize("rows", [[1], [1, 2, 2], [1, 3]])
def test_rows_that_are_missing_or_come_again_are_an_error(rows: list[int]) -> None:
    with pytest.raises(InorderError, match=f"{len(rows)} rows were delivered of 2"):
        delays_ms({1: 10.0, 2: 10.0}, [(11.0, rows)])


@pytest.fixture
def experiment(server: Server) -> Iterator[DeliveryExperiment]:
    with Cluster(server) as cluster:
        made = DeliveryExperiment(PLAN, ThrowAway(cluster), Progress())
        made.prepare()
        yield made
        made.close()


@pytest.mark.server
@pytest.mark.parametrize("kind", PLAN.kinds)
def test_each_row_is_delivered_after_its_commit(experiment: DeliveryExperiment, kind: str) -> None:
    for seed in (1, 2):
        found = experiment.load(kind, seed)
        assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["most_ms"]
        assert found["server_percent"] > 0 and found["client_percent"] > 0
    idle = experiment.idle(kind, 0)
    assert idle["reads"] < 60
    (behind,) = experiment.session.execute("SELECT count(*) FROM feeds WHERE name = %s", (FEED,)).fetchall()
    assert behind == (1,)


def test_what_the_report_says() -> None:
    result = recorded("delivery")
    (section,) = DeliveryExperiment.sections(result)
    assert [row[0] for row in section.shown()] == ["feed_wait", "every 5 ms", "every 50 ms"]
    (verdict,) = DeliveryExperiment.verdicts(result)
    assert "a poll every 5 ms" in verdict.figures and "By feed_wait p50" in verdict.holds
    assert [bar.label for bar in verdict.bars] == ["feed_wait", "every 5 ms"]


@pytest.mark.server
def test_a_small_run_from_start_to_end(lab_run: LabRun) -> None:
    _, printed = lab_run("delivery --rate 20 --seconds 1 --rounds 1 --intervals 10ms")
    assert "at 20 commits a second" in printed
