"""Every experiment by one command: what the folder has is kept, and what does not belong there is an error."""

from dataclasses import replace
from pathlib import Path

import pytest
from inorder.commands.all import begun, lab_run_all
from inorder.errors import InorderError, InputError
from inorder.installations import Installation
from inorder.lab.experiments import all_experiments
from inorder.lab.hosts import ThrowAwayHost
from inorder.lab.journal import save, usual_name
from inorder.lab.results import Run
from inorder.lab.runner import WholeRun

from tool import inorder


def test_what_is_there_is_gone_on_with(tmp_path: Path, server: Installation) -> None:
    experiment, file = all_experiments()["reader"], tmp_path / "r.json"
    host = ThrowAwayHost(server)
    fresh = begun(experiment, "quick", file, host).result
    assert fresh.runs == [] and not file.exists()
    fresh.runs.append(Run("read", "feed", 0, 1, {"lost": 0.0}))
    save(fresh, file)
    assert begun(experiment, "quick", file, host).result.runs == fresh.runs
    for other, message in ((("insert", "quick"), "of another run"), (("reader", "full"), "of another run")):
        with pytest.raises(InputError, match=message):
            begun(all_experiments()[other[0]], other[1], file, host)
    save(replace(fresh, method="magic"), file)
    with pytest.raises(InputError, match="of another server or method"):
        begun(experiment, "quick", file, host)


def save_complete(name: str, file: Path, server: Installation) -> None:
    experiment = all_experiments()[name]
    save(replace(ThrowAwayHost(server).result(experiment, experiment.Plan.of_size("quick", {})), complete=True), file)


def test_a_folder_that_is_complete_needs_no_server_to_run(tmp_path: Path, server: Installation) -> None:
    files = {name: usual_name(name) for name, kind in all_experiments().items() if not kind.needs}
    for name, file in files.items():
        save_complete(name, tmp_path / file, server)
    done = inorder("lab", "run", "all", "--quick", folder=tmp_path, server=server)
    assert done.returncode == 0, done.stderr
    assert all(f"{file}: complete already" in done.stderr for file in files.values())
    page = (tmp_path / "inorder-lab.html").read_text()
    assert all(f"<h2>{all_experiments()[name].summary.removesuffix('.')}</h2>" in page for name in files)
    again = inorder("lab", "run", "all", "--quick", "--full", folder=tmp_path, server=server)
    assert again.returncode == 2 and "--quick excludes --full" in again.stderr


def test_an_experiment_that_fails_leaves_a_page_of_the_others(
    tmp_path: Path, server: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(whole: WholeRun, *_: object) -> None:
        whole.result.runs.append(Run("read", "feed", 0, 1, {"lost": 0.0}))
        raise InorderError("no more disk")

    monkeypatch.setattr("inorder.commands.all.run_and_show", fails)
    monkeypatch.setattr("inorder.lab.report.html.render", lambda results: " ".join(one.label for one in results))
    save_complete("bulk", tmp_path / usual_name("bulk"), server)
    with pytest.raises(InorderError, match="no more disk"):
        assert lab_run_all.callback
        lab_run_all.callback(server.bindir, True, False, tmp_path)
    assert (tmp_path / "inorder-lab.html").read_text() == "inorder-bulk.jsonl inorder-feed.jsonl"
