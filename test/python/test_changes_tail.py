"""inorder tail --changes: a copy built from its output equals the table, even if the tool is killed."""

import csv
import io
import json
import random
import shutil
import signal
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster
from inorder.tail.position import PositionFile
from inorder.tail.request import Request
from inorder.tail.source import Batch
from inorder.tail.sources import ChangesSource
from inorder.tail.state import Mark, State, decode

from conftest import LONG_RUN, text
from copies import Change, Copy
from examples import blocks
from ground import roles
from tail_runs import Tail
from waiting import PATIENCE, wait_for, wait_for_more
from world.beside import beside
from world.sql import run

pytestmark = pytest.mark.server

CHANGES = ("t", "--changes", "--position", "p")
POLL = ("--follow", "--interval", "20ms")
KILLS = 20 if LONG_RUN else 4
ROWS = 30_000  # rows in one batch
BEGUN = 1_000_000  # bytes of output after which the run is stopped within the batch
STEPS = (
    "INSERT INTO t VALUES (21, 'new')", "UPDATE t SET note = 'second' WHERE id <= 10", "DELETE FROM t WHERE id = 3",
    "UPDATE t SET id = id + 60 WHERE id BETWEEN 5 AND 7", "TRUNCATE t; INSERT INTO t VALUES (1, 'after')",
    "INSERT INTO t SELECT n, 'last' FROM generate_series(2, 5) AS n", "SELECT changes_resync('t')",
)  # fmt: skip


WRITES = (
    "INSERT INTO t SELECT n, 'new' FROM generate_series(%s::int, %s) AS n ON CONFLICT DO NOTHING",
    "UPDATE t SET note = note || 'x' WHERE id BETWEEN %s::int + 3 AND %s",
    "DELETE FROM t WHERE id BETWEEN %s::int + 9 AND %s",
)


def prepare(connection: Connection) -> None:
    run(connection, "CREATE TABLE t (id int PRIMARY KEY, note text)",
        "INSERT INTO t SELECT n, 'first' FROM generate_series(1, 20) AS n", "SELECT changes_enable('t')")  # fmt: skip


@pytest.fixture
def tail(cluster: Cluster, fresh: Connection, tmp_path: Path) -> Tail:
    prepare(fresh)
    return Tail(cluster, tmp_path, fresh.info.dbname)


def change(row: dict[str, object]) -> Change:
    op, version = str(row.pop("op")), int(str(row.pop("version")))
    return op, version, row, (str(row["id"]),)


def of_json(text: str) -> list[Change]:
    return [change(json.loads(line)) for line in text.splitlines()]


def of_csv(text: str) -> list[Change]:
    return [change(dict(row) | {"id": int(row["id"] or 0)}) for row in csv.DictReader(io.StringIO(text))]


def copied(changes: list[Change]) -> Copy:
    copy = Copy()
    copy.apply(changes)
    return copy


@pytest.mark.editions
def test_the_copy_equals_the_table_after_each_batch(tail: Tail, fresh: Connection) -> None:
    copies = {"json": Copy(), "csv": Copy()}
    for number, step in enumerate(("", *STEPS)):
        run(fresh, *step.split("; "))
        # The CSV output is read less often, so one batch contains the changes of several steps.
        for form, read in (("json", of_json), ("csv", of_csv))[: 2 if LONG_RUN or number in (0, 2, 5, 7) else 1]:
            rows = read(tail("t", "--changes", "--position", form, "--format", form))
            assert (rows[0][0] == "resync") == (number in (0, 5, 7))
            copies[form].apply(rows)
            assert copies[form].rows == copies[form].table_now(fresh)
    assert tail("t", "--changes", "--position", "json") == ""


@pytest.mark.editions
def test_batches_of_few_rows_are_all_delivered(tail: Tail, fresh: Connection) -> None:
    """If a key changed more than once, a batch has fewer rows than the log. More batches may follow such a batch."""
    assert copied(of_json(tail(*CHANGES))).rows == Copy().table_now(fresh)
    for note in range(9):
        run(fresh, f"UPDATE t SET note = '{note}' WHERE id < 4")
    run(fresh, "DELETE FROM t WHERE id = 20")
    rows = of_json(tail(*CHANGES, "--batch-rows", "6"))
    assert {(op, *key) for op, _, _, key in rows} == {
        ("upsert", "1"), ("upsert", "2"), ("upsert", "3"), ("delete", "20")
    }  # fmt: skip
    assert tail(*CHANGES) == ""


