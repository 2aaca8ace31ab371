"""List the runs that repeat the studies at full size, or run as many as the given time and the disk allow.

script/studies runs this program. Each run is an `inorder lab run` that writes to a file in build/studies. Interrupted
runs are resumed.
"""

import argparse
import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from inorder.commands.options import SET, experiment_command, plan_given, size_given
from inorder.installations import embedded_installation
from inorder.lab.experiments import all_experiments
from inorder.lab.plan.setting import Plan
from inorder.lab.results.journal import load

ROOT = Path(__file__).parents[2]
RUNS = Path(__file__).with_name("studies.toml")
UNFINISHED = ROOT / "build" / "studies"
FINISHED = ROOT / "docs" / "results"
TOOL = ROOT / ".venv" / "bin" / "inorder"
SPARE_GIGABYTES = 5  # disk space to leave free
ENDING_SECONDS = 120  # time for the lab to stop and remove its server


@dataclass(frozen=True)
class Studied:
    name: str
    study: str
    command: str
    minutes: float
    gigabytes: float
    decides: str

    @property
    def file(self) -> Path:
        return UNFINISHED / f"{self.name}.jsonl"

    @property
    def kept(self) -> Path:
        return FINISHED / f"{self.name}.jsonl.gz"


@dataclass(frozen=True)
class Room:
    minutes: float
    gigabytes: float


def runs(path: Path = RUNS) -> list[Studied]:
    return [Studied(**values) for values in tomllib.loads(path.read_text())["run"]]


def is_done(run: Studied) -> bool:
    """Return True if a stored result was made with the options of this command. The number of processors may differ."""
    name, *options = run.command.split()
    kind = all_experiments()[name]
    values = experiment_command(kind, print).make_context(name, options).params
    asked_plan = plan_given(kind.Plan, size_given(values.pop("quick"), values.pop("full")), False, settings_in(values))
    return run.kept.exists() and of_any_machine(asked_plan) == of_any_machine(kind.plan_in(load(run.kept)))


def settings_in(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name.startswith(SET)}


def of_any_machine(plan: Plan) -> dict[str, Any]:
    return {name: value for name, value in asdict(plan).items() if name not in ("threads", "fill_workers")}


def is_begun(run: Studied) -> bool:
    return run.file.exists()


def next_run(remaining: Iterable[Studied], room: Room) -> Studied | None:
    """Return the next run that fits on the disk: an interrupted run, or else the first run that fits into the time.

    >>> long, short = (Studied(name, "P1", "", minutes, 1, "") for name, minutes in (("long", 90), ("short", 10)))
    >>> next_run([long, short], Room(60, 100)).name, next_run([long, short], Room(5, 100))
    ('short', None)
    """
    fitting = [run for run in remaining if run.gigabytes + SPARE_GIGABYTES <= room.gigabytes]
    interrupted = [run for run in fitting if is_begun(run)]
    return next(iter([*interrupted, *(run for run in fitting if run.minutes <= room.minutes)]), None)


def room_until(end: float) -> Room:
    return Room((end - time.monotonic()) / 60, shutil.disk_usage(ROOT).free / 1e9)


def measure(run: Studied, seconds: float) -> bool:
    """Start or resume a run. Return False if the time runs out or the run fails."""
    UNFINISHED.mkdir(parents=True, exist_ok=True)
    command = ["lab", "resume", str(run.file)]
    if not is_begun(run):
        command = ["lab", "run", *run.command.split(), "--out", str(run.file)]
    print(f"{time.strftime('%H:%M')} {run.name}: inorder {' '.join(command)}", flush=True)
    with subprocess.Popen([TOOL, *command], stdout=subprocess.DEVNULL, env=os.environ | server_of(run)) as process:
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            print(f"{run.name}: the time is over; the next call resumes the run", flush=True)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(ENDING_SECONDS)
    return False


def server_of(run: Studied) -> dict[str, str]:
    """Return the environment that selects the server. The name of the run contains the server's major version."""
    server = embedded_installation()
    if server is None or f"-{server.major}" not in run.name:
        raise SystemExit(f"{run.name}: the embedded server is missing; run script/bootstrap --test --embedded")
    return {"PG_CONFIG": str(server.bindir / "pg_config")}


def keep(run: Studied) -> None:
    run.kept.write_bytes(gzip.compress(run.file.read_bytes(), mtime=0))
    run.file.unlink()
    print(f"{run.name}: kept as {run.kept.relative_to(ROOT)}", flush=True)


def state(run: Studied) -> str:
    if is_begun(run):
        return f"begun: {max(0, len(run.file.read_bytes().splitlines()) - 1)} measurements"
    if is_done(run):
        return "done"
    return "to do" if not run.kept.exists() else "to do; the result of a smaller run exists"


def listed(all_runs: Iterable[Studied]) -> None:
    for run in all_runs:
        print(f"{run.study}  {run.name:<18} {run.minutes:>4.0f} min {run.gigabytes:>3.0f} GB  {state(run)}")
        print(f"    {run.decides}\n    inorder lab run {run.command}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="script/studies")
    parser.add_argument("--minutes", type=float, help="run the next runs that fit into this time")
    parser.add_argument(
        "--load", type=float, default=1.0, help="do not begin above this load average (default: %(default)s)"
    )
    parser.add_argument("--only", metavar="NAME", help="run only this run, even if it was done before")
    options = parser.parse_args()
    chosen = [run for run in runs() if options.only in (None, run.name)]
    if not chosen:
        parser.error(f"--only must be one of {', '.join(run.name for run in runs())}, not {options.only}")
    if options.minutes is None:
        listed(chosen)
        return 0
    load = os.getloadavg()[0]
    if load > options.load:
        parser.error(f"the load average is {load:.1f}, above {options.load}: the times would not be comparable")
    return run_all(chosen, time.monotonic() + options.minutes * 60, again=options.only is not None)


def run_all(chosen: list[Studied], end: float, again: bool) -> int:
    """Measure the remaining runs until the time runs out. Return 1 if a run fails, and 0 otherwise."""
    remaining = [run for run in chosen if again or is_begun(run) or not is_done(run)]
    while (run := next_run(remaining, room_until(end))) is not None:
        remaining.remove(run)
        if measure(run, end - time.monotonic()):
            keep(run)
        elif time.monotonic() < end:
            print(f"{run.name}: the laboratory failed; its error is above", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
