"""If inorder lab is killed in any phase, its server and folder are removed and its results are kept."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from inorder.installations import Installation
from inorder.lab.results.journal import load
from inorder.lab.results.result import Result
from inorder.lab.server.temporary import PREFIX

from tool import inorder, surroundings
from waiting import PATIENCE, running, wait_until_empty, wait_until_gone

pytestmark = pytest.mark.server
FILE = "r.json"
FILLED_BYTES = 64 * 2**20  # an empty cluster has 40 MB, including its WAL
PIPE_BYTES = 4096

INSERT = ("insert", "--keys", "bigint", "--inserts", "1000")
SMALL_INSERT = (*INSERT, "--rows", "1000")
SMALL_BULK = ("bulk", "--keys", "bigint", "--rows", "1000")
SHOWN = {SMALL_INSERT: "Inserting into a table of 1,000 rows", SMALL_BULK: "1 k rows: seconds"}
ROUNDS = {SMALL_INSERT: "4", SMALL_BULK: "10"}  # number of rounds that take about a second
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
BOTH_SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)


class Lab:
    def __init__(self, folder: Path, server: Installation, temporary: Path, *arguments: str) -> None:
        self.file, self.temporary = folder / FILE, temporary
        self.stdout, pipe = os.pipe()
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.write(pipe, b"-" * PIPE_BYTES)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "inorder", "lab", "run", *arguments, "--out", FILE],
            stdout=pipe, stderr=subprocess.PIPE, text=True, cwd=folder, env=surroundings(server, temporary),
        )  # fmt: skip
        os.close(pipe)

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()
        os.close(self.stdout)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None and time.monotonic() < deadline, self.process.communicate()
            time.sleep(0.02)

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        while os.read(self.stdout, PIPE_BYTES):
            pass  # read until the run has ended
        _, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, err

    def filling(self) -> bool:
        data = self.temporary.glob(f"{PREFIX}*/data/**/*")
        return sum(size_of(path) for path in data) > FILLED_BYTES and not self.file.exists()

    def measured(self, in_round: int = 1) -> bool:
        runs = load(self.file).runs if self.file.exists() else []
        return any(run.step != "fill" and run.round >= in_round for run in runs)

    def complete(self) -> bool:
        return self.file.exists() and load(self.file).complete

    def postmaster(self) -> int:
        (file,) = self.temporary.glob(f"{PREFIX}*/data/postmaster.pid")
        return int(file.read_text().split()[0])


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def kept(folder: Path, temporary: Path, shown: str) -> Result:
    assert list(temporary.iterdir()) == []
    assert [path.name for path in folder.iterdir()] == [FILE]
    done = inorder("lab", "report", FILE, folder=folder)
    # The title of a table is wrapped to the table's width, which depends on the figures.
    output = re.sub("[ \n]+", " ", done.stdout)
    assert done.returncode == 0 and shown in output, done.stdout + done.stderr
    return load(folder / FILE)


@BOTH_SIGNALS
def test_a_run_killed_while_it_fills_tables_leaves_no_file(
    tmp_path: Path, server: Installation, shared_folder: Path, number: signal.Signals
) -> None:
    """Nothing has been measured yet, so the run leaves no file."""
    with Lab(tmp_path, server, shared_folder, *INSERT, "--rows", "20M") as lab:
        lab.wait_for(lab.filling)
        postmaster = lab.postmaster()
        code, err = lab.end(number)
    assert code == CODES[number] and "Traceback" not in err
    assert not running(postmaster)
    assert list(shared_folder.iterdir()) == list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("arguments", "number"), [(SMALL_INSERT, signal.SIGTERM), (SMALL_BULK, signal.SIGINT)])
def test_a_run_killed_while_it_measures_keeps_its_measurements(
    tmp_path: Path, server: Installation, shared_folder: Path, arguments: tuple[str, ...], number: signal.Signals
) -> None:
    with Lab(tmp_path, server, shared_folder, *arguments, "--rounds", "500") as lab:
        lab.wait_for(lab.measured)
        postmaster = lab.postmaster()
        code, err = lab.end(number)
    assert code == CODES[number] and "Traceback" not in err
    assert not running(postmaster)
    assert not kept(tmp_path, shared_folder, SHOWN[arguments]).complete


@BOTH_SIGNALS
def test_a_run_killed_while_it_reports_keeps_its_complete_result(
    tmp_path: Path, server: Installation, shared_folder: Path, number: signal.Signals
) -> None:
    with Lab(tmp_path, server, shared_folder, *SMALL_BULK, "--rounds", "1") as lab:
        lab.wait_for(lambda: lab.complete() and not list(shared_folder.iterdir()))
        time.sleep(0.2)
        assert lab.process.poll() is None
        code, err = lab.end(number)
    assert code == CODES[number] and "Traceback" not in err
    assert kept(tmp_path, shared_folder, SHOWN[SMALL_BULK]).complete


@pytest.mark.parametrize("arguments", [SMALL_INSERT, SMALL_BULK], ids=lambda arguments: arguments[0])
def test_a_killed_run_is_resumed(
    tmp_path: Path, server: Installation, shared_folder: Path, arguments: tuple[str, ...]
) -> None:
    with Lab(tmp_path, server, shared_folder, *arguments, "--rounds", ROUNDS[arguments]) as lab:
        lab.wait_for(lambda: lab.measured(in_round=2))
        postmaster = lab.postmaster()
        lab.process.kill()
        lab.process.wait()
    assert wait_until_gone(postmaster)
    before = load(tmp_path / FILE)
    assert not before.complete and SHOWN[arguments] in inorder("lab", "report", FILE, folder=tmp_path).stdout
    assert wait_until_empty(shared_folder)
    done = inorder("lab", "resume", FILE, folder=tmp_path, server=server, temporary=shared_folder)
    assert done.returncode == 0, done.stderr
    after = kept(tmp_path, shared_folder, SHOWN[arguments])
    # bulk repeats an interrupted round from the beginning, because all steps of a round use the same table.
    first_round = [run for run in before.runs if run.step != "fill" and run.round == 1]
    assert after.complete and len(after.runs) > len(before.runs) and first_round
    assert all(run in after.runs for run in first_round)
