"""The lab on the user's own server: what it may do there, what it leaves out, that nothing stays or is harmed."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from inorder.cli import cli
from inorder.cluster import Cluster
from inorder.database import connect
from inorder.errors import InorderError, InputError
from inorder.lab.catalogue import EXPERIMENTS
from inorder.lab.clocks import Apart
from inorder.lab.experiments.bulk import COPY_IN, COPY_OUT, STEPS, BulkPlan
from inorder.lab.experiments.generators import FLOOR, INSERTS
from inorder.lab.experiments.insert import InsertPlan
from inorder.lab.experiments.mixed import AGAIN, MixedPlan
from inorder.lab.experiments.mixed import STEPS as STEPS_OF_MIXED
from inorder.lab.experiments.noise import NoisePlan
from inorder.lab.experiments.reader import READERS, ReaderPlan
from inorder.lab.experiments.reuse import ReusePlan
from inorder.lab.experiments.sequence import SequencePlan
from inorder.lab.experiments.uuid_v1 import KINDS as UUID_V1_KINDS
from inorder.lab.experiments.uuid_v1 import STEPS as LIFE
from inorder.lab.experiments.uuid_v1 import UuidV1Plan
from inorder.lab.experiments.writers import WritersPlan
from inorder.lab.fitting import Found, fitted
from inorder.lab.own_server import MARK, OwnServer, require_usable
from inorder.lab.pgbench import Load
from inorder.lab.reader_bench import PollingBench
from inorder.lab.results import OWN_SERVER, Result, load
from inorder.lab.uuid_v1_bench import require_room
from inorder.lab.writers_bench import SerialBench
from inorder.report.catalogue import report_of
from inorder.servers import Server

from conftest import scalar
from test_cli import inorder
from test_cluster import wait_until_empty

ALL = Found("15.1", "me", "shop", False, True, True, None, True, True, True, True, True, 90, 2**27, "off", "C", True)


def but(**changes: object) -> Found:
    """A server that lets all be seen and done, but for this."""
    return Found(**{**vars(ALL), **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def users(server: Server) -> Iterator[Cluster]:
    """A server of the user's: one database with the extension, one without, in which a role may make schemas."""
    with Cluster(server) as running:
        running.start({"fsync": "off", "track_commit_timestamp": "on"})
        with connect(running.dsn) as connection:
            for statement in (
                "CREATE SCHEMA elsewhere", "CREATE EXTENSION inorder SCHEMA elsewhere", "CREATE DATABASE bare",
                "CREATE ROLE plain LOGIN", "GRANT CREATE ON DATABASE bare TO plain",
            ):  # fmt: skip
                connection.execute(statement.encode())
        with connect(f"{running.dsn} dbname=bare") as connection:
            connection.execute("REVOKE ALL ON pg_stat_wal FROM public")
        yield running


def plain(users: Cluster, database: str = "bare") -> str:
    """The connection string of a role without rights."""
    return f"host={users.folder / 'run'} port=5432 user=plain dbname={database}"


def schemas(dsn: str) -> object:
    """How many there are of the lab's name."""
    with connect(dsn) as connection:
        return scalar(connection, "SELECT count(*) FROM pg_namespace WHERE nspname = 'inorder_lab'")


def traces(dsn: str) -> list[object]:
    """What is left there of runs: schemas, feeds, readable tables, sessions."""
    with connect(dsn) as connection:
        connection.execute("SET search_path = elsewhere, pg_catalog")
        queries = ["SELECT nspname FROM pg_namespace WHERE nspname = 'inorder_lab'",
                   "SELECT application_name FROM pg_stat_activity WHERE application_name ~ '^inorder_lab'"]  # fmt: skip
        if scalar(connection, "SELECT to_regclass('feed') IS NOT NULL"):
            queries += ["SELECT name FROM feed", "SELECT relid::text FROM feed_table"]
        return [row[0] for text in queries for row in connection.execute(text.encode())]


