"""Every experiment of the lab by name, bound to the servers it runs on."""

from inorder.lab.experiments import (
    insert,
    noise,
)
from inorder.lab.keys import BASE_KINDS
from inorder.lab.legacy import Experiment
from inorder.lab.moving import moved
from inorder.lab.server_bench import ServerBench
from inorder.lab.serving import reading_method

# Heap and index of a uuid key with random keys' free space, as measured at 10 M rows; and the WAL kept of its fill.
TABLE_BYTES_PER_ROW = 83
INSERT_BYTES_PER_ROW = TABLE_BYTES_PER_ROW + 170

# What a fast machine inserts, with bigint and 8 sessions on 4 cores.
INSERT_ROWS_PER_SECOND = 200_000

# Study P1's three keys with every index dropped.
P1_WITHOUT_INDEX = ("random_char_none", "time_char_none", "bigint_none")

def insert_bytes(rows: int, turns: int, plan: insert.InsertPlan | noise.NoisePlan) -> int:
    """What a table needs that is filled to so many rows and has so many turns, each of which adds to it."""
    added = turns * (plan.inserts or plan.seconds * INSERT_ROWS_PER_SECOND)
    return rows * INSERT_BYTES_PER_ROW + added * TABLE_BYTES_PER_ROW


def measured(bench: ServerBench) -> ServerBench:
    """As it will be measured, so that those are the settings that are noted."""
    bench.serve_for_measuring()
    return bench


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        *moved(),
        Experiment(
            name=insert.NAME,
            study="P1, P3",
            plan=insert.InsertPlan,
            bench=lambda server, plan: measured(ServerBench(server, plan)),
            run=insert.run_insert,
            needs=lambda plan: (
                insert_bytes(max(plan.rows), plan.rounds * len(plan.clients), plan) * len(plan.variants),
                f"{max(plan.rows):,} rows of {len(plan.variants)} key kinds",
            ),
            method=reading_method,
            quick={"rows": (250_000, 2_000_000), "rounds": 6, "memory_bytes": 32 * 2**20},
            full={
                "rows": (1000, 1_000_000, 10_000_000, 50_000_000, 100_000_000),
                "seconds": 60,
                "rounds": 6,
                "kinds": (*BASE_KINDS, "random_char_unique", "random_char_plain", *P1_WITHOUT_INDEX),
            },
        ),
        Experiment(
            name=noise.NAME,
            study="",
            plan=noise.NoisePlan,
            bench=lambda server, plan: measured(ServerBench(server, plan.insert_plan(), plan.copies())),
            run=noise.run_noise,
            needs=lambda plan: (
                insert_bytes(plan.rows, plan.rounds, plan) * len(plan.copies()),
                f"{plan.rows:,} rows of {len(plan.copies())} tables",
            ),
            method=reading_method,
            quick={"rows": 250_000, "rounds": 9},
            full={"rows": 10_000_000, "rounds": 90, "seconds": 10},
        ),
    )
}
