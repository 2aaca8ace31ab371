"""A server in a control group, if the user may create one."""

import os
import subprocess
from pathlib import Path

import pytest
from inorder.connection.database import connect
from inorder.errors import InorderError, InputError
from inorder.installations import Installation
from inorder.lab.instruments import cgroup
from inorder.lab.instruments.cgroup import LEAST_BYTES, ControlGroup, Parent, memory_limit
from inorder.lab.instruments.machine import disk_of
from inorder.lab.plan.keys import KEY_KINDS
from inorder.lab.results.result import CGROUP
from inorder.lab.server.cluster import Cluster
from inorder.lab.tables.insert_tables import InsertTables
from inorder.lab.targets.server_settings import Small, reading_method, serve_measured
from inorder.lab.targets.throw_away import ThrowAway

pytestmark = pytest.mark.usefixtures("on_a_disk")

USAGE = {"memory.limit_in_bytes": "memory.usage_in_bytes", "memory.max": "memory.current"}


def used(place: Parent, group: Path) -> int:
    return int((group / USAGE[place.limit_file]).read_text())


def own_group(place: Parent) -> Path:
    return place.folder / f"{cgroup.NAME}{os.getpid()}"


def tables_on(cluster: Cluster, small: Small) -> InsertTables:
    return InsertTables(ThrowAway(cluster), {"bigint": KEY_KINDS["bigint"]}, small, 1)


@pytest.fixture(name="place")
def a_place() -> Parent:
    place = cgroup.parent()
    if place is None:
        pytest.skip("no control group for memory can be created here")
    return place


@pytest.mark.server
def test_a_server_uses_no_more_than_its_limit(server: Installation, place: Parent) -> None:
    with Cluster(server) as cluster:
        limit = memory_limit(place, LEAST_BYTES)
        cluster.start({"shared_buffers": "16MB", "max_wal_size": "4GB"}, limit)
        with connect(cluster.dsn) as connection:
            connection.execute("CREATE TABLE large AS SELECT repeat('x', 1000) AS x FROM generate_series(1, 150000)")
            look = "SELECT pg_relation_size('large'), pg_backend_pid(), count(*) FROM large"
            row = connection.execute(look.encode()).fetchone()
            assert row is not None and int(str(row[0])) > 2 * LEAST_BYTES
            members = {int(pid) for pid in (limit.folder / cgroup.PROCS).read_text().split()}
            assert {int(str(row[1])), cluster.process.pid if cluster.process else 0} <= members
            assert os.getpid() not in members and len(members) >= 5
            # Memory usage may exceed the limit slightly: an allocation with __GFP_NOFAIL succeeds above the limit, and
            # is charged page by page (mm/memcontrol.c).
            assert used(place, limit.folder) < 1.25 * LEAST_BYTES
        cluster.stop()
        assert not limit.folder.exists()
    assert not own_group(place).exists()


@pytest.mark.server
def test_measurements_use_a_group_if_there_is_no_direct_io(server: Installation, place: Parent) -> None:
    small = Small(LEAST_BYTES)
    if server.has_direct_io:
        assert reading_method(server, small) != CGROUP
        return
    assert reading_method(server, small) == CGROUP
    assert reading_method(server, Small(LEAST_BYTES - 1)) != CGROUP
    with Cluster(server) as cluster:
        tables = tables_on(cluster, small)
        assert len(list(tables.fill(0))) == 1
        tables.serve_for_measuring()
        assert isinstance(cluster.limit, ControlGroup) and cluster.limit.folder in place.groups()
        with connect(cluster.dsn) as connection:
            assert connection.execute("SHOW shared_buffers").fetchone() == (f"{LEAST_BYTES // 4 // 2**20}MB",)
        tables.serve_for_filling()
        assert cluster.limit is None and not own_group(place).exists()


