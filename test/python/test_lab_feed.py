"""The feed experiment: order of turns, ratios and targets, and a small run from start to end."""

import csv
import io
import json
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from inorder.cluster import Cluster
from inorder.errors import InorderError
from inorder.lab.experiments import feed as experiment
from inorder.lab.experiments.feed import (
    ENDED,
    FORMS,
    HELD,
    LOOKS,
    READERS,
    SUMMARIES,
    WRITES,
    WRITTEN,
    FeedPlan,
    looked,
    run_feed,
)
from inorder.lab.feed_bench import ServerFeedBench
from inorder.lab.feed_tables import LOG_FORMS, log_table
from inorder.lab.results import Result, Run, load
from inorder.lab.timing import Prepared
from inorder.report.catalogue import REPORTS
from inorder.report.feed import LOOK_LABELS, FeedRow, summarise_feed
from inorder.servers import Server
from rich.console import Console

from conftest import Counting, Silent, scalar
from test_cli import inorder

TURNS = [(s, k) for s in WRITES for k in WRITTEN] + [(s, k) for s in SUMMARIES for k in READERS]


class OnPaper:
    """A bench that only writes down what it is asked."""

    def __init__(self, interrupt_at: int = 0) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.left = interrupt_at

    def note(self, *words: str) -> dict[str, float]:
        """The interrupt comes here."""
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        self.asked.append(words)
        return {"seconds": 1.0, "cpu_seconds": 1.0}

    def fill(self) -> None:
        """Noted."""
        self.note("fill")

    def write(self, step: str, kind: str) -> dict[str, float]:
        """Noted."""
        return self.note(step, kind)

    def read(self, step: str, kind: str) -> dict[str, float]:
        """Noted."""
        return self.note(step, kind)

    def hold(self) -> None:
        """Noted."""
        self.note("hold")

    def release(self) -> None:
        """Noted."""
        self.note("release")

    def look(self, step: str, form: str) -> dict[str, float]:
        """Noted."""
        return self.note(step, form)


def empty_result(plan: FeedPlan) -> Result:
    """Nothing measured yet."""
    return Result(experiment.NAME, "now", "0", plan.seed, plan.as_dict(), {}, {}, "mock")


def test_writers_and_readers_take_turns_and_looks_come_twice() -> None:
    """Each once a round in changing order, round 0 not kept; then looks, with a transaction open and without."""
    plan, bench, progress = FeedPlan(rounds=3), OnPaper(), Counting()
    result = empty_result(plan)
    run_feed(plan, bench, result, progress, lambda: None)
    assert bench.asked[0] == ("fill",)
    rounds = [tuple(bench.asked[1 + n * len(TURNS) : 1 + (n + 1) * len(TURNS)]) for n in range(4)]
    assert all(Counter(one) == Counter(TURNS) for one in rounds) and len(set(rounds)) == 4
    looks = bench.asked[1 + 4 * len(TURNS) :]
    half = 1 + len(FORMS) * len(LOOKS)
    assert [looks[n * half][0] for n in range(6)] == ["hold", "release"] * 3
    for n in range(6):
        steps = looks[n * half + 1 : (n + 1) * half]
        assert [step for step, _ in steps] == list(LOOKS) * len(FORMS)
        assert {form for _, form in steps} == set(FORMS)
    assert progress.ended == progress.totals and result.complete
    kinds = [(s, looked(f, state)) for s in LOOKS for f in FORMS for state in (HELD, ENDED)]
    assert Counter((run.step, run.kind) for run in result.runs) == Counter([*TURNS, *kinds] * 3)


def test_an_interrupt_keeps_the_turns_before_it() -> None:
    """And they can be shown."""
    result = empty_result(FeedPlan())
    with pytest.raises(KeyboardInterrupt):
        run_feed(FeedPlan(), OnPaper(interrupt_at=len(TURNS) + 6), result, Silent(), lambda: None)
    assert len(result.runs) == 4 and not result.complete and len(summarise_feed(result)) >= 4


