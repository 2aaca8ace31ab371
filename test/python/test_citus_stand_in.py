"""Tables distributed by Citus, tested without Citus: a stand-in creates the catalog that identifies such tables.

The extension reads one table of Citus, and calls none of its functions. These tests therefore need only an extension
with that name and that table. test_citus.py uses Citus itself.
"""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pglast
import psycopg
import pytest
from inorder.citus import handover, preparation
from inorder.citus.handover import NotReadableError
from inorder.citus.shards import COORDINATOR, Distributed, Shard, node_dsn, on_node
from inorder.connection.database import Connection
from inorder.connection.session import Session, Table
from inorder.count.counter import FOLD, SHOW, ShardsCounter
from inorder.errors import InorderError, InputError
from inorder.lab.server.cluster import Cluster
from inorder.prepare import steps
from inorder.tail import shards_state, state
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from conftest import copy_of
from tail_runs import Tail
from world.sql import value

pytestmark = pytest.mark.server

CONTROL = "default_version = '1.0'\nrelocatable = false\nschema = pg_catalog\n"
# Objects cannot be created in pg_catalog. Like Citus, the stand-in is therefore first created in its own schema.
SCRIPT = """
CREATE SCHEMA stand_in;
CREATE TABLE stand_in.pg_dist_partition (logicalrelid regclass NOT NULL, partmethod "char" NOT NULL);
CREATE UNIQUE INDEX pg_dist_partition_logical_relid_index ON stand_in.pg_dist_partition (logicalrelid);
ALTER TABLE stand_in.pg_dist_partition SET SCHEMA pg_catalog;
"""
FAKE = 'CREATE TABLE {}.pg_dist_partition (logicalrelid regclass PRIMARY KEY, partmethod "char")'
USES = (
    "SELECT feed_enable('{}')", "SELECT feed_create('other', '{}')", "SELECT reader_start('{}')",
    "SELECT exact_count_start('{}')", "SELECT feed_rebase('{}')",
)  # fmt: skip
READS = (
    "SELECT * FROM feed_read('f', null::{})",
    "SELECT * FROM feed_peek('f', null::{})",
    "SELECT feed_apply('f', 'SELECT 1 FROM batch')",
    "SELECT (feed_take_batch('f', 'w')).number",
    "SELECT number FROM feed_take_batch('f', 'w')",
    "SELECT feed_wait('f', '0')",
    "SELECT exact_count('{}')",
    "SELECT exact_count_fold('{}')",
)


@pytest.fixture
def database(cluster: Cluster, template: str) -> Iterator[Connection]:
    folder = cluster.server.sharedir / "extension"
    (folder / "citus.control").write_text(CONTROL)
    (folder / "citus--1.0.sql").write_text(SCRIPT)
    with copy_of(template, cluster, "stand_in") as connection:
        yield connection


def make(connection: Connection, name: str) -> None:
    connection.execute(f"CREATE TABLE {name} (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())".encode())


def distribute(connection: Connection, name: str) -> None:
    connection.execute(f"INSERT INTO pg_catalog.pg_dist_partition VALUES ('{name}', 'h')".encode())
    connection.execute(f"COMMENT ON TABLE {name} IS 'distributed'; ALTER TABLE {name} SET (fillfactor = 99)".encode())


def refusal(connection: Connection, statement: str) -> str:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="is distributed by Citus") as raised:
        connection.execute(statement.encode())
    return str(raised.value.diag.message_hint)


@pytest.mark.parametrize("use", USES)
def test_a_distributed_table_is_refused(database: Connection, use: str) -> None:
    make(database, "events")
    database.execute("CREATE EXTENSION citus")
    distribute(database, "events")
    assert "shards" in refusal(database, use.format("events"))


def test_a_table_that_is_distributed_afterwards_is_refused(database: Connection) -> None:
    make(database, "events")
    database.execute("SELECT feed_create('f', 'events'), exact_count_start('events')")
    database.execute("INSERT INTO events DEFAULT VALUES")
    assert database.execute("SELECT * FROM feed_peek('f', null::events)").rowcount == 1
    assert value(database, "SELECT caught_up FROM feeds") is False
    database.execute("CREATE EXTENSION citus")
    assert database.execute("SELECT * FROM feed_peek('f', null::events)").rowcount == 1
    distribute(database, "events")
    for read in READS:
        refusal(database, read.format("events"))
    assert value(database, "SELECT caught_up FROM feeds") is None
    database.execute("DELETE FROM pg_catalog.pg_dist_partition; ALTER TABLE events RESET (fillfactor)")
    assert database.execute("SELECT * FROM feed_read('f', null::events)").rowcount == 1


