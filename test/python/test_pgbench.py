"""The output of pgbench, in recorded samples of the oldest and newest server, and its exit code."""

import os
import sys
from pathlib import Path

import pytest
from inorder.errors import InorderError
from inorder.lab.instruments.pgbench import Load, PgbenchResult, parse, progress_of, run

from waiting import PATIENCE

SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pgbench-15", PgbenchResult(553678, 184724.353756, 0.018, (174561.7, 182506.9, 196605.6))),
        ("pgbench-18", PgbenchResult(600180, 200248.300152, 0.015, (195374.6, 246387.0, 158416.2))),
    ],
)
def test_figures_of_recorded_runs_are_parsed(name: str, expected: PgbenchResult) -> None:
    seconds = [progress_of(line) for line in sample(f"{name}.err").splitlines()]
    assert parse(sample(f"{name}.out"), [progress[1] for progress in seconds if progress]) == expected


def test_figures_of_runs_by_number_of_transactions_are_parsed() -> None:
    assert parse(sample("pgbench-15-transactions.out"), []).transactions == 400
    assert parse(sample("pgbench-18-transactions.out"), []).tps == 187090.739008


def test_latencies_by_statement_are_parsed() -> None:
    report = "statement latencies in milliseconds and failures:\n"
    report += "         3.880           0  SELECT pg_advisory_lock(1);\n         0.008           0  \\endif\n"
    assert parse(sample("pgbench-18.out") + report, []).statements_ms == (3.88, 0.008)
    assert parse(sample("pgbench-18.out"), []).statements_ms == ()


def test_failed_transactions_are_an_error() -> None:
    failed = sample("pgbench-18.out").replace("failed transactions: 0", "failed transactions: 7")
    with pytest.raises(InorderError, match="7 failed transactions"):
        parse(failed, [])


@pytest.mark.parametrize("fact", ["number of transactions actually", "latency average", "tps =", "number of failed"])
def test_a_missing_figure_is_an_error(fact: str) -> None:
    without = "\n".join(line for line in sample("pgbench-15.out").splitlines() if not line.startswith(fact))
    with pytest.raises(InorderError, match="pgbench reported no"):
        parse(without, [])


def stand_in(folder: Path, body: str) -> Path:
    program = folder / "pgbench"
    program.write_text(f"#!{sys.executable}\nimport os, sys, time\n{body}\n")
    program.chmod(0o755)
    return program


def test_a_failing_run_shows_its_messages(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "print('pgbench: error: no such table', file=sys.stderr); sys.exit(2)")
    with pytest.raises(InorderError, match="status 2:\npgbench: error: no such table"):
        run(program, tmp_path / "x.sql", Load(1, 1, seconds=1), 1, os.environ)


def test_a_report_may_be_longer_than_a_pipe_holds(tmp_path: Path) -> None:
    """The output includes the script, which may be long: 90 sessions, each with a statement of 600 rows."""
    report = SAMPLES / "pgbench-18.out"
    body = (
        f"import signal; signal.alarm({PATIENCE})\nprint(open({str(report)!r}).read())\n"
        "print('  0.001  0  SELECT 1;\\n' * 100_000, flush=True)\nsys.stderr.close()"
    )
    done = run(stand_in(tmp_path, body), tmp_path / "x.sql", Load(1, 1, seconds=1), 1, os.environ, by_statement=True)
    assert done.transactions == 600180 and len(done.statements_ms) == 100_000


def test_pgbench_never_outlives_the_call(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    progress = "progress: 1.0 s, 10.0 tps, lat 0.1 ms stddev 0.1, 0 failed"
    body = (
        f"open({str(pid_file)!r}, 'w').write(str(os.getpid()))\n"
        f"print({progress!r}, file=sys.stderr, flush=True)\ntime.sleep(600)"
    )

    def interrupt(_tps: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(stand_in(tmp_path, body), tmp_path / "x.sql", Load(1, 1, seconds=600), 1, os.environ, interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