def run_there(folder: Path, server: Server, dsn: str, name: str, *options: str) -> tuple[Result, str]:
    """One round of an experiment with a page: complete; and what it notes."""
    words = ("lab", "run", name, "--dsn", dsn, "--rounds", "1", "--html", "page.html", *options)
    done = inorder(*words, folder=folder, server=server)
    assert done.returncode == 0, done.stderr
    result = load(folder / f"inorder-{name}.json")
    assert result.complete and result.method == OWN_SERVER == result.server["origin"]
    assert result.notes and all(note.split(".")[0][:60] in done.stdout for note in result.notes)
    assert "host" not in str(result.server) and (folder / "page.html").exists()
    return result, " ".join(result.notes)


def test_a_plan_says_what_was_found_and_not_what_was_asked() -> None:
    """Memory, waiting for commits; no WAL files, no COPY files; each left out is named."""
    plan, notes = fitted(InsertPlan(memory_bytes=1), ALL, 0)
    assert (plan.memory_bytes, plan.dump_wal, plan.kinds) == (2**27, False, InsertPlan().kinds)
    assert any("pg_waldump" in note for note in notes) and not any("checkpoint" in note for note in notes)
    plan, notes = fitted(SequencePlan(), ALL, 0)
    assert (plan.synchronous_commit, plan.clients) == ("off", (1, 10))
    assert "Left out, since 87 sessions were free: 100 clients." in notes
    plan, notes = fitted(BulkPlan(), ALL, 0)
    assert set(STEPS) - set(plan.steps) == {COPY_IN, COPY_OUT} and any("pg_write_server_files" in n for n in notes)


def test_what_may_not_be_done_is_named() -> None:
    """One note each."""
    for changes, words in (
        ({"may_checkpoint": False}, "has not the rights of pg_checkpoint"),
        ({"sees_wal": False}, "may not read pg_stat_wal"),
        ({"sees_checkpoints": False}, "may not call pg_control_checkpoint()"),
        ({"has_pgstattuple": False, "has_inorder": False}, "Left out: leaf density"),
        ({"has_inorder": False}, "use: xact, version 7, time-prefixed, sequence-prefixed."),
    ):
        assert sum(words in note for note in fitted(InsertPlan(), but(**changes), 0)[1]) == 1
        assert not any(words in note for note in fitted(InsertPlan(), ALL, 0)[1])
    # The extension can tell it, too.
    assert not any("leaf density" in note for note in fitted(InsertPlan(), but(has_pgstattuple=False), 0)[1])
    with pytest.raises(InputError, match="CREATE EXTENSION inorder makes it"):
        fitted(InsertPlan(kinds=("v7",)), but(has_inorder=False), 0)
    with pytest.raises(InputError, match="fewer than any of --clients"):
        fitted(InsertPlan(clients=(8,)), but(free_sessions=5), 0)
    with pytest.raises(InputError, match="has 2 sessions left for 'me', fewer than --clients"):
        fitted(NoisePlan(clients=8), but(free_sessions=5), 0)


def test_where_nothing_can_be_run_is_one_sentence() -> None:
    """A standby, no right, a schema in the way, which may have been left by a killed run, no counters."""
    require_usable(ALL)
    for changes, words in (
        ({"in_recovery": True}, "is a standby"),
        ({"may_create": False}, "'me' may not create a schema in the database 'shop'"),
        ({"schema_comment": ""}, "which is not of this run; nothing was changed"),
        ({"schema_comment": MARK}, "DROP SCHEMA inorder_lab CASCADE removes it"),
        ({"counts": False}, "track_counts is off"),
    ):
        with pytest.raises(InputError, match=words):
            require_usable(but(**changes))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("feed", "--dsn", ""), "lab run feed needs a server to itself: it has no --dsn"),
        (("insert", "--dsn", "", "--memory", "32MB"), "--memory is for a throw-away server"),
        (("insert", "--dsn", "", "--index-tablespace", "."), "--index-tablespace is for a throw-away server"),
        (("sequence", "--dsn", "", "--synchronous-commit", "on"), "--synchronous-commit is for a throw-away server"),
        (("bulk", "--dsn", "nonsense"), '--dsn: missing "=" after "nonsense"'),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    """Exit code 2, before anything is connected to."""
    done = inorder("lab", "run", *arguments, folder=tmp_path)
    assert done.returncode == 2 and words in done.stderr and not list(tmp_path.iterdir())


