"""Very short pieces of script/stress --for, and the page of the long runs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from inorder.installations import Installation
from inorder.lab.instruments.timing import PROC

import pictures
import soak_page
from conftest import ROOT
from load.soak.piece import run_piece
from load.soak.world import TABLES, diary, put, tokens_in
from study_pages import with_parts
from waiting import PATIENCE, wait_for

SECONDS = 1.5


def servers(folder: Path) -> list[str]:
    commands = []
    for process in PROC.glob("[0-9]*"):
        try:
            commands.append((process / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return [line for line in commands if str(folder / "server") in line]


def end_early(folder: Path, how: signal.Signals, *options: str | Path) -> int:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}/test:{ROOT}/test/python", "TMPDIR": str(folder)}
    committed = sum(len(tokens_in(path)) for path in folder.glob("soak-*/committed.s_uuid"))
    command = [sys.executable, "-m", "load.stress", "--for", "1h", "--rate", "300", *options]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: list(folder.glob("soak-*/tail.jsonl")))
            (soak,) = folder.glob("soak-*")
            wait_for(lambda: len(tokens_in(soak / "committed.s_uuid")) > committed + 300)
            wait_for(lambda: any("\0tail\0" in line for line in servers(soak)))
            process.send_signal(how)
            code = process.wait(PATIENCE)
        finally:
            process.kill()
    wait_for(lambda: not servers(soak))
    assert not diary(soak)["clean"]
    return code


@pytest.mark.server
def test_an_interrupted_test_is_resumed_and_missing_rows_are_found(server: Installation, shared_folder: Path) -> None:
    """The first piece is interrupted, and the second is killed. Later pieces include the commits and reads of both."""
    assert end_early(shared_folder, signal.SIGINT) == 130
    (folder,) = shared_folder.glob("soak-*")
    assert end_early(shared_folder, signal.SIGKILL, "--resume", folder) == -signal.SIGKILL
    before = {table: len(tokens_in(folder / f"committed.{table}")) for table in TABLES}
    detaching, *_ = tokens_in(folder / "committed.s_parts")  # as if the server had crashed before the commit
    put(folder / "gone.s_parts", [detaching])
    piece = run_piece(server, folder, SECONDS, SECONDS)
    assert piece["problems"] == [] and len(piece["lines"]) == 9
    assert all(line["due"] > before[line["table"]] for line in piece["lines"])
    token, another, *_ = tokens_in(folder / "feed_read.s_uuid")
    with (folder / "feed_read.s_uuid").open("r+b") as file:
        file.write(np.array([another, another]).tobytes())
    piece = run_piece(server, folder, SECONDS, SECONDS)
    assert piece["problems"] == ["feed_read of s_uuid: {'lost': 1, 'repeated': 1}"]
    assert token not in tokens_in(folder / "feed_read.s_uuid") and not servers(folder)


def test_the_page_and_its_pictures_agree_with_the_recorded_samples() -> None:
    page, soaks = soak_page.PAGE.read_text(), soak_page.kept()
    assert with_parts(page, soak_page.parts(soaks)) == page
    for curve in soak_page.DRAWN:
        for theme in ("light", "dark"):
            picture = soak_page.picture(curve, soak_page.longest(), theme)
            assert picture == (pictures.IMAGES / f"soak-{curve}-{theme}.svg").read_text() and "var(" not in picture
    lines = [line for soak in soaks for line in soak["pieces"][-1]["lines"]]
    assert not any(line[fault] for line in lines for fault in ("lost", "repeated", "foreign"))