def test_arrow_and_parquet_have_the_same_columns(tail: Tail, fresh: Connection) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("adbc_driver_postgresql")
    files = ("t", "--changes", "--position", "place", "--format", "parquet", "--directory", "files")
    for number, step in enumerate(STEPS):
        run(fresh, *step.split("; "))
        if LONG_RUN or number % 3 == 0:
            tail(*files, "--batch-rows", "5")
    rows = parquet.read_table(tail.folder / "files").to_pylist()
    # Rows are ordered by version, not by file name.
    rows.sort(key=lambda row: (row["version"], ("resync", "delete", "upsert").index(row["op"])))
    assert copied([change(row) for row in rows]).rows == Copy().table_now(fresh)
    streamed = pa.ipc.open_stream(tail.written(*CHANGES, "--format", "arrow")).read_all()
    assert streamed.schema.names == ["op", "version", "id", "note"]
    assert copied([change(row) for row in streamed.to_pylist()]).rows == Copy().table_now(fresh)


# Equal keys that are written differently: type, old key, new key.
EQUAL = (("numeric", "1.0", "1.00"), ("float8", "0", "-0"), ("interval", "1 day", "24:00"), ("bpchar", "a", "a "))
SWAPS = "UPDATE t SET id = '{1}'", "UPDATE t SET id = '{0}', note = 'x'", "UPDATE t SET id = '{1}', note = 'y'"


@pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql")
@pytest.mark.parametrize("equal", EQUAL, ids=[kind for kind, *_ in EQUAL])
def test_the_documented_copy_merges_equal_keys_that_are_written_differently(
    fresh: Connection, cluster: Cluster, tmp_path: Path, equal: tuple[str, str, str]
) -> None:
    """The command shown in docs/changes.md also works for other key types."""
    kind, *keys = equal
    program = text("docs/changes.md").partition("<<'EOF'\n")[2].partition("EOF\n")[0]
    (tmp_path / "apply.sql").write_text(program.replace("customers_copy", "t_copy").replace("::int", f"::{kind}"))
    run(fresh, f"CREATE TABLE t (id {kind} PRIMARY KEY, name text)", f"INSERT INTO t VALUES ('{keys[0]}')",
        "SELECT changes_enable('t')", "CREATE TABLE t_copy (LIKE t INCLUDING ALL)")  # fmt: skip
    tail = Tail(cluster, tmp_path, fresh.info.dbname)
    for swap in ("SELECT 1", *SWAPS):
        run(fresh, swap.format(*keys).replace("note", "name"))
        tail(*CHANGES, "--exec", "psql -X1q -v ON_ERROR_STOP=1 -f apply.sql")
        assert Copy("t_copy").table_now(fresh) == Copy().table_now(fresh)


@pytest.mark.parametrize("equal", EQUAL, ids=[kind for kind, *_ in EQUAL])
def test_a_lake_merges_equal_keys_that_are_written_differently(
    fresh: Connection, cluster: Cluster, tmp_path: Path, equal: tuple[str, str, str]
) -> None:
    """The test uses the view of docs/lake.md, and a view that compares only versions, as dlt and ClickHouse do."""
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("adbc_driver_postgresql")
    kind, *keys = equal
    (view,) = (block.text for block in blocks("docs/lake.md") if "QUALIFY" in block.text)
    run(fresh, f"CREATE TABLE t (id {kind} PRIMARY KEY, note text)", f"INSERT INTO t VALUES ('{keys[0]}', 'a')",
        "SELECT changes_enable('t')")  # fmt: skip
    tail = Tail(cluster, tmp_path, fresh.info.dbname)
    for swap in ("SELECT 1", *SWAPS):
        run(fresh, swap.format(*keys))
        tail(*CHANGES, "--format", "parquet", "--directory", "lake")
        expected = fresh.execute("SELECT concat(id), note FROM t").fetchall()
        for shown in (view, view.replace(", op DESC", "")):
            with duckdb.connect() as duck:
                duck.execute(shown.replace("lake/", f"{tmp_path}/lake/"))
                rows = duck.execute("SELECT id, note FROM customers").fetchall()
            assert len(rows) == 1
            assert float(rows[0][0]) == float(str(expected[0][0])) if kind == "float8" else rows == expected