def test_the_option_is_offered_where_it_can_be_taken() -> None:
    """By the help of each experiment."""
    for name, experiment in EXPERIMENTS.items():
        told = CliRunner().invoke(cli, ["lab", "run", name, "--help"]).output
        assert ("--dsn" in told) == (experiment.run_on is not None), name


@pytest.mark.server
def test_a_run_with_all_rights(tmp_path: Path, users: Cluster, server: Server) -> None:
    """Each experiment on it: complete, its counters there, the schema gone, the extension where it was."""
    for name, *options in (
        ("insert", "--rows", "1k", "--inserts", "200", "--clients", "2", "--keys", "bigint,v7,sequence"),
        ("bulk", "--rows", "1k", "--keys", "bigint,xact"),
        ("sequence", "--rows", "1k", "--seconds", "1", "--clients", "1", "--cache", "1"),
        ("noise", "--rows", "1k", "--inserts", "200", "--clients", "2", "--keys", "v7", "--tables", "2"),
    ):
        result, _ = run_there(tmp_path, server, users.dsn, name, *options)
        assert all("cpu_seconds" not in run.metrics and "cpu_us" not in run.metrics for run in result.runs)
        assert traces(users.dsn) == []
    inserts = load(tmp_path / "inorder-insert.json").select("insert")
    assert {run.kind for run in inserts} == {"bigint", "v7", "sequence"}
    assert all(run.metrics["wal_records"] >= 2 * 200 and run.metrics["index_hits"] >= 200 for run in inserts)


@pytest.mark.server
def test_a_run_with_hardly_any_rights(tmp_path: Path, users: Cluster, server: Server) -> None:
    """No extension, no CHECKPOINT, no pg_stat_wal: blocks and speed are there, the rest is empty, a page is made."""
    done = inorder("lab", "run", "insert", "--dsn", plain(users), "--rounds", "2", "--rows", "1k", "--inserts", "200",
                   "--clients", "2", "--html", "page.html", folder=tmp_path, server=server)  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = load(tmp_path / "inorder-insert.json")
    assert result.plan["kinds"] == ["bigint", "random"] and result.complete
    for run in result.select("insert"):
        assert run.metrics["index_hits"] >= 200 and "wal_bytes" not in run.metrics
    assert all(section.name != "model" for section in report_of(result).sections(result))
    page = (tmp_path / "page.html").read_text()
    assert "may not read pg_stat_wal" in page and "pg_checkpoint" in page and schemas(plain(users)) == 0
    refused = inorder("lab", "run", "bulk", "--dsn", plain(users, "postgres"), folder=tmp_path, server=server)
    assert refused.returncode == 2 and "may not create a schema in the database 'postgres'" in refused.stderr


@pytest.mark.server
def test_what_was_there_is_never_removed(tmp_path: Path, users: Cluster, server: Server) -> None:
    """Neither before a run, nor at its end a schema that took the name meanwhile."""
    with connect(users.dsn) as connection:
        connection.execute("CREATE SCHEMA inorder_lab")
        connection.execute("CREATE TABLE inorder_lab.mine AS SELECT 1 AS id")
        done = inorder("lab", "run", "bulk", "--dsn", users.dsn, folder=tmp_path, server=server)
        assert done.returncode == 2 and "has a schema inorder_lab already" in done.stderr
        own = OwnServer(users.dsn, server)
        with pytest.raises(InputError, match="already"):
            own.__enter__()
        assert scalar(connection, "SELECT id FROM inorder_lab.mine") == 1
        connection.execute("ALTER SCHEMA inorder_lab RENAME TO kept")
        with OwnServer(users.dsn, server):
            connection.execute("DROP SCHEMA inorder_lab")
            connection.execute("ALTER SCHEMA kept RENAME TO inorder_lab")
        assert scalar(connection, "SELECT id FROM inorder_lab.mine") == 1
        connection.execute("DROP SCHEMA inorder_lab CASCADE")
        with pytest.raises(InorderError, match="boom"), OwnServer(users.dsn, server):
            raise InorderError("boom")
    assert schemas(users.dsn) == 0