@pytest.mark.server
def test_an_index_is_built_within_the_group_and_a_kill_is_reported(server: Installation, place: Parent) -> None:
    small = Small(LEAST_BYTES // 4, page_cache=LEAST_BYTES * 3 // 4)
    rows = "SELECT repeat('x', 1000) || i AS x FROM generate_series(1, 200000) AS i"
    with pytest.raises(InorderError, match=r"killed a process .* 64 MB .*--memory"), Cluster(server) as cluster:
        serve_measured(cluster, small)
        with connect(cluster.dsn) as connection:
            assert connection.execute("SHOW maintenance_work_mem").fetchone() == ("8MB",)
            connection.execute(f"CREATE TABLE large AS {rows}".encode())
            connection.execute("CREATE INDEX ON large (x)")
            assert cluster.limit is not None and cluster.limit.kills == 0
            connection.execute("SET work_mem = '1GB'")
            connection.execute(f"SELECT count(*) FROM ({rows} ORDER BY 1) AS sorted".encode())


@pytest.mark.server
def test_the_limit_includes_the_page_cache(server: Installation, place: Parent) -> None:
    small = Small(LEAST_BYTES, page_cache=LEAST_BYTES)
    assert reading_method(server, small) == CGROUP
    with pytest.raises(InputError, match="--page-cache needs a memory control group"):
        reading_method(server, Small(2**20, page_cache=2**20))
    with Cluster(server) as cluster:
        tables = tables_on(cluster, small)
        tables.serve_for_measuring()
        assert isinstance(cluster.limit, ControlGroup)
        assert int((cluster.limit.folder / place.limit_file).read_text()) == 2 * LEAST_BYTES
        with connect(cluster.dsn) as connection:
            assert connection.execute("SHOW shared_buffers").fetchone() == (f"{LEAST_BYTES // 2**20}MB",)
            assert connection.execute("SELECT current_setting('debug_io_direct', true)").fetchone() in ((None,), ("",))


def test_groups_left_by_a_killed_process_are_removed(place: Parent) -> None:
    ended_process = subprocess.Popen(["true"])
    ended_process.wait()
    running = subprocess.Popen(["sleep", "60"])
    old_group, new_group = (place.folder / f"{cgroup.NAME}{process.pid}" for process in (ended_process, running))
    old_group.mkdir()
    new_group.mkdir()
    try:
        memory_limit(place, LEAST_BYTES).close()
        assert not old_group.exists() and new_group.exists()
    finally:
        running.kill()
        running.wait()
        new_group.rmdir()


def test_an_impossible_limit_is_an_error(place: Parent) -> None:
    with pytest.raises(InorderError, match="cannot limit memory to -2 bytes"):
        memory_limit(place, -2)
    assert not own_group(place).exists()


@pytest.mark.server
def test_a_disk_is_limited_to_a_number_of_requests(server: Installation) -> None:
    small = Small(2**22, iops=3000)
    if not server.has_direct_io:
        with Cluster(server) as cluster, pytest.raises(InputError, match="--iops needs direct I/O"):
            tables_on(cluster, small).serve_for_measuring()
        return
    where = cgroup.parent(cgroup.IO)
    if where is None:
        pytest.skip("no control group for disks can be created here")
    with Cluster(server) as cluster:
        tables = tables_on(cluster, small)
        tables.serve_for_measuring()
        group = own_group(where)
        disk = disk_of(cluster.data)
        for file, value in cgroup.iops_files(where.version, 3000):
            assert f"{disk} {value}" in (group / file).read_text()
        assert cluster.process and str(cluster.process.pid) in (group / cgroup.PROCS).read_text().split()
        assert len(list(tables.fill(0))) == 1  # filling is not measured, so it runs without a limit
        assert not group.exists()
        tables.serve_for_measuring()
        tables.sizes("bigint")  # reading the sizes is not measured, either
        assert disk and group.exists()
        assert not any("3000" in (group / file).read_text() for file, _ in cgroup.iops_files(where.version, None))


def test_a_folder_without_a_block_device_has_no_disk_to_limit() -> None:
    assert disk_of(Path("/proc")) is None
