"""A small run of each experiment, started the way a user starts it: its measurements, its output and its tables.

Runs of insert, like, mixed, reader, reuse, uuid-v1 and waves are in their own test files, which check more.
"""

import re
from typing import Any, cast

import pytest
from inorder.commands.catalogue import report_of
from inorder.installations import Installation
from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.feed.tables import READERS, SUMMARIES, WRITTEN
from inorder.lab.plan.turn import Progress
from inorder.lab.results.result import Result
from inorder.lab.targets.target import Target

from replay import Nowhere
from tool import LabRun

pytestmark = pytest.mark.server

# For each experiment: options, server settings, beginnings of lines, words within lines, and tables that have rows.
RUNS: dict[str, tuple[str, dict[str, str], set[str], set[str], set[str]]] = {
    "bulk": ("--rows 1k --rounds 1 --memory 16MB", {"shared_buffers": "2048 8kB"}, set(), set(),
             {"bulk-fpi-1000", "bulk-sizes-1000", "published_with_key"}),
    "feed": ("--rows 10k --rounds 2", {},
             {*(form.label for form in WRITTEN.values()), *READERS.values(), "exact_count, 1,000 since"},
             {"feed_read, nothing new"}, {"write", *SUMMARIES, "queries"}),
    "generators": ("--values 20k --rows 5k --rounds 2", {},
                   {"gen_random_uuid", "uuid_v7_nextval", "uuid_xact_nextval", "uuid_time_nextval", "nextval",
                    "text in", "text out", "ORDER BY", "GROUP BY, hashed", "hash join"}, set(), set()),
    "lookup": ("--keys bigint,v7 --rows 5k --queries 3 --rounds 1 --memory 1MB", {}, set(),
               {"Any one row, 5,000 rows"}, set()),
    "nodes": ("--keys uuid,v7 --rows 5k --nodes 2 --lag 0,250ms --memory 1MB", {}, set(),
              {"Keys of 2 nodes, 1,000 rows a second: 2,500 rows added to 5,000"}, set()),
    "noise": ("--keys v7,sequence --tables 2 --rows 1000 --inserts 800 --rounds 2", {},
              {"version 7 A/B", "sequence-prefixed A/B"}, {"With fewer than 6 rounds"}, {"noise"}),
    "sequence": ("--clients 1 --cache 1 --seconds 1 --rounds 1 --rows 1k --synchronous-commit off",
                 {"synchronous_commit": "off"}, set(),
                 {"Commits do not wait for the disk", "1 round is too few"}, {"sequence-tps", "sequence-bulk"}),
    "writers": ("--forms lock --seconds 1 --rounds 1 --clients 2", {"synchronous_commit": "off"},
                {"lock + DISCARD"}, {"Writing a log, one row a statement"}, set()),
}  # fmt: skip


def planned(result: Result) -> set[tuple[str, str, int, int]]:
    kind = all_experiments()[result.experiment]
    experiment: Any = kind(kind.plan_in(result), cast(Target, Nowhere()), Progress())
    return {
        (place.step, place.kind, place.rows, number) for stage in experiment.stages() for number in stage.numbers
        for turn in stage.turns(number) for place in turn.places if number > 0
    }  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_small_run_completes(lab_run: LabRun, server: Installation, name: str) -> None:
    options, settings, lines, words, tables = RUNS[name]
    result, printed = lab_run(f"{name} {options}")
    missing = {"uuidv7"} if server.major < 18 else set()
    assert {(run.step, run.kind, run.rows, run.round) for run in result.runs} == {
        place for place in planned(result) if place[1] not in missing
    }
    assert settings.items() <= result.server["settings"].items()
    assert {line for line in lines if not re.search(f"^{re.escape(line)} ", printed, re.M)} == set()
    assert {word for word in words if word not in " ".join(printed.split())} == set()
    assert tables <= {record["table"] for record in report_of(result).records(result)}
    assert all(
        value > 0 for run in result.runs for metric, value in run.metrics.items() if metric in ("seconds", "tps")
    )