@pytest.mark.server
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_stays_after_an_interrupt(
    tmp_path: Path, users: Cluster, server: Server, number: signal.Signals
) -> None:
    """While pgbench runs; afterwards the file is there, and only its own server can go on with it."""
    environment = os.environ | {"PG_CONFIG": str(server.bindir / "pg_config")}
    command = [sys.executable, "-m", "inorder", "lab", "run", "insert", "--dsn", users.dsn, "--rows", "1k", "--keys",
               "bigint", "--seconds", "1", "--rounds", "9"]  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=-3, stderr=-3) as process:
        file, deadline = tmp_path / "inorder-insert.json", time.monotonic() + 30
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert schemas(users.dsn) == 1
        process.send_signal(number)
        assert process.wait(30) == 128 + number
    assert schemas(users.dsn) == 0 and not load(file).complete
    done = inorder("lab", "resume", str(file), folder=tmp_path, server=server)
    assert done.returncode == 2 and "is of your own server: give its --dsn" in done.stderr


@pytest.mark.server
def test_a_password_is_no_argument(users: Cluster, server: Server) -> None:
    """It reaches pgbench by the environment."""
    own = OwnServer(f"{users.dsn} password=secret", server)
    assert "secret" not in own.database and own.environment()["PGPASSWORD"] == "secret"