def test_a_distributed_partition_is_refused(database: Connection) -> None:
    database.execute("CREATE TABLE events (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY LIST (n)")
    database.execute("CREATE INDEX ON events (id); CREATE TABLE events_1 PARTITION OF events DEFAULT")
    database.execute("SELECT feed_create('f', 'events'); CREATE EXTENSION citus")
    distribute(database, "events_1")
    refusal(database, "SELECT * FROM feed_read('f', null::events)")
    refusal(database, "SELECT feed_enable('events')")


def test_tables_that_are_not_distributed_can_be_read(database: Connection) -> None:
    make(database, "events")
    make(database, "elsewhere")
    database.execute("CREATE EXTENSION citus")
    database.execute("ALTER INDEX pg_catalog.pg_dist_partition_logical_relid_index RENAME TO another_name")
    distribute(database, "elsewhere")
    database.execute("SELECT feed_create('f', 'events')")
    refusal(database, "SELECT feed_create('g', 'elsewhere')")
    database.execute("DROP EXTENSION citus; SELECT feed_create('g', 'elsewhere')")


@pytest.mark.parametrize("place", ["public", "pg_temp", "pg_catalog"])
def test_a_table_named_like_the_citus_catalog_has_no_effect(database: Connection, place: str) -> None:
    make(database, "events")
    database.execute("SET allow_system_table_mods = on")
    database.execute(FAKE.format(place).encode())
    database.execute(f"INSERT INTO {place}.pg_dist_partition VALUES ('events', 'h')".encode())
    database.execute("SET search_path = public, pg_temp, pg_catalog")
    database.execute("SELECT feed_create('f', 'events'); INSERT INTO events DEFAULT VALUES")
    assert database.execute("SELECT * FROM feed_read('f', null::events)").rowcount == 1


def test_a_citus_catalog_of_unexpected_structure_is_refused(database: Connection) -> None:
    make(database, "events")
    database.execute("CREATE EXTENSION citus; SET allow_system_table_mods = on")
    database.execute("ALTER TABLE pg_catalog.pg_dist_partition ALTER logicalrelid TYPE text")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="has an unexpected structure"):
        database.execute("SELECT feed_create('f', 'events')")


WITHOUT_CITUS = [
    (("citus", "events"), "has no extension citus"),
    (("citus", "nothing"), 'relation "nothing" does not exist'),
    (("tail", "events", "--position", "p", "--shards"), "has no extension citus"),
    (("count", "show", "events", "--shards"), "has no extension citus"),
]  # fmt: skip


def test_the_tool_names_the_missing_extension_citus(cluster: Cluster, fresh: Connection, tmp_path: Path) -> None:
    for (command, *arguments), message in WITHOUT_CITUS:
        assert message in Tail(cluster, tmp_path, command=command)(*arguments, code=2)
        assert list(tmp_path.iterdir()) == []


def entry(**changes: object) -> dict[str, object]:
    absent = dict.fromkeys(("partial", "last_key", "ordering", "members", "origin"))
    position = {"transactions": "{[0,9)}"} | absent
    place = {"id": 7, "table": "public.t_7", "group": 1, "host": "w1", "port": 5432, "low": 0, "high": 9}
    return place | {"position": position} | changes


WHOLE = {"format": 1, "database": "d", "table": "public.t", "shards": [entry()], "pending": None, "output": None}


