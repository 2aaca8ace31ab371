"""script/studies: runs as large as the published studies, one after the other."""

import gzip
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from inorder.lab.results.journal import load

import studies
from results_page import command
from studies import Room, Studied, next_run


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(studies, "ROOT", tmp_path)
    monkeypatch.setattr(studies, "UNFINISHED", tmp_path / "unfinished")
    monkeypatch.setattr(studies, "FINISHED", tmp_path)
    return tmp_path


def run_of(name: str, minutes: float = 1, gigabytes: float = 1, command: str = "sequence") -> Studied:
    return Studied(name, "P2", command, minutes, gigabytes, "nextval")


def test_each_run_is_a_valid_run_of_the_laboratory() -> None:
    """Each run uses only options that its command has."""
    assert [run.name for run in studies.runs() if studies.is_done(run) not in (True, False)] == []


@pytest.mark.parametrize(
    ("room", "chosen"),
    [
        (Room(100, 100), "long"),
        (Room(50, 100), "short"),
        (Room(5, 100), None),
        (Room(100, 20), "short"),
        (Room(100, 5.5), None),
    ],
)
def test_the_first_run_that_fits_is_run_next(folders: Path, room: Room, chosen: str | None) -> None:
    run = next_run([run_of("long", 90, 40), run_of("short", 10)], room)
    assert (run and run.name) == chosen


def test_an_interrupted_run_is_next_whatever_time_is_left(folders: Path) -> None:
    begun_run = run_of("begun", 90)
    begun_run.file.parent.mkdir()
    begun_run.file.write_text("{}\n")
    run = next_run([run_of("short"), begun_run], Room(5, 100))
    assert run is begun_run


def test_nothing_is_measured_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1.5, 0, 0))
    monkeypatch.setattr("sys.argv", ["studies", "--minutes", "60"])
    monkeypatch.setattr(studies, "run_all", lambda *_: pytest.fail("a run began"))
    with pytest.raises(SystemExit):
        studies.main()
    assert "the load average is 1.5, above 1.0" in capsys.readouterr().err


def test_a_run_is_done_if_a_result_of_its_plan_is_kept() -> None:
    options = command(load(studies.FINISHED / "sequence-18.jsonl.gz")).removeprefix("inorder lab run ")
    assert studies.is_done(run_of("sequence-18", command=options))
    assert not studies.is_done(run_of("sequence-18", command=f"{options} --seed 2"))
    assert not studies.is_done(run_of("sequence-1", command=options))


def test_a_run_that_is_interrupted_is_resumed_and_kept(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script replaces the tool.

    "lab run" takes a minute, and "lab resume" writes the missing measurements immediately.
    """
    tool = folders / "tool"
    tool.write_text(
        "#!/bin/sh\n"
        "if [ $2 = resume ]; then echo rest >> $3; exit; fi\n"
        "for file; do :; done\n"
        "trap 'exit 130' INT\n"
        "echo begun > $file; sleep 60 & wait\n"
    )
    tool.chmod(0o755)
    monkeypatch.setattr(studies, "TOOL", tool)
    monkeypatch.setattr(studies, "server_of", lambda _: {})
    run = run_of("small", minutes=0.05)
    assert studies.run_all([run], time.monotonic() + 20, again=False) == 0 and studies.is_begun(run)
    assert "begun: 0 measurements" in studies.state(run)
    assert studies.run_all([run], time.monotonic() + 300, again=False) == 0
    assert gzip.decompress(run.kept.read_bytes()) == b"begun\nrest\n" and not studies.is_begun(run)


def test_a_run_uses_the_server_that_its_name_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = SimpleNamespace(major=18, bindir=tmp_path)
    monkeypatch.setattr(studies, "embedded_installation", lambda: server)
    assert studies.server_of(run_of("sequence-18")) == {"PG_CONFIG": str(server.bindir / "pg_config")}
    assert studies.server_of(run_of("char-18-iops"))
    with pytest.raises(SystemExit, match="sequence-15: "):
        studies.server_of(run_of("sequence-15"))