@pytest.mark.server
def test_writers(tmp_path: Path, users: Cluster, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A form that the extension has to forget, turn by turn; without it, and without a look at the WAL, another."""
    options = ("--clients", "2", "--seconds", "1")
    monkeypatch.setattr(SerialBench, "load", lambda bench, clients: Load(clients, 1, transactions=5))
    with OwnServer(users.dsn, server) as own:
        bench = SerialBench(own, WritersPlan(clients=2))
        turns = [bench.measure(form, 2, 1, 1, lambda tps: None) for form in ("partition_trigger", "xact", "xact")]
    assert [(turn["written"], turn["misplaced"]) for turn in turns] == [(10, 0)] * 3 and traces(users.dsn) == []
    assert all(turn["wal_bytes"] > 200 * turn["written"] for turn in turns)
    result, told = run_there(tmp_path, server, plain(users), "writers", "--forms", "lock,xact", *options)
    assert {run.kind for run in result.runs} == {"lock"} and traces(users.dsn + " dbname=bare") == []
    assert all("wal_bytes" not in run.metrics and run.metrics["misplaced"] == 0 for run in result.runs)
    assert "no extension inorder that this role may use: uuid_xact_nextval()" in told
    with pytest.raises(InputError, match="CREATE EXTENSION inorder makes it"):
        fitted(WritersPlan(forms=("xact",)), but(has_inorder=False), 0)


@pytest.mark.server
def test_mixed(tmp_path: Path, users: Cluster, server: Server) -> None:
    """Every kind through all steps, without a restart; without the extension those that need none."""
    options = ("--rows", "2k", "--more", "400", "--clients", "2")
    result, _ = run_there(tmp_path, server, users.dsn, "mixed", *options)
    assert Counter(run.step for run in result.runs) == dict.fromkeys(STEPS_OF_MIXED, len(MixedPlan().kinds))
    assert all(run.metrics["index_hits"] >= 400 and run.metrics["wal_records"] >= 800 for run in result.select(AGAIN))
    assert traces(users.dsn) == [] and all("leaf_density" in run.metrics for run in result.runs)
    result, told = run_there(tmp_path, server, plain(users), "mixed", *options)
    assert {run.kind for run in result.runs} == {"random", "after"} and "version 7, time-prefixed." in told
    assert all("wal_bytes" not in run.metrics for run in result.runs) and traces(users.dsn + " dbname=bare") == []


@pytest.mark.server
def test_reuse(tmp_path: Path, users: Cluster, server: Server) -> None:
    """Pages freed and taken again, as VACUUM tells; without the extension two kinds."""
    options = ("--rows", "20k", "--turns", "3", "--pace", "10ms")
    result, _ = run_there(tmp_path, server, users.dsn, "reuse", "--keys", "v7,sequence,bigint", *options)
    assert len(result.runs) == 6 and all(run.metrics["wal_bytes"] > 0 for run in result.runs)
    assert all(run.metrics["pages_freed"] > 5 for run in result.select("oldest", "v7")) and traces(users.dsn) == []
    result, told = run_there(tmp_path, server, plain(users), "reuse", *options)
    assert {run.kind for run in result.runs} == {"bigint", "random"} and "sequence, no wrap." in told
    assert traces(users.dsn + " dbname=bare") == []


def test_what_vacuum_says_must_be_english() -> None:
    """Of reuse alone; a server without translations has any language."""
    for language in ("", "C.UTF-8", "en_GB.UTF-8", "POSIX"):
        fitted(ReusePlan(), but(language=language), 0)
    fitted(MixedPlan(), but(language="de_DE.UTF-8"), 0)
    with pytest.raises(InputError, match="the server speaks de_DE"):
        fitted(ReusePlan(), but(language="de_DE.UTF-8"), 0)


def test_what_the_reader_experiment_takes() -> None:
    """The moments of commit; a session for each reader, too; and what is left out without the extension."""
    with pytest.raises(InputError, match="track_commit_timestamp is off"):
        fitted(ReaderPlan(), but(tracks_commits=False), 0)
    fitted(MixedPlan(), but(tracks_commits=False), 0)
    with pytest.raises(InputError, match="has 20 sessions left for 'me', too few for --writers and readers"):
        fitted(ReaderPlan(writers=16), but(free_sessions=23), 0)
    plan, notes = fitted(ReaderPlan(), but(has_inorder=False), 0)
    assert plan.readers == ("id", "created") and "where v7 > last, xmin horizon, inorder feed." in " ".join(notes)
    assert not any("WAL" in note or "checkpoint" in note for note in fitted(ReaderPlan(), but(sees_wal=False), 0)[1])


@pytest.mark.server
def test_readers_beside_an_open_transaction(users: Cluster, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds back of the horizon's rows is not lost, nor counted when it comes in the next round.

    And a wait is not by how much this machine's clock is wrong; there is none where that is not known.
    """
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 5000)
    monkeypatch.setattr("inorder.lab.reader_bench.CLOCK_ERROR", 0.9)  # known to that, however busy the machine is
    rounds: list[dict[str, dict[str, float]]] = []
    with OwnServer(users.dsn, server) as own:
        bench = PollingBench(own, ReaderPlan(writers=4, seconds=1))
        bench.create()
        with connect(f"{users.dsn} dbname=bare") as other, other.transaction():
            other.execute("SELECT pg_current_xact_id()")
            bench.measure(1, lambda tps: None, rounds.append)
        monkeypatch.setattr(bench, "clocks", lambda: Apart(-1.0, 1.0))
        bench.measure(2, lambda tps: None, rounds.append)
    assert traces(users.dsn) == []
    first, second = rounds
    assert first["horizon"]["held"] == first["horizon"]["committed"] > 0 and second["horizon"]["held"] == 0
    assert second["horizon"]["delivered"] == second["horizon"]["committed"] > 0
    assert all(-1000 < found["longest_wait_ms"] < 1_000_000 for found in first.values())
    assert all("longest_wait_ms" not in found and found["clock_error_ms"] == 1000 for found in second.values())
    assert all(found[name]["lost"] == found[name]["twice"] == 0 for found in rounds for name in ("horizon", "feed"))