@pytest.mark.editions
def test_columns_with_names_that_the_output_uses_are_kept_apart(tail: Tail, fresh: Connection) -> None:
    """A column of the table may have the same name as a column that the output adds.

    Values converted to text require a column list.
    """
    run(fresh, "CREATE TYPE mood AS ENUM ('good', 'bad')", "CREATE TABLE u (op int PRIMARY KEY, version mood, op_ int)",
        "INSERT INTO u VALUES (1, 'bad', 7)", "SELECT changes_enable('u')")  # fmt: skip
    (marker, row) = map(json.loads, tail("u", "--changes", "--position", "u").splitlines())
    assert [*row] == ["op__", "version_", "op", "version", "op_"] and row["op__"] == "upsert"
    assert [*row.values()][2:] == [1, "bad", 7] and marker["op__"] == "resync" and marker["op"] is None


REFUSED = {
    ("--shards",): "--changes cannot be used with --shards",
    ("--order-by", "id"): "--changes cannot be used with --order-by",
    ("--feed", "f"): "--changes cannot be used with --feed: use --position FILE",
}  # fmt: skip


def test_each_refusal_is_one_sentence(tail: Tail, fresh: Connection) -> None:
    for options, words in REFUSED.items():
        assert words in tail(*CHANGES, *options, code=2)
    run(fresh, "CREATE TABLE u (id int PRIMARY KEY)")
    assert "the changes of public.u are not logged" in tail("u", "--changes", "--position", "u", code=2)
    tail(*CHANGES)
    run(fresh, "SELECT changes_enable('u')")
    assert "p is the position in public.t_changes" in tail("u_changes", "--position", "p", code=2)
    run(fresh, "ALTER TABLE t ADD COLUMN more int")
    assert "may be missing from its log" in tail(*CHANGES, code=2)
    run(fresh, "SELECT changes_resync('t')")
    assert of_json(tail(*CHANGES))[0][0] == "resync"


def test_a_reader_needs_select_on_the_table_and_its_log(tail: Tail, fresh: Connection) -> None:
    with roles(fresh, "changes_reader"):
        run(fresh, "GRANT SELECT ON t TO changes_reader")
        role = (*CHANGES, "--dsn", "options='-c role=changes_reader'")
        assert "t_changes" in tail(*role, code=2)
        run(fresh, "GRANT SELECT ON t_changes TO changes_reader")
        assert copied(of_json(tail(*role))).rows == Copy().table_now(fresh)


def end_sessions(connection: Connection) -> None:
    run(connection, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'inorder' "
                    "AND pid <> pg_backend_pid() AND datname = current_database() AND query ~ 'COPY'")  # fmt: skip


def write(dsn: str, ended: threading.Event) -> None:
    rng = random.Random(7)
    with connect(dsn) as connection:
        while not ended.is_set():
            first = rng.randrange(300)
            for text in WRITES:
                connection.execute(text.encode(), [first, first + 15])


@pytest.mark.editions
@pytest.mark.parametrize("command", [(), ("--exec", "cat >> out")], ids=["file", "command"])
def test_a_copy_is_complete_after_kills(
    tail: Tail, cluster: Cluster, fresh: Connection, command: tuple[str, ...]
) -> None:
    out = tail.folder / "out"
    out.touch()
    with beside(partial(write, f"{cluster.dsn} dbname={fresh.info.dbname}")):
        for number in range(KILLS):
            to = "other" if command else "out"
            with tail.started(*CHANGES, *POLL, "--batch-rows", "40", *command, to=to) as running:
                wait_for_more(out)
                running.send_signal((signal.SIGKILL, signal.SIGTERM)[number % 2])
                running.wait(PATIENCE)
    tail.appended(*CHANGES, *command, to="other" if command else "out")
    assert copied(of_json(out.read_text())).rows == Copy().table_now(fresh)