@pytest.mark.parametrize(("changes", "message"), [
    ({"shards": []}, "shards or table"),
    ({"shards": [entry(id="7")]}, "id of a shard"),
    ({"shards": [entry(low="0")]}, "low of a shard"),
    ({"shards": [entry(host=None)]}, "table or host"),
    ({"shards": [entry(extra=1)]}, "extra"),
    ({"shards": [entry(position={"transactions": 5})]}, "TypeError of the position"),
    ({"pending": {"shard": "8@1", "batch": {}, "after": {}, "start": None}}, "shard of the pending batch"),
    ({"pending": {"shard": "7@1", "batch": {}, "after": {}, "start": None}}, "TypeError of the pending batch"),
    ({"output": {"size": -1, "last": "0" * 64}}, "size of the output"),
    ({"table": None}, "shards or table"),
])  # fmt: skip
def test_damaged_positions_are_refused(changes: dict[str, object], message: str) -> None:
    assert list(shards_state.decode(json.dumps(WHOLE).encode()).entries) == ["7@1"]
    with pytest.raises(ValueError, match=message):
        shards_state.decode(json.dumps(WHOLE | changes).encode())


def test_positions_with_and_without_shards_are_not_mixed_up() -> None:
    with pytest.raises(ValueError, match="give --shards"):
        state.decode(json.dumps(WHOLE).encode())
    content = {"format": 1, "database": "d", "table": "t", "position": {"transactions": "{}"}, "pending": None}
    with pytest.raises(ValueError, match="leave out --shards"):
        shards_state.decode(json.dumps(content).encode())


def session_at(dsn: str) -> Session:
    info = SimpleNamespace(dbname="shop", user="reader")
    return cast(Session, SimpleNamespace(dsn=dsn, connection=SimpleNamespace(info=info)))


def test_a_node_is_reached_with_the_options_of_the_coordinator() -> None:
    shard = Shard(7, "public.t_7", 2, "w2", 6543)
    session = session_at("postgresql://reader@c:5432/shop?hostaddr=10.0.0.1&sslmode=prefer")
    assert conninfo_to_dict(node_dsn(session, shard)) == {
        "host": "w2", "port": "6543", "hostaddr": "", "dbname": "shop", "user": "reader", "sslmode": "prefer",
        "password": "",
    }  # fmt: skip
    assert node_dsn(session, replace(shard, group=COORDINATOR)) == session.dsn


def test_a_count_is_repeated_if_shards_were_moved_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inorder.count.counter.attempts", range)  # no pauses
    here, there = Shard(1, "public.t_1", 1, "a", 5432), Shard(1, "public.t_1", 2, "b", 5432)
    other = Shard(2, "public.t_2", 1, "a", 5432)

    def answer(statement: sql.SQL, places: list[list[Shard]], rows: dict[str, list[int]]) -> int:
        class Moving(ShardsCounter):
            def ask_shard(self, shard: Shard, _statement: sql.SQL) -> int:
                if not rows[shard.key]:
                    raise psycopg.errors.UndefinedTable
                return rows[shard.key].pop(0)

        counter = Moving("t")
        counter.distributed = cast(Distributed, SimpleNamespace(shards=lambda: places.pop(0)))
        counter.table = Table(1, "public", "t", "t", "shop")
        return counter.ask(statement)

    moved = [[here, other], [there, other], [there, other], [there, other]]
    for statement, total in ((SHOW, 50), (FOLD, 80)):
        assert answer(statement, list(moved), {here.key: [10], other.key: [30, 10], there.key: [40]}) == total
    moved_back = [[other, here], [other, there], [other, there]]
    for statement, total in ((SHOW, 42), (FOLD, 72)):
        assert answer(statement, list(moved_back), {here.key: [], other.key: [30, 2], there.key: [40]}) == total
    with pytest.raises(InorderError, match="the shards of t were moved during each of 5 counts"):
        answer(FOLD, [[here], [there]] * 5, {here.key: [1] * 5, there.key: []})


def test_a_missing_shard_is_reported_without_a_suggestion_of_similar_names(fresh: Connection) -> None:
    """A user did not type the shard's name, so the error does not suggest similar names."""
    fresh.execute("CREATE TABLE t_102009 (n int)")
    shard, moves = Shard(102008, "public.t_102008", COORDINATOR, "w", 5432), handover.Moves()
    with closing(Session(fresh.info.dsn)) as coordinator, closing(moves):
        with pytest.raises(InputError, match=r"Did you mean public\.t_102009"):
            coordinator.table(shard.table)
        with pytest.raises(InputError, match=r"^shard 102008 on w:5432 is gone"):
            moves.keep(coordinator, shard)