@pytest.mark.server
def test_readers_without_the_extension(tmp_path: Path, users: Cluster, server: Server) -> None:
    """Two of them, and the table has what they need."""
    result, told = run_there(tmp_path, server, plain(users), "reader", "--writers", "4", "--seconds", "1")
    assert [run.kind for run in result.runs] == ["id", "created"] and traces(users.dsn + " dbname=bare") == []
    assert all(run.metrics["committed"] > 0 for run in result.runs) and "by two clocks" in told
    assert "inorder feed" in told and set(result.plan["readers"]) < set(READERS)


@pytest.mark.server
def test_a_feed_is_dropped_after_ctrl_c(tmp_path: Path, users: Cluster, server: Server) -> None:
    """While all read; what was read so far is kept, and the run can go on there."""
    environment = os.environ | {"PG_CONFIG": str(server.bindir / "pg_config")}
    command = [sys.executable, "-m", "inorder", "lab", "run", "reader", "--dsn", users.dsn, "--writers", "4",
               "--seconds", "60", "--rounds", "2"]  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=-3, stderr=-3) as process:
        deadline = time.monotonic() + 30
        while "inorder_lab" not in feeds(users.dsn) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    result = load(tmp_path / "inorder-reader.json")
    assert {run.kind for run in result.runs} == set(READERS) and not result.complete and traces(users.dsn) == []


def feeds(dsn: str) -> list[object]:
    """The names of the feeds there are."""
    with connect(dsn) as connection:
        return [row[0] for row in connection.execute("SELECT name FROM elsewhere.feed")]


@pytest.mark.server
def test_uuid_v1(tmp_path: Path, users: Cluster, server: Server) -> None:
    """COPY through the client; nothing at all without the extension, or without room for the files."""
    result, _ = run_there(tmp_path, server, users.dsn, "uuid-v1", "--rows", "2k")
    assert len(result.runs) == len(LIFE) * len(UUID_V1_KINDS) and traces(users.dsn) == []
    assert all(run.metrics["wal_records"] > 0 for run in result.select("copy_from"))
    with pytest.raises(InputError, match="and the type uuid_v1 is of it"):
        fitted(UuidV1Plan(), but(has_inorder=False), 0)
    with pytest.raises(InputError, match=r"need about .* GB on this machine"):
        require_room(tmp_path, 10**16)


@pytest.mark.server
def test_its_folder_goes_after_a_kill(users: Cluster, server: Server, shared_folder: Path) -> None:
    """Where scripts and logs of pgbench are: claimed and watched like a server's."""
    program = (
        "import os, sys; from inorder.lab.own_server import OwnServer\n"
        "with OwnServer(sys.argv[1], None): os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", program, plain(users)]
    subprocess.run(command, check=False, env=os.environ | {"TMPDIR": str(shared_folder)})
    assert wait_until_empty(shared_folder)
    with connect(f"{users.dsn} dbname=bare") as connection:
        connection.execute("DROP SCHEMA inorder_lab")


@pytest.mark.server
def test_generators(tmp_path: Path, users: Cluster, server: Server) -> None:
    """By the wall clock, without our C functions; without the extension the server's own."""
    options = ("--values", "2k", "--rows", "1k")
    result, told = run_there(tmp_path, server, users.dsn, "generators", *options)
    assert {run.kind for run in result.select("call")} >= {FLOOR, *INSERTS} and traces(users.dsn) == []
    assert {run.kind.split()[1] for run in result.select("task")} == {"sort", "group", "join"}
    assert all(run.metrics.keys() == {"seconds"} for run in result.runs) and "pg_backend_pid()" in told
    result, told = run_there(tmp_path, server, plain(users), "generators", *options)
    assert {run.kind for run in result.select("insert")} == {"gen_random_uuid", "nextval"}
    assert not result.select("task") and "uuid_v7_nextval" in told and traces(users.dsn + " dbname=bare") == []
    assert all("CPU" not in section.title for section in report_of(result).sections(result))
