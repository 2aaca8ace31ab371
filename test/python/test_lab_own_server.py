"""The lab on the user's own server: what it may do and what it leaves out.

It leaves nothing behind and damages nothing.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from inorder.cli import cli
from inorder.commands.catalogue import report_of
from inorder.connection.database import SILENCE, connect
from inorder.errors import InorderError, InputError
from inorder.installations import Installation
from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.bulk import COPY_IN, COPY_OUT, STEPS, BulkPlan
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.mixed import MixedPlan
from inorder.lab.experiments.noise import NoisePlan
from inorder.lab.experiments.reader.readers import ReaderPlan
from inorder.lab.experiments.reuse import ReusePlan
from inorder.lab.experiments.sequence import SequencePlan
from inorder.lab.results.journal import load
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.own_server import MARK, OwnServer, require_usable
from psycopg.conninfo import conninfo_to_dict

from own_server_runs import ALL, but, fitted, plain, run_there, traces
from tool import inorder
from waiting import PATIENCE, wait_for, wait_until_empty
from world.sql import value


def schemas(dsn: str) -> object:
    with connect(dsn) as connection:
        return value(connection, "SELECT count(*) FROM pg_namespace WHERE nspname = 'inorder_lab'")


def test_a_plan_has_the_settings_of_the_server_instead_of_the_requested_ones() -> None:
    plan, notes = fitted(InsertPlan(memory_bytes=1), ALL)
    assert (plan.memory_bytes, plan.dump_wal, plan.kinds) == (2**27, False, InsertPlan().kinds)
    assert any("pg_waldump" in note for note in notes) and not any("checkpoint" in note for note in notes)
    plan, notes = fitted(SequencePlan(), ALL)
    assert (plan.synchronous_commit, plan.clients) == ("off", (1, 10))
    assert "Left out, since only 87 sessions were free: 100 clients." in notes
    plan, notes = fitted(BulkPlan(), ALL)
    assert set(STEPS) - set(plan.steps) == {COPY_IN, COPY_OUT} and any("pg_write_server_files" in n for n in notes)


def test_missing_privileges_are_named() -> None:
    for changes, words in (
        ({"may_checkpoint": False}, "lacks the privileges of pg_checkpoint"),
        ({"sees_wal": False}, "may not read pg_stat_wal"),
        ({"sees_checkpoints": False}, "may not call pg_control_checkpoint()"),
        ({"has_pgstattuple": False}, "Left out: leaf density"),
        ({"has_inorder": False}, "use: xact, version 7, time-prefixed, sequence-prefixed."),
    ):
        assert sum(words in note for note in fitted(InsertPlan(), but(**changes))[1]) == 1
        assert not any(words in note for note in fitted(InsertPlan(), ALL)[1])
    # Without the extension, keys that need it cause an error if the user names them.
    with pytest.raises(InputError, match="HINT: Run inorder install"):
        fitted(InsertPlan(kinds=("v7",)), but(has_inorder=False))
    with pytest.raises(InputError, match="fewer than any of --clients"):
        fitted(InsertPlan(clients=(8,)), but(free_sessions=5))
    with pytest.raises(InputError, match='has 2 free sessions for "me", fewer than --clients'):
        fitted(NoisePlan(clients=8), but(free_sessions=5))


def test_a_server_that_can_run_nothing_gives_one_sentence() -> None:
    require_usable(ALL)
    for changes, words in (
        ({"in_recovery": True}, "is a standby"),
        ({"may_create": False}, '"me" may not create a schema in the database "shop"'),
        ({"schema_comment": ""}, "which does not belong to this run; nothing was changed"),
        ({"schema_comment": MARK}, "DROP SCHEMA inorder_lab CASCADE removes it"),
        ({"counts": False}, "track_counts is off"),
    ):
        with pytest.raises(InputError, match=words):
            require_usable(but(**changes))


def test_experiments_that_can_use_the_users_server_have_the_option_dsn() -> None:
    for name, experiment in all_experiments().items():
        output = CliRunner().invoke(cli, ["lab", "run", name, "--help"]).output
        assert ("--dsn" in output) != experiment.alone, name


@pytest.mark.server
def test_a_run_with_all_privileges_has_all_figures_of_a_session(
    tmp_path: Path, users: Cluster, server: Installation
) -> None:
    for name, *options in (
        ("insert", "--rows", "1k", "--inserts", "200", "--clients", "2", "--keys", "bigint,v7,sequence"),
        ("bulk", "--rows", "1k", "--keys", "bigint,xact"),
        ("sequence", "--rows", "1k", "--seconds", "1", "--clients", "1", "--cache", "1"),
        ("noise", "--rows", "1k", "--inserts", "200", "--clients", "2", "--keys", "v7", "--tables", "2"),
    ):
        result, _ = run_there(tmp_path, server, users.dsn, name, *options)
        assert all("cpu_seconds" not in run.metrics and "cpu_us" not in run.metrics for run in result.runs)
        assert traces(users.dsn) == []
    inserts = load(tmp_path / "inorder-insert.jsonl").select("insert")
    assert {run.kind for run in inserts} == {"bigint", "v7", "sequence"}
    assert all(run.metrics["wal_records"] >= 2 * 200 and run.metrics["index_hits"] >= 200 for run in inserts)


@pytest.mark.server
def test_a_run_with_few_privileges_leaves_out_wal(tmp_path: Path, users: Cluster, server: Installation) -> None:
    done = inorder("lab", "run", "insert", "--dsn", plain(users), "--rounds", "2", "--rows", "1k", "--inserts", "200",
                   "--clients", "2", "--html", "page.html", folder=tmp_path, server=server)  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = load(tmp_path / "inorder-insert.jsonl")
    assert result.plan["kinds"] == ["bigint", "random"] and result.complete
    for run in result.select("insert"):
        assert run.metrics["index_hits"] >= 200 and "wal_bytes" not in run.metrics
    assert all(section.name != "model" for section in report_of(result).sections(result))
    page = (tmp_path / "page.html").read_text()
    assert "may not read pg_stat_wal" in page and "pg_checkpoint" in page and schemas(plain(users)) == 0
    refused = inorder("lab", "run", "bulk", "--dsn", plain(users, "postgres"), folder=tmp_path, server=server)
    assert refused.returncode == 2 and 'may not create a schema in the database "postgres"' in refused.stderr


@pytest.mark.server
def test_existing_objects_are_never_removed(tmp_path: Path, users: Cluster, server: Installation) -> None:
    with connect(users.dsn) as connection:
        connection.execute("CREATE SCHEMA inorder_lab")
        connection.execute("CREATE TABLE inorder_lab.mine AS SELECT 1 AS id")
        done = inorder("lab", "run", "bulk", "--dsn", users.dsn, folder=tmp_path, server=server)
        assert done.returncode == 2 and "already has a schema inorder_lab" in done.stderr
        own_server = OwnServer(users.dsn, server)
        with pytest.raises(InputError, match="already"):
            own_server.__enter__()
        assert value(connection, "SELECT id FROM inorder_lab.mine") == 1
        connection.execute("ALTER SCHEMA inorder_lab RENAME TO kept")
        with OwnServer(users.dsn, server):
            connection.execute("DROP SCHEMA inorder_lab")
            connection.execute("ALTER SCHEMA kept RENAME TO inorder_lab")
        assert value(connection, "SELECT id FROM inorder_lab.mine") == 1
        connection.execute("DROP SCHEMA inorder_lab CASCADE")
        with pytest.raises(InorderError, match="boom"), OwnServer(users.dsn, server):
            raise InorderError("boom")
    assert schemas(users.dsn) == 0


@pytest.mark.server
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_stays_after_an_interrupt(
    tmp_path: Path, users: Cluster, server: Installation, number: signal.Signals
) -> None:
    environment = os.environ | {"PG_CONFIG": str(server.bindir / "pg_config")}
    command = [sys.executable, "-m", "inorder", "lab", "run", "insert", "--dsn", users.dsn, "--rows", "1k", "--keys",
               "bigint", "--seconds", "1", "--rounds", "900"]  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=-3, stderr=-3) as process:
        file = tmp_path / "inorder-insert.jsonl"
        wait_for(file.exists)
        assert schemas(users.dsn) == 1
        process.send_signal(number)
        assert process.wait(PATIENCE) == 128 + number
    assert schemas(users.dsn) == 0 and not load(file).complete
    done = inorder("lab", "resume", str(file), folder=tmp_path, server=server)
    assert done.returncode == 2 and "was measured on your own server: give its --dsn" in done.stderr


@pytest.mark.server
def test_a_password_is_passed_by_the_environment(users: Cluster, server: Installation) -> None:
    with pytest.raises(InputError, match="--dsn has sslpassword, which every user of this machine could see"):
        OwnServer(f"{users.dsn} sslpassword=secret", server)
    own_server = OwnServer(f"{users.dsn} password=secret", server)
    assert "secret" not in own_server.database and own_server.environment()["PGPASSWORD"] == "secret"
    assert SILENCE.items() <= conninfo_to_dict(own_server.database).items()  # pgbench does not wait for hours either


def test_messages_of_vacuum_must_be_english() -> None:
    for language in ("", "C.UTF-8", "en_GB.UTF-8", "POSIX"):
        fitted(ReusePlan(), but(language=language))
    fitted(MixedPlan(), but(language="de_DE.UTF-8"))
    for language in ("de_DE.UTF-8", "Czech_Czechia.1250"):
        with pytest.raises(InputError, match=f"lc_messages of the server is {language}"):
            fitted(ReusePlan(), but(language=language))


def test_the_reader_experiment_names_what_it_requires() -> None:
    with pytest.raises(InputError, match="track_commit_timestamp is off"):
        fitted(ReaderPlan(), but(tracks_commits=False))
    fitted(MixedPlan(), but(tracks_commits=False))
    with pytest.raises(InputError, match='has 20 free sessions for "me", too few for --writers and readers'):
        fitted(ReaderPlan(writers=16), but(free_sessions=23))
    plan, notes = fitted(ReaderPlan(), but(has_inorder=False))
    assert plan.readers == ("id", "created") and "where v7 > last, xmin horizon, inorder feed." in " ".join(notes)
    assert not any("WAL" in note or "checkpoint" in note for note in fitted(ReaderPlan(), but(sees_wal=False))[1])


@pytest.mark.server
def test_the_folder_is_removed_after_a_kill(users: Cluster, server: Installation, shared_folder: Path) -> None:
    program = (
        "import os, sys; from inorder.lab.targets.own_server import OwnServer\n"
        "with OwnServer(sys.argv[1], None): os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", program, plain(users)]
    subprocess.run(command, check=False, env=os.environ | {"TMPDIR": str(shared_folder)})
    assert wait_until_empty(shared_folder)
    with connect(f"{users.dsn} dbname=bare") as connection:
        connection.execute("DROP SCHEMA inorder_lab")
