"""Run one experiment on a throw-away server, from the empty folder to the saved result."""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from inorder import __version__
from inorder.cluster import Cluster
from inorder.database import connect
from inorder.errors import InputError
from inorder.lab import machine
from inorder.lab.call_bench import CallBench
from inorder.lab.experiments import feed, generators, insert, reader, uuid_v1
from inorder.lab.feed_bench import ServerFeedBench
from inorder.lab.progress import Progress
from inorder.lab.reader_bench import PollingBench
from inorder.lab.results import DIRECT_IO, EXACT_COUNTERS, Result
from inorder.lab.server_bench import ServerBench, reads_directly
from inorder.lab.uuid_v1_bench import FileBench
from inorder.servers import Server
from inorder.temporary import service_account, temporary_folder

# Heap and index of a uuid key with random keys' free space, as measured at 10 M rows: 83 bytes; and the WAL kept of it.
BYTES_PER_ROW = 83
WAL_BYTES_PER_ROW = 170

# The uuid-v1 experiment's: the files of all sets of keys, and the largest table with its index and its WAL.
UUID_V1_BYTES_PER_ROW = 600

# The feed experiment's: two tables of 256 bytes a row with their indexes, what arrives later, and the WAL kept of it.
FEED_BYTES_PER_ROW = 1200


def new_result(experiment: str, plan: dict[str, Any], server: Server, method: str) -> Result:
    """An empty result that says what is about to run."""
    return Result(
        experiment=experiment,
        created=machine.now(),
        inorder=__version__,
        seed=int(plan["seed"]),
        plan=plan,
        server={"version": server.version, "origin": server.origin, "settings": {}},
        machine={},
        method=method,
    )


def check_space(plan: insert.InsertPlan) -> None:
    """An error before anything is filled if the tables cannot fit."""
    needed = max(plan.rows) * len(plan.kinds) * (BYTES_PER_ROW + WAL_BYTES_PER_ROW)
    require_free(needed, f"{max(plan.rows):,} rows of {len(plan.kinds)} key kinds")


def require_free(needed: int, what: str) -> None:
    """An error if so many bytes are not free where servers live."""
    folder = temporary_folder(service_account())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(f"{what} need about {needed / 2**30:.0f} GB in {folder}, where {free / 2**30:.0f} GB are free")


def reading_method(server: Server) -> str:
    """How "larger than memory" is made with this server."""
    return DIRECT_IO if reads_directly(server, temporary_folder(service_account())) else EXACT_COUNTERS


def insert_result(server: Server, plan: insert.InsertPlan) -> Result:
    """The result that ``insert_session`` fills."""
    return new_result(insert.NAME, plan.as_dict(), server, reading_method(server))


def insert_session(server: Server, plan: insert.InsertPlan, result: Result, progress: Progress, path: Path) -> None:
    """The insert experiment; the result is filled and saved as it goes."""
    check_space(plan)
    server.program("pgbench")
    with Cluster(server) as cluster:
        result.machine = machine.describe_machine(cluster.folder)
        bench = ServerBench(cluster, plan)
        bench.serve_for_measuring()
        describe(cluster, server, result)
        insert.run_insert(plan, bench, result, progress, saver(result, path))


def generators_result(server: Server, plan: generators.GeneratorsPlan) -> Result:
    """The result that ``generators_session`` fills."""
    return new_result(generators.NAME, plan.as_dict(), server, "CPU time")


def generators_session(
    server: Server, plan: generators.GeneratorsPlan, result: Result, progress: Progress, path: Path
) -> None:
    """The generators experiment; the result is filled and saved as it goes."""
    with Cluster(server) as cluster:
        result.machine = machine.describe_machine(cluster.folder)
        bench = CallBench(cluster)
        describe(cluster, server, result)
        generators.run_generators(plan, bench, result, progress, saver(result, path))


def uuid_v1_result(server: Server, plan: uuid_v1.UuidV1Plan) -> Result:
    """The result that ``uuid_v1_session`` fills."""
    return new_result(uuid_v1.NAME, plan.as_dict(), server, reading_method(server))


def uuid_v1_session(server: Server, plan: uuid_v1.UuidV1Plan, result: Result, progress: Progress, path: Path) -> None:
    """The uuid-v1 experiment; the result is filled and saved as it goes."""
    require_free(plan.rows * UUID_V1_BYTES_PER_ROW, f"{plan.rows:,} rows, their files and their WAL")
    with Cluster(server) as cluster:
        result.machine = machine.describe_machine(cluster.folder)
        with closing(FileBench(cluster, plan)) as bench:
            describe(cluster, server, result)
            uuid_v1.run_uuid_v1(plan, bench, result, progress, saver(result, path))


def reader_result(server: Server, plan: reader.ReaderPlan) -> Result:
    """The result that ``reader_session`` fills."""
    return new_result(reader.NAME, plan.as_dict(), server, "commit timestamps")


def reader_session(server: Server, plan: reader.ReaderPlan, result: Result, progress: Progress, path: Path) -> None:
    """The reader experiment; the result is filled and saved as it goes."""
    server.program("pgbench")
    with Cluster(server) as cluster:
        result.machine = machine.describe_machine(cluster.folder)
        bench = PollingBench(cluster, plan)
        describe(cluster, server, result)
        reader.run_reader(plan, bench, result, progress, saver(result, path))


def feed_result(server: Server, plan: feed.FeedPlan) -> Result:
    """The result that ``feed_session`` fills."""
    return new_result(feed.NAME, plan.as_dict(), server, "CPU time and latency")


def feed_session(server: Server, plan: feed.FeedPlan, result: Result, progress: Progress, path: Path) -> None:
    """The feed experiment; the result is filled and saved as it goes."""
    require_free(plan.rows * FEED_BYTES_PER_ROW, f"{plan.rows:,} rows of two tables")
    with Cluster(server) as cluster:
        result.machine = machine.describe_machine(cluster.folder)
        with closing(ServerFeedBench(cluster, plan)) as bench:
            describe(cluster, server, result)
            feed.run_feed(plan, bench, result, progress, saver(result, path))


def describe(cluster: Cluster, server: Server, result: Result) -> None:
    """Note the settings of the server as it is measured."""
    with connect(cluster.dsn) as connection:
        result.server = machine.describe_server(server, connection)


def saver(result: Result, path: Path) -> Callable[[], None]:
    """What an experiment calls after each run."""
    return lambda: result.save(path)