@pytest.mark.parametrize(
    ("turns", "of_first"),
    [
        (1, 0), (5 + 2 * len(TURNS), len(TURNS)), (3 + 4 * len(TURNS), 3 * len(TURNS)),
        (40 + 4 * len(TURNS), 3 * len(TURNS) + 2 * len(FORMS) * len(LOOKS)),
    ],
)  # fmt: skip
def test_no_round_is_of_two_servers(turns: int, of_first: int) -> None:
    """One of turns or of looks that was cut off begins anew on the next server, as a whole; the others stay."""

    class Second(OnPaper):
        def note(self, *words: str) -> dict[str, float]:
            return super().note(*words) | {"seconds": 2.0}

    plan, bench, progress = FeedPlan(rounds=3), Second(), Counting()
    result = empty_result(plan)
    with pytest.raises(KeyboardInterrupt):
        run_feed(plan, OnPaper(interrupt_at=1 + turns), result, Silent(), lambda: None)
    run_feed(plan, bench, result, progress, lambda: None)
    servers: dict[tuple[int, bool], set[float]] = {}
    for run in result.runs:
        servers.setdefault((run.round, run.step in LOOKS), set()).add(run.metrics["seconds"])
    assert len(servers) == 6 and all(len(one) == 1 for one in servers.values())
    assert sum(run.metrics["seconds"] == 1.0 for run in result.runs) == of_first
    kinds = [(s, looked(f, state)) for s in LOOKS for f in FORMS for state in (HELD, ENDED)]
    assert Counter((run.step, run.kind) for run in result.runs) == Counter([*TURNS, *kinds] * 3)
    assert progress.ended == progress.totals


def test_amounts_are_those_asked_for_where_the_table_is_large_enough() -> None:
    """At 20 M rows; a small table has less of everything, but some."""
    plan = FeedPlan()
    assert (plan.read_rows, plan.new_rows) == (1_000_000, 500_000)
    wanted = {"piece": 10_000, "count": 0, "count_few": 1000, "count_many": 100_000}
    assert {step: plan.looked_at[step] for step in wanted} == wanted
    small = FeedPlan(rows=10_000)
    assert all(p.written["write_batch"] % experiment.BATCH_ROWS == 0 for p in (small, plan))
    assert min(*small.written.values(), small.read_rows, small.new_rows, small.looked_at["count_few"]) > 0
    # Every call of a piece, and the one that warms up, must find as many rows.
    assert all((LOOKS["piece"] + 1) * p.looked_at["piece"] <= p.rows for p in (small, plan))


def made_up(rounds: int = 6) -> Result:
    """Everything takes as long as its round; what is guarded twice, what looks during an open transaction thrice."""
    plan = FeedPlan(rounds=rounds)
    result = empty_result(plan)
    for number in range(1, rounds + 1):
        for step, kind in TURNS:
            seconds = number * (1.0 if kind in ("bigserial", "plain") else 2.0)
            rows = plan.written.get(step, plan.read_rows)
            result.runs.append(Run(step, kind, rows, number, {"seconds": seconds, "cpu_seconds": seconds / 2}))
        for step in LOOKS:
            for form in FORMS:
                for state, factor in ((HELD, 0.003), (ENDED, 0.001)):
                    metrics = {"seconds": number * factor, "calls": 1.0}
                    result.runs.append(Run(step, looked(form, state), plan.looked_at[step], number, metrics))
    return result


def row(rows: list[FeedRow], step: str, kind: str, metric: str = "seconds") -> FeedRow:
    """One row of the summary."""
    (one,) = [row for row in rows if (row.step, row.kind, row.metric) == (step, kind, metric)]
    return one


def test_ratios_are_paired_and_targets_beside() -> None:
    """Per row for writers; of CPU and of the clock for readers; in milliseconds for looks."""
    rows = summarise_feed(made_up())
    base, uuid = (row(rows, "write_single", kind, "cpu_seconds") for kind in ("bigserial", "uuid"))
    assert base.ratio is None and base.value.median == pytest.approx(1.75 / 50_000 * 1e6)
    assert uuid.ratio and (uuid.ratio.low, uuid.ratio.median, uuid.ratio.high) == (2.0, 2.0, 2.0)
    assert (uuid.ratio_of, uuid.ratio_target, uuid.target) == ("bigserial", 1.1, None)
    assert row(rows, "write_batch", "uuid_unguarded", "cpu_seconds").ratio_target == 0.9
    for metric in ("seconds", "cpu_seconds"):
        apply = row(rows, "read_rows", "brin_apply", metric)
        assert apply.ratio and (apply.ratio.median, apply.ratio_of, apply.ratio_target) == (2.0, "plain", 1.1)
    idle, held = row(rows, "idle", "uuid"), row(rows, "idle", "uuid_held")
    assert (idle.value.median, idle.unit, idle.target, idle.ratio) == (pytest.approx(3.5), "ms", 0.2, None)
    assert held.ratio and held.ratio.median == pytest.approx(3.0) and held.ratio_of == "uuid"


