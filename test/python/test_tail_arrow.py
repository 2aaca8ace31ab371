"""inorder tail --format arrow writes a single Arrow stream, with each row once, to any kind of output."""

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from inorder.arrow import reader
from inorder.connection.database import Connection
from inorder.connection.session import Session
from inorder.lab.server.cluster import Cluster
from inorder.tail.output_file import FileSink
from inorder.tail.parquet import ParquetSink
from inorder.tail.position import PositionFile
from inorder.tail.request import Request
from inorder.tail.run import Delivery
from inorder.tail.sinks import Sink
from inorder.tail.sources import TableSource
from inorder.tail.whole import CommandSink, PipeSink
from psycopg.conninfo import make_conninfo
from pyarrow import parquet

from tail_runs import Tail, insert
from waiting import PATIENCE, wait_for

pytestmark = pytest.mark.server

RUN = ("events", "--position", "p", "--format", "arrow")
FILES = ("events", "--position", "p", "--format", "parquet", "--directory", "d")


def numbers(stream: bytes) -> list[int]:
    values: list[int] = pa.ipc.open_stream(stream).read_all().column("n").to_pylist()
    return values


@pytest.mark.editions
@pytest.mark.parametrize("count", [0, 1, 25])
def test_a_pipe_gets_each_row_once(fresh: Connection, tail: Tail, count: int) -> None:
    insert(fresh, count)
    assert numbers(tail.written(*RUN, "--batch-rows", "10")) == list(range(1, count + 1))


def test_feeds_commands_and_frames_get_each_row_once(fresh: Connection, tail: Tail) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    insert(fresh, 3)
    assert numbers(tail.written("--feed", "f", "--format", "arrow")) == [1, 2, 3]
    tail(*RUN, "--batch-rows", "2", "--exec", "cat > rows.$INORDER_ROWS")
    assert [numbers((tail.folder / f"rows.{rows}").read_bytes()) for rows in (2, 1)] == [[1, 2], [3]]
    framed = tail.written(*RUN[:2], "framed", *RUN[3:], "--frame")
    assert numbers(framed.partition(b"}\n")[2]) == [1, 2, 3]


def test_labels_of_enums_are_in_the_schema(fresh: Connection, tail: Tail) -> None:
    """The schema and the labels are written once, before the batches."""
    fresh.execute("CREATE TYPE mood AS ENUM ('sad', 'fine')")
    fresh.execute("ALTER TABLE events ADD m mood DEFAULT 'fine'")
    insert(fresh, 25)
    table = pa.ipc.open_stream(tail.written(*RUN, "--batch-rows", "10")).read_all()
    assert table.column("n").to_pylist() == list(range(1, 26)) and set(table.column("m").to_pylist()) == {"fine"}


def test_a_type_created_during_a_run_is_known(fresh: Connection, tail: Tail) -> None:
    """The driver reads the types only when it connects."""
    insert(fresh, 1)
    with tail.started(*FILES, "--follow") as running:
        wait_for(lambda: list(tail.folder.glob("d/*.parquet")))
        fresh.execute("CREATE TYPE pair AS (a int, b text)")
        fresh.execute("ALTER TABLE events ADD p pair DEFAULT '(1,x)'")
        insert(fresh, 1, 2)
        wait_for(lambda: len(list(tail.folder.glob("d/*.parquet"))) == 2)
        running.terminate()
        assert running.wait(PATIENCE) == 0


def in_files(folder: Path) -> list[int]:
    return sorted(n for path in folder.glob("d/*.parquet") for n in parquet.read_table(path).column("n").to_pylist())


def test_a_run_is_retried_after_a_conflict_or_a_lost_connection(fresh: Connection, tail: Tail) -> None:
    """The test terminates only the driver's connection, not that of the session."""
    killing = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'inorder' "
    killing += "AND datname = 'tail' AND (query = 'COMMIT' OR query LIKE 'COPY (%')"
    with tail.started(*FILES, "--follow", "--interval", "10ms") as running:
        insert(fresh, 2)
        wait_for(lambda: in_files(tail.folder) != [])  # before the first file, a lost connection is an error
        for first in range(3, 40, 2):
            insert(fresh, 2, first)
            fresh.execute(killing.encode())
        insert(fresh, 1, 41)
        wait_for(lambda: in_files(tail.folder)[-1:] == [41])
        running.terminate()
        assert running.wait(PATIENCE) == 0
    assert in_files(tail.folder) == list(range(1, 42))


@pytest.mark.parametrize(
    ("sink", "ahead"), [(FileSink, True), (ParquetSink, True), (Sink, False), (PipeSink, False), (CommandSink, False)]
)
def test_no_transaction_is_open_during_a_wait_for_another_program(sink: type[Sink], ahead: bool) -> None:
    source = SimpleNamespace()
    Delivery(cast(Request, None), cast(TableSource, source), sink.__new__(sink))
    assert source.asks_ahead is ahead


def test_the_next_batch_is_requested_while_a_batch_is_read(
    fresh: Connection, cluster: Cluster, tail: Tail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch may be requested in advance only after the connection has locked the table.

    Before that, the two sessions could deadlock with a change to the table.
    """
    begin, begun, ahead, delivered = reader.Connection.hold, list[bool](), list[bool](), list[int]()

    def begin_alone(self: reader.Connection, *arguments: object) -> None:
        begun.append(source.stream is None)
        begin(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(reader.Connection, "hold", begin_alone)
    insert(fresh, 25)
    dsn = make_conninfo(cluster.dsn, dbname="tail")
    request = Request(dsn, "events", tail.folder / "p", None, output="arrow", batch_rows=10)
    with PositionFile(tail.folder / "p") as file, closing(Session(dsn)) as session:
        source = TableSource(request, "events", file, None, lambda: None)
        source.asks_ahead = True
        source.attach(session)
        while batch := source.next():
            count = len(delivered)
            for rows in source.rows(batch):
                delivered += rows.column("n").to_pylist()
                ahead.append(source.stream is not None)
            source.is_behind = len(delivered) == count + batch.full
            source.finish(batch, None)
            if len(delivered) == 25:
                insert(fresh, 1, 26)  # a batch found in advance is not used if the preceding batch was not full
        source.close()
    assert (delivered, ahead, begun) == (list(range(1, 27)), [False, True, True, False], [True] * 4)
