"""The lookup experiment: its queries, and the pages that they read."""

import pytest
from inorder.installations import Installation
from inorder.lab.experiments.lookup import COUNT_KEY, LookupExperiment, LookupPlan, explain, steps_of
from inorder.lab.plan.keys import USUAL_KINDS
from inorder.lab.plan.turn import Progress
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.server_settings import fill_settings
from inorder.lab.targets.throw_away import ThrowAway

from world.sql import value

ROWS = 20_000


def test_the_newest_key_is_queried_only_for_keys_in_time_order() -> None:
    assert {kind for kind in USUAL_KINDS if "newest_key" in steps_of(kind)} == {"bigint", "xact", "v7"}
    assert [kind for kind in USUAL_KINDS if COUNT_KEY in steps_of(kind)] == ["v7"]


def first_rows(experiment: LookupExperiment, kind: str) -> int:
    """Return the number of rows that come first in their page.

    These rows alone would not be representative of all rows.
    """
    with experiment.target.connect() as session:
        return int(value(session, f"SELECT pg_relation_size('inorder_lab.{kind}') / 8192"))


@pytest.mark.server
def test_each_query_finds_its_rows_by_the_index(server: Installation) -> None:
    plan = LookupPlan(kinds=("v7", "random"), rows=ROWS, queries=20, memory_bytes=2**20)
    with Cluster(server) as cluster:
        experiment = LookupExperiment(plan, ThrowAway(cluster), Progress())
        experiment.prepare()
        experiment.target.serve(fill_settings())
        for kind in plan.kinds:
            assert experiment.fill(kind, 1)["index_bytes"] > 2**19
            assert len(set(experiment.drawn[kind].keys)) > 2 * first_rows(experiment, kind)
        experiment.serve_small()
        measured = {(kind, step): experiment.look(kind, step, 1) for kind in plan.kinds for step in steps_of(kind)}
        with experiment.target.connect() as session:
            plain = explain(session, "SELECT count(*) FROM inorder_lab.v7")
    expected = {"newest_key": 100, "newest_created": 100, "recent": 1, "any": 1, "count_key": 1, "count_created": 1}
    for (_, step), metrics in measured.items():
        assert 99 < metrics["rows"] <= 100 if step == "page" else metrics["rows"] == expected[step]
        assert 0 < metrics["hits"] + metrics["reads"] < plain["Shared Hit Blocks"] + plain["Shared Read Blocks"]
    assert measured["random", "page"]["reads"] > 10 * measured["v7", "page"]["reads"]
