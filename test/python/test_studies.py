"""script/studies: the runs at the studies' own size, one after the other."""

import time
from pathlib import Path

import pytest
from inorder.lab.journal import load

import studies
from studies import Room, Studied, next_run

SMALL = "sequence --quick --rounds 2 --seconds 1 --clients 1 --rows 1k --cache 1"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(studies, "ROOT", tmp_path)
    monkeypatch.setattr(studies, "UNFINISHED", tmp_path / "unfinished")
    monkeypatch.setattr(studies, "FINISHED", tmp_path)
    return tmp_path


def run_of(name: str, minutes: float = 1, gigabytes: float = 1, command: str = "sequence") -> Studied:
    return Studied(name, "P2", command, minutes, gigabytes, "nextval")


def test_each_run_is_one_of_the_laboratory() -> None:
    """Its options are those of its command; that is an error otherwise."""
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
def test_the_first_run_that_fits_is_next(folders: Path, room: Room, chosen: str | None) -> None:
    run = next_run([run_of("long", 90, 40), run_of("short", 10)], room)
    assert (run and run.name) == chosen


def test_a_run_that_was_begun_is_next_whatever_time_is_left(folders: Path) -> None:
    begun = run_of("begun", 90)
    begun.file.parent.mkdir()
    begun.file.write_text("{}\n")
    run = next_run([run_of("short"), begun], Room(5, 100))
    assert run is begun


def test_nothing_is_measured_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1.5, 0, 0))
    monkeypatch.setattr("sys.argv", ["studies", "--minutes", "60"])
    monkeypatch.setattr(studies, "run_all", lambda *_: pytest.fail("a run began"))
    with pytest.raises(SystemExit):
        studies.main()
    assert "the load average is 1.5, above 1.0" in capsys.readouterr().err


@pytest.mark.server
def test_a_run_that_is_interrupted_is_resumed_and_kept(folders: Path) -> None:
    run = run_of("small", command=SMALL)
    whole = time.monotonic()
    assert not studies.measure(run, 3) and studies.is_begun(run)
    before = len(load(run.file).runs)
    assert studies.run_all([run], whole + 300, again=False) == 0
    result = load(run.kept)
    assert result.complete and len(result.runs) > before and not studies.is_begun(run)
    assert studies.is_done(run) and not studies.is_done(run_of("small", command=f"{SMALL} --seed 2"))
