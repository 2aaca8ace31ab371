"""If the server interrupts reads of inorder tail, later batches are smaller, and each run makes progress."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inorder.citus.shards import Shard, ShardSession
from inorder.connection import patience
from inorder.connection.database import Connection
from inorder.connection.session import Session
from inorder.errors import InorderError
from inorder.lab.server.cluster import Cluster
from inorder.tail import shards
from inorder.tail.request import Request
from inorder.tail.run import Delivery, run
from inorder.tail.source import Batch

pytestmark = pytest.mark.server

ROWS, FIRST, MOST = 4000, 500, 1000
# The rows are so wide that the server is still sending rows when the client receives the first one.
WIDE = "INSERT INTO {} SELECT {}, n, repeat('x', 2000) FROM generate_series(1, %s) AS n"
BY_ROW = f"DO $$ BEGIN FOR n IN 1 .. {ROWS} LOOP INSERT INTO kept VALUES (n, n, repeat('x', 2000)); END LOOP; END $$"
END = """SELECT pg_{}_backend(pid) FROM pg_stat_activity
         WHERE datname = 'tail' AND state = 'active' AND query LIKE '%COPY %' AND pid <> pg_backend_pid()"""


class Cut:
    """Interrupts each read of more than ``most`` rows once its first rows have arrived."""

    def __init__(self, server: Connection, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.how, self.most = server, how, MOST
        self.asked = list[int]()  # number of rows requested in each batch
        put = Delivery.put

        def watched(delivery: Delivery, batch: Batch, rows: Any, header: bytes) -> None:
            if delivery.sink.rows == 0:
                self.asked.append(batch.full)
                if batch.full > self.most:
                    self.server.execute(END.format(self.how).encode())
            put(delivery, batch, rows, header)

        monkeypatch.setattr(Delivery, "put", watched)
        monkeypatch.setattr(patience, "FIRST_PAUSE", 0.0)

    def run(self, request: Request, output: Path) -> int:
        delivered = list[int]()
        with standard_output(output):
            run(request, delivered.append)
        return sum(delivered)


@contextmanager
def standard_output(path: Path) -> Iterator[None]:
    saved_output, file = os.dup(1), os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(file, 1)
    try:
        yield
    finally:
        os.dup2(saved_output, 1)
        os.close(saved_output)
        os.close(file)


@pytest.fixture
def wide(fresh: Connection) -> Connection:
    fresh.execute("ALTER TABLE events ADD body text")
    fresh.execute(WIDE.format("events", "uuid_xact_nextval()").encode(), [ROWS])
    return fresh


def keys(path: Path) -> list[int]:
    """Return the values of column n in a file.

    Lines without a row, where n is null, are left out.
    """
    texts = [line.split(b'"n":')[1].split(b",")[0] for line in path.read_bytes().splitlines()]
    return sorted(int(n) for n in texts if n != b"null")


KINDS: dict[str, dict[str, Any]] = {
    "table": {}, "order": {"order_by": "seq"}, "changes": {"changes": True},
}  # fmt: skip


def requested(wide: Connection, cluster: Cluster, folder: Path, kind: str) -> Request:
    table = "kept" if kind == "changes" else "events"
    request = Request(f"{cluster.dsn} dbname=tail", table, folder / "p", None, batch_rows=FIRST, **KINDS[kind])
    if kind == "order":
        wide.execute("ALTER TABLE events ADD seq bigserial UNIQUE")
    if kind == "changes":
        wide.execute("CREATE TABLE kept (id int PRIMARY KEY, n int, body text); SELECT changes_enable('kept')")
        with standard_output(folder / "out"):
            run(request, lambda _: None)  # the whole table in one batch
        wide.execute(BY_ROW.encode())
    return request


@pytest.mark.parametrize("kind", KINDS)
def test_batches_for_a_file_shrink_and_grow_again(
    wide: Connection, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    request = requested(wide, cluster, tmp_path, kind)
    cut = Cut(wide, "cancel", monkeypatch)
    cut.run(request, tmp_path / "out")
    assert keys(tmp_path / "out") == list(range(1, ROWS + 1))
    cuts = [size for size in cut.asked if size > MOST]
    first = 10 * FIRST
    assert cuts[:3] == [first, first // 2, first // 4] and max(cuts[3:], default=0) <= 2 * MOST, cut.asked
    assert cut.asked.count(625) > 1, cut.asked


class OneShard:
    """Replaces the Citus catalog: the table has one shard."""

    def __init__(self, session: Session, name: str) -> None:
        self.table = session.table(name)

    def shards(self) -> list[Shard]:
        return [Shard(1, self.table.quoted, 0, "", 0)]


def test_batches_of_a_shard_shrink_and_grow_again(
    wide: Connection, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "Distributed", OneShard)
    monkeypatch.setattr(shards, "on_node", lambda session, _shard: ShardSession(session.dsn))
    request = replace(requested(wide, cluster, tmp_path, "table"), shards=True, batch_rows=ROWS)
    cut = Cut(wide, "cancel", monkeypatch)
    cut.run(request, tmp_path / "out")
    assert keys(tmp_path / "out") == list(range(1, ROWS + 1))
    assert cut.asked[:4] == [4000, 2000, 1000, 2000], cut.asked


@pytest.mark.parametrize("output", ["json", "csv", "arrow", "parquet"])
def test_batches_shrink_before_a_reader_sees_any_of_their_rows(
    wide: Connection, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    sink: dict[str, Any] = {"directory": tmp_path / "d"} if output == "parquet" else {"command": "cat > $INORDER_BATCH"}
    monkeypatch.chdir(tmp_path)
    cut = Cut(wide, "cancel", monkeypatch)
    request = Request(
        f"{cluster.dsn} dbname=tail", "events", tmp_path / "p", None, output=output, batch_rows=ROWS, **sink
    )
    if output in ("arrow", "parquet"):
        cut.most = 3 * MOST  # the driver returns the first row only after it has read 4 MB
    cut.run(request, tmp_path / "out")
    assert cut.asked[:2] == [ROWS, ROWS // 2]
    assert rows_in(tmp_path, output) == ROWS


def rows_in(folder: Path, output: str) -> int:
    if output == "parquet":
        from pyarrow import parquet  # noqa: PLC0415  # only the Arrow tests need it

        return sum(parquet.read_metadata(file).num_rows for file in (folder / "d").glob("*.parquet"))
    files = [file for file in folder.iterdir() if file.name not in ("p", "out") and file.is_file()]
    if output == "arrow":
        import pyarrow as pa  # noqa: PLC0415  # only the Arrow tests need it

        return sum(pa.ipc.open_stream(file.read_bytes()).read_all().num_rows for file in files)
    return sum(file.read_bytes().count(b"\n") - (output == "csv") for file in files)


@pytest.mark.parametrize("kind", ["table", "changes"])
def test_each_run_gets_further_if_its_session_is_ended(
    wide: Connection, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The next run begins with a single batch, not with the one that joined several batches."""
    request = requested(wide, cluster, tmp_path, kind)
    cut = Cut(wide, "terminate", monkeypatch)
    for number in range(1, 4):
        cut.asked.clear()
        with pytest.raises(InorderError, match="the connection to the server was lost"):
            cut.run(request, tmp_path / "out")
        assert cut.asked == [FIRST, 10 * FIRST]
        assert len(keys(tmp_path / "out")) == number * FIRST
    cut.most = ROWS + FIRST * 10
    cut.run(request, tmp_path / "out")
    assert keys(tmp_path / "out") == list(range(1, ROWS + 1))
