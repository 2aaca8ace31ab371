"""A server vanishes without closing its connections: the tool detects this, and --follow reconnects by itself."""

import subprocess
import sys
from pathlib import Path

import pytest
from inorder.connection.database import SILENCE, Connection, completed
from inorder.lab.server.cluster import Cluster
from psycopg.conninfo import conninfo_to_dict

from far_server import far_server
from tail_runs import environment, insert, numbers
from waiting import PATIENCE, wait_for
from world.sql import value

WAITS = (
    "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = 'tail' AND query ~ 'reader_wait' AND state = 'active'"
)
# The tool itself, except that it detects a silent network after two seconds instead of twenty.
PROGRAM = """
from inorder.cli import main
from inorder.connection.database import SILENCE
SILENCE |= {"keepalives_idle": "1", "keepalives_interval": "1", "keepalives_count": "1", "tcp_user_timeout": "2000"}
main()
"""


@pytest.mark.server
def test_a_run_with_follow_continues_after_the_network_was_silent(
    fresh: Connection, cluster: Cluster, tmp_path: Path
) -> None:
    """The server's host vanishes while the tool waits for an answer, and comes back at the same address."""
    with far_server(cluster) as server, (tmp_path / "out").open("wb") as out, (tmp_path / "said").open("wb") as errors:
        address = {"PGHOST": "127.0.0.1", "PGPORT": "5432", "PGUSER": "postgres"}
        command = [*server.inside, sys.executable, "-c", PROGRAM, "tail", "events", "--position", "p", "--follow"]
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment(cluster) | address, stdout=out, stderr=errors
        ) as tail:
            try:
                insert(fresh, 1)
                wait_for(lambda: (tmp_path / "out").read_text().endswith("\n"))
                wait_for(lambda: value(fresh, WAITS))
                server.cut()
                server.stop()
                wait_for(lambda: b"connection lost, trying again" in (tmp_path / "said").read_bytes())
                insert(fresh, 1, 2)
                server.start()
                server.mend()
                wait_for(lambda: (tmp_path / "out").read_text().count("\n") == 2)
                assert (tmp_path / "said").read_text().endswith("\ninorder: reconnected\n")
                tail.terminate()
                assert tail.wait(PATIENCE) == 0
            finally:
                tail.kill()
        assert numbers((tmp_path / "out").read_text()) == [1, 2]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Remove libpq's environment variables, and return the path of a new service file."""
    for name in ("PGSERVICE", "PGCONNECT_TIMEOUT", "PGHOST", "PGHOSTADDR"):
        monkeypatch.delenv(name, raising=False)
    services = tmp_path / "services"
    services.write_text("[shop]\nhost=192.0.2.1\nconnect_timeout=7\nkeepalives_idle=99\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    return services


def waits(dsn: str) -> dict[str, object]:
    return {name: value for name, value in conninfo_to_dict(completed(dsn)).items() if name in SILENCE}


def test_settings_that_detect_a_silent_network_are_added_unless_given(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert waits("") == SILENCE == waits("postgresql://db1,db2:6000/shop") == waits("host=a,b hostaddr=1.2.3.4,5.6.7.8")
    for dsn in ("tcp_user_timeout=0 keepalives_count=", "postgresql:///shop?tcp_user_timeout=0&keepalives_count="):
        assert waits(dsn) == SILENCE | {"tcp_user_timeout": "0", "keepalives_count": ""}
    of_service = SILENCE | {"connect_timeout": "7", "keepalives_idle": "99"}
    assert waits("service=shop") == of_service
    assert waits("service=shop connect_timeout=3") == of_service | {"connect_timeout": "3"}
    monkeypatch.setenv("PGSERVICE", "shop")
    assert waits("dbname=shop") == of_service
    monkeypatch.delenv("PGSERVICE")
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "0")
    assert waits("") == SILENCE | {"connect_timeout": "0"}
    assert conninfo_to_dict(completed(r"user=me password='it\'s'"))["password"] == "it's"