def asking(listener: socket.socket, sent: list[bytes]) -> None:
    """Ask each client for a cleartext password and record it, until the listener is closed."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client:
            client.recv(4096)
            client.sendall(b"R" + struct.pack("!II", 8, 3))
            sent.append(client.recv(4096)[5:].rstrip(b"\0"))


def test_a_node_receives_only_its_own_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, own, sent = "of the coordinator", "its own", list[bytes]()
    (passwords := tmp_path / "pgpass").touch(mode=0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv("PGPASSWORD", secret)
    session = session_at(make_conninfo("host=localhost sslmode=disable gssencmode=disable", password=secret))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=asking, args=(listener, sent), daemon=True).start()
        shard = Shard(7, "public.t_7", 2, "127.0.0.1", listener.getsockname()[1])
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(session.dsn, host=shard.host, port=shard.port)
        with pytest.raises(InputError, match="asks for a password, and the coordinator"):
            on_node(session, shard)
        passwords.write_text(f"127.0.0.1:{shard.port}:*:*:{own}\n")
        with pytest.raises(psycopg.OperationalError):
            on_node(session, shard)
        listener.shutdown(socket.SHUT_RDWR)
    assert sent == [secret.encode(), b"", own.encode()]


@pytest.mark.editions
def test_other_access_methods_are_refused(fresh: Connection) -> None:
    fresh.execute("CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler")
    fresh.execute("CREATE TABLE one (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval()) USING other")
    fresh.execute("CREATE TABLE all_of (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY LIST (n)")
    fresh.execute("CREATE INDEX ON all_of (id); CREATE TABLE part PARTITION OF all_of DEFAULT USING other")
    for table in ("one", "all_of"):
        with pytest.raises(psycopg.errors.WrongObjectType, match="is not a heap table"):
            fresh.execute(f"SELECT feed_create('f', '{table}')".encode())


def test_a_dry_run_prints_sql_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    request = preparation.Request("t", None, 1, 1, undo=False, dry_run=True, dsn="")
    shards = preparation.Preparation(request, messages.append)
    monkeypatch.setattr(shards, "session", None, raising=False)
    monkeypatch.setattr(preparation, "node_dsn", lambda *_: "")
    monkeypatch.setattr(steps, "listed", lambda *_: ["SELECT feed_enable('t_1')", "ANALYZE t_1"])
    for readable in (True, False):
        monkeypatch.setattr(shards, "is_readable", lambda _, readable=readable: readable)
        shards.prepare(Shard(1, "public.t_1", 1, "w", 5432), "xact", "1 of 2")
    assert len(messages) == 3 and len(pglast.parse_sql("\n".join(messages))) == 2


@pytest.mark.parametrize("readable", [True, False])
def test_a_shard_is_followed_when_its_old_placement_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], readable: bool
) -> None:
    """Writers to the old placement delay the handover: a run with --follow reports this once, and other runs fail.

    The handover succeeds once no session writes to the old placement and the new placement is readable.
    """
    was, new = Shard(1, "public.t_1", 1, "w", 5432), Shard(1, "public.t_1", 2, "v", 5432)

    def handed_over(*_: object) -> list[dict[str, object]]:
        if not readable:
            raise NotReadableError("new is not readable")
        return [{"transactions": "{}"}]

    monkeypatch.setattr(handover, "handed_over", handed_over)
    following, distributed, node = (
        handover.Moves(),
        cast(Distributed, SimpleNamespace(session=0, table=0)),
        cast(Any, None),
    )
    go_on = partial(following.positions, distributed, node, was, [(new, node)])
    assert [go_on(is_frozen=False, ends=False) for _ in range(2)] == [None, None]
    with pytest.raises(InorderError, match="shard 1 on w:5432 was moved, and is still written to: try again"):
        go_on(is_frozen=False, ends=True)
    assert go_on(is_frozen=True, ends=False) == ([{"transactions": "{}"}] if readable else None)
    following.followed(was, [new])
    stderr = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2] for line in stderr] == [
        "shard 1 on w:5432 was moved, and is still written to: try again",
        "shard 1 on w:5432 was read to its end; continuing in shard 1 on v:5432",
    ]
