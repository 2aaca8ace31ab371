"""The adapter in bench/harness keeps the contract of the harness; and the page of a run is of what was kept of it."""

import json
import os
import subprocess
import sys

import pytest
from inorder.connection.database import Connection, one_row
from inorder.lab.server.cluster import Cluster

import pictures
import queues_page
from conftest import ROOT
from soak_page import with_legend
from study_pages import with_parts

FOLDER = ROOT / "bench" / "harness"
REQUIRED = {"claim_p50_ms", "claim_p95_ms", "claim_p99_ms", "enqueue_rate", "completion_rate", "queue_depth"}
JOBS = 30


@pytest.mark.server
def test_the_adapter_says_what_it_is_does_the_jobs_that_are_due_and_ends(cluster: Cluster, fresh: Connection) -> None:
    """The harness paces it: a line on stdin for some jobs."""
    environment = os.environ | {
        "DATABASE_URL": f"{cluster.dsn} dbname={fresh.info.dbname}", "PRODUCER_PACING": "harness",
        "WORKER_COUNT": "2", "SAMPLE_EVERY_S": "1",
    }  # fmt: skip
    command = [sys.executable, str(FOLDER / "main.py")]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        try:
            descriptor = json.loads(process.stdout.readline())
            assert json.loads((FOLDER / "adapter.json").read_text()).items() <= descriptor.items()
            assert descriptor["kind"] == "descriptor"
            process.stdin.write(f"ENQUEUE {JOBS}\n")
            process.stdin.flush()
            done, seen = 0.0, set[str]()
            while done < JOBS * 0.9 or not seen >= REQUIRED:
                sample = json.loads(process.stdout.readline())
                assert sample["kind"] == sample["subject_kind"] == "adapter" and sample["instance_id"] == 0
                seen.add(sample["metric"])
                done += sample["value"] * (sample["metric"] == "completion_rate")
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert one_row(fresh, "SELECT count(*) FROM jobs") == (JOBS,)
    assert one_row(fresh, "SELECT count(*) FROM feed_batches") == (0,)


def test_the_page_and_its_pictures_are_of_the_kept_run() -> None:
    page, run = queues_page.PAGE.read_text(), queues_page.kept()
    assert with_parts(page, queues_page.parts(run)) == page
    for curve in queues_page.DRAWN:
        for theme in ("light", "dark"):
            drawn = with_legend(queues_page.chart(curve, run), theme)
            assert drawn == (pictures.IMAGES / f"queues-{curve}-{theme}.svg").read_text()