def test_every_look_has_a_label() -> None:
    """And so a line."""
    assert set(LOOK_LABELS) == set(LOOKS)
    assert set(WRITTEN) == set(LOG_FORMS)


def test_the_tables_fit_a_terminal() -> None:
    """80 columns, with intervals."""
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(*REPORTS[experiment.NAME].tables(made_up()))
    text = console.export_text()
    assert "2.00 [2.00–2.00]" in text and "1.1 / 0.95" in text and "exact_count, 100,000 since" in text
    assert "…" not in text.replace("id > … AND id <= …", "")
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80


@pytest.mark.server
def test_what_arrives_and_what_is_checked(server: Server) -> None:
    """The rows there are, the transactions they come in, and an error when an answer is wrong."""
    plan = FeedPlan(rows=10_000)
    with Cluster(server) as cluster, closing(ServerFeedBench(cluster, plan)) as bench:
        bench.fill()
        one = bench.connection
        for form in FORMS:
            assert scalar(one, f"SELECT count(*) FROM {log_table(form)}") == 10_000
        assert scalar(one, "SELECT count(DISTINCT xact) FROM inorder_lab.log_brin") == 100
        assert scalar(one, "SELECT max(length(c5)) + max(length(c10)) FROM inorder_lab.log_uuid") == 64
        assert scalar(one, "SELECT count(*) FROM inorder_lab.log_bigserial") == 2 * plan.read_rows
        for step, kind in (("read_rows", "plain"), ("read_seconds", "uuid_apply"), ("read_rows", "brin_read")):
            assert bench.read(step, kind).keys() == {"seconds", "cpu_seconds"}
        bench.hold()
        assert scalar(one, "SELECT count(*) FROM inorder_lab.log_uuid") == 15_000
        for step in LOOKS:
            assert bench.look(step, "uuid")["calls"] == LOOKS[step]
        bench.release()
        assert scalar(one, "SELECT count(*) FROM inorder_lab.log_uuid") == 21_001
        assert bench.look("new", "uuid")["seconds"] > 0
        one.execute("UPDATE inorder_internal.count_part SET rows = rows + 1")
        with pytest.raises(InorderError, match=r"count\('inorder_lab.log_uuid'\): 21002 instead of 21001"):
            bench.look("count", "uuid")
        with Prepared(one, "SELECT 1 / (SELECT 0)") as wrong, pytest.raises(InorderError, match="division by zero"):
            wrong()
        with pytest.raises(InorderError, match="2 rows instead of 3"):
            bench.check("it", "SELECT 2", 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--quick", "--full"), "--quick and --full exclude each other"),
        (("--rows", "9999"), "--rows must be a number from 10,000"),
        (("--rows", "10G"), "10,000,000,000 rows of two tables need about"),
        (("--out", "no/such/r.json"), "cannot write no/such/r.json"),
    ],
)
def test_bad_options_are_one_clear_sentence(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2, and nothing written."""
    done = inorder("lab", "run", "feed", *arguments, folder=tmp_path)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.server
def test_a_small_run_from_start_to_end(tmp_path: Path, server: Server, shared_folder: Path) -> None:
    """Every turn and look in the file and the tables; reported again in every format; nothing left behind."""
    done = inorder(
        "lab", "run", "feed", "--rows", "10k", "--rounds", "2",
        folder=tmp_path, server=server, temporary=shared_folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["inorder-feed.json"]
    assert list(shared_folder.iterdir()) == []
    result = load(tmp_path / "inorder-feed.json")
    assert result.complete
    looks = [(step, looked(form, state)) for step in LOOKS for form in FORMS for state in (HELD, ENDED)]
    assert Counter((run.step, run.kind) for run in result.runs) == Counter([*TURNS, *looks] * 2)
    assert all(run.metrics["seconds"] > 0 for run in result.runs)
    for label in (*WRITTEN.values(), *READERS.values(), "feed_read, nothing new", "exact_count, 1,000 since"):
        assert f"\n{label} " in done.stdout
    again = inorder("lab", "report", "inorder-feed.json", folder=tmp_path)
    assert again.stdout == done.stdout
    records = json.loads(inorder("lab", "report", "inorder-feed.json", "--format", "json", folder=tmp_path).stdout)
    assert {record["table"] for record in records} == {"write", *SUMMARIES, "looks"}
    assert {record["step"] for record in records if record["table"] == "looks"} == set(LOOKS)
    lines = inorder("lab", "report", "inorder-feed.json", "--format", "csv", folder=tmp_path).stdout
    assert len(list(csv.DictReader(io.StringIO(lines)))) == len(records)