def test_a_partly_written_batch_is_written_again_as_a_whole(tail: Tail, fresh: Connection) -> None:
    """The batch has different rows when it is read again.

    Truncation removes the rows written earlier, and the next run continues the file.
    """
    run(fresh, f"INSERT INTO t SELECT n, repeat('x', 40) FROM generate_series(100, {ROWS}) AS n")
    out = tail.folder / "out"
    with tail.started(*CHANGES, *POLL, to="out", held_after=[BEGUN, 2 * BEGUN]) as running:
        assert BEGUN <= out.stat().st_size < 1.5 * BEGUN
        end_sessions(fresh)
        run(fresh, "UPDATE t SET note = 'after' WHERE id < 10")
        running.send_signal(signal.SIGCONT)
        wait_for(running.is_stopped)
        assert out.stat().st_size < 1.5 * BEGUN  # the rows were written twice, and truncation removed the first copies
        running.kill()
        running.wait(PATIENCE)
    tail.appended(*CHANGES)
    rows = of_json(out.read_text())
    assert [op for op, *_ in rows].count("resync") == 1
    assert copied(rows).rows == Copy().table_now(fresh)


def test_the_saved_beginning_of_a_batch_is_replaced_when_the_batch_is_read_again(tmp_path: Path) -> None:
    """After a kill, the saved beginning identifies the batch in the output.

    A batch may begin differently when it is read again.
    """
    with PositionFile(tmp_path / "p") as file:
        request = Request(dsn="", table="t", position=tmp_path / "p", feed=None, changes=True)
        source = ChangesSource(request, "t", file, State("d", "t", {"transactions": "{}"}), lambda: None)
        batch = Batch({"transactions": "{[3,4)}"}, {"transactions": "{[0,4)}"})
        for start in ("00", "01"):
            source.begin(batch, start, Mark(0, "0" * 64))
            saved_state = file.read(decode)
            assert saved_state and saved_state.pending and saved_state.pending.start == start


def test_the_view_of_the_documented_lake_equals_the_table(tail: Tail, fresh: Connection) -> None:
    """The view comes from docs/lake.md, whose table has the same key as the table of the test."""
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("adbc_driver_postgresql")
    (view,) = (block.text for block in blocks("docs/lake.md") if block.text.startswith("CREATE VIEW"))
    with duckdb.connect() as lake:
        for step in ("", *STEPS):
            run(fresh, *step.split("; "))
            tail(*CHANGES, "--batch-rows", "3", "--format", "parquet", "--directory", "lake")
            lake.execute(view.replace("CREATE", "CREATE OR REPLACE").replace("lake/", f"{tail.folder}/lake/"))
            rows = lake.execute("FROM customers ORDER BY id").fetchall()
            assert rows == fresh.execute("TABLE t ORDER BY id").fetchall()


@pytest.mark.parametrize("equal", EQUAL, ids=[kind for kind, *_ in EQUAL])
def test_clickhouse_merges_equal_keys_that_are_written_differently(
    fresh: Connection, cluster: Cluster, tmp_path: Path, equal: tuple[str, str, str]
) -> None:
    """The table and the query come from docs/lake.md. ClickHouse runs inside the test process."""
    chdb = pytest.importorskip("chdb", reason="pip install chdb, 0.5 GB, runs this")
    pytest.importorskip("adbc_driver_postgresql")
    kind, *keys = equal
    (block,) = (block.text for block in blocks("docs/lake.md") if "ReplacingMergeTree" in block.text)
    create, insert, query = block.replace("lake/", f"{tmp_path}/lake/").split(";")[:3]
    create = create.replace("Int64", "Float64" if kind == "float8" else "String", 1)
    run(fresh, f"CREATE TABLE t (id {kind} PRIMARY KEY, name text)", f"INSERT INTO t VALUES ('{keys[0]}', 'a')",
        "SELECT changes_enable('t')")  # fmt: skip
    tail = Tail(cluster, tmp_path, fresh.info.dbname)
    with closing(chdb.session.Session(str(tmp_path / "clickhouse"))) as house:
        house.query(create)
        for swap in ("SELECT 1", *SWAPS):
            run(fresh, swap.format(*keys).replace("note", "name"))
            tail(*CHANGES, "--format", "parquet", "--directory", "lake")
            house.query(insert)
            rows = json.loads(house.query(query, "JSON").bytes())["data"]
            assert [(row["name"],) for row in rows] == fresh.execute("SELECT name FROM t").fetchall()
