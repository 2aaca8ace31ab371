"""Properties of keys that SQL alone cannot test: clocks, entropy, limits, standbys, many keys, many sessions."""

import shutil
import subprocess
import threading
from functools import partial
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.instruments.counters import read_sizes
from inorder.lab.instruments.pgbench import Load, run
from inorder.lab.plan.keys import KEY_KINDS
from inorder.lab.server.cluster import Cluster

from conftest import LONG_RUN, ROOT, SETTINGS, copy_of
from restoring import copied
from world.beside import beside
from world.sql import value

pytestmark = pytest.mark.server
MANY = 10_000_000 if LONG_RUN else 200_000
SESSIONS = 30
GENERATORS = ("uuid_v7_nextval()", "uuid_xact_nextval()", "uuid_time_nextval()", "uuid_sequence_nextval('many')",
              "uuid_after_random_nextval()")  # fmt: skip


def test_v7_stays_in_order_if_the_clock_steps_back(connection: Connection) -> None:
    readings = [(1_000_000, 0), (1_000_000, 0), (996_400, 0), (996_400, 500), (1_000_000, 1_000), (1_000_001, 0)]
    keys = [UUID(str(value(connection, "SELECT test_v7(%s, %s)", *reading))) for reading in readings]
    assert keys == sorted(keys) and len(set(keys)) == len(keys)
    assert value(connection, "SELECT extract(epoch FROM uuid_v7_time(%s))::float8", keys[2]) == 1_000_000.0
    assert value(connection, "SELECT extract(epoch FROM uuid_v7_time(%s))::float8", keys[-1]) == 1_000_001.0


def test_v7_stays_in_order_if_the_clock_stands_still(connection: Connection) -> None:
    row = connection.execute(
        "SELECT count(*) FILTER (WHERE id <= before), max(extract(epoch FROM uuid_v7_time(id)))::float8 "
        "FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before "
        "      FROM (SELECT n, test_v7(2000000, 0) AS id FROM generate_series(1, %s::int) AS n) AS made) AS pairs",
        [1_000_000 if LONG_RUN else 100_000],
    ).fetchone()
    assert row is not None
    not_greater, latest = row
    assert not_greater == 0
    assert 2_000_000 <= float(str(latest)) < 2_000_000.001


def test_a_transaction_can_generate_two_to_the_thirty_keys(connection: Connection) -> None:
    assert 2**30 <= int(value(connection, "SELECT test_xact_capacity(%s)", 2**31)) < 2**31


@pytest.mark.parametrize("generator", GENERATORS)
def test_many_values_are_distinct(connection: Connection, generator: str) -> None:
    connection.execute("CREATE SEQUENCE IF NOT EXISTS many CACHE 1000")
    connection.execute("SET work_mem = '1GB'")
    statement = f"SELECT count(DISTINCT id) FROM (SELECT {generator} AS id FROM generate_series(1, %s)) AS made"
    assert value(connection, statement, MANY) == MANY


# The same mask, computed with AES from pgcrypto one block at a time.
MASK_BY_PGCRYPTO = """
CREATE FUNCTION pg_temp.mask(id uuid, key bytea) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    block bytea := set_byte(uuid_send(id), 6, get_byte(uuid_send(id), 6) & 15 | 64);
BEGIN
    LOOP
        block := encrypt(block, key, 'aes-ecb/pad:none');
        EXIT WHEN get_byte(block, 6) & 240 = 64 AND get_byte(block, 8) & 192 = 128;
    END LOOP;
    RETURN encode(block, 'hex')::uuid;
END $$
"""


@pytest.fixture
def can_mask(connection: Connection) -> None:
    try:
        connection.execute("SELECT uuid_mask(uuid_v7_nextval(), sha256(''))")
    except psycopg.errors.FeatureNotSupported as error:
        pytest.skip(str(error))


def test_masks_compile_with_openssl(server: Installation) -> None:
    """The embedded server is built without OpenSSL, so this test checks that the code for OpenSSL also compiles."""
    if not server.can_build() or not Path("/usr/include/openssl/evp.h").exists():
        pytest.skip("no headers of the server, or of OpenSSL")
    command = [*server.compiler.split(), "-fsyntax-only", "-Wall", "-Werror", "-DUSE_OPENSSL=1", f"-I{server.headers}"]
    done = subprocess.run([*command, f"-I{ROOT / 'src'}", ROOT / "src" / "keys" / "mask.c"], check=False, text=True,
                          capture_output=True)  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("can_mask")
def test_each_mask_is_undone(connection: Connection) -> None:
    statement = (
        "SELECT count(*) FROM (SELECT uuid_v7_nextval() AS id, substr(sha256('a'), 1, 16) AS key "
        "                      FROM generate_series(1, %s) OFFSET 0) AS made "
        "WHERE uuid_unmask(uuid_mask(id, key), key) = id"
    )
    assert value(connection, statement, MANY) == MANY


@pytest.mark.usefixtures("can_mask")
def test_masks_agree_with_another_library(connection: Connection) -> None:
    if not value(connection, "SELECT count(*) FROM pg_available_extensions WHERE name = 'pgcrypto'"):
        pytest.skip("the server has no pgcrypto")
    connection.execute("CREATE EXTENSION IF NOT EXISTS pgcrypto")
    connection.execute(MASK_BY_PGCRYPTO.encode())
    statement = (
        "SELECT count(*) FROM (SELECT uuid_v7_nextval() AS id, "
        "                             substr(sha256(n::text::bytea), 1, 16 * (1 + n % 2)) AS key "
        "                      FROM generate_series(1, 300) AS n OFFSET 0) AS made "
        "WHERE uuid_mask(id, key) <> pg_temp.mask(id, key)"
    )
    assert value(connection, statement) == 0


def test_long_work_can_be_cancelled(connection: Connection, cluster: Cluster) -> None:
    endless = "SELECT count({}) FROM generate_series(1, 1000000000000)"
    connection.execute("CREATE SEQUENCE IF NOT EXISTS many CACHE 1000")
    for generator in GENERATORS:
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"), connection.transaction():
            connection.execute("SET LOCAL statement_timeout = '50ms'")
            connection.execute(endless.format(generator).encode())
        connection.execute("SET statement_timeout = '60s'")
        canceled = pytest.raises(psycopg.errors.QueryCanceled, match="user request")
        with beside(partial(cancel_until, connection)), canceled:
            connection.execute(endless.format(generator).encode())


def cancel_until(connection: Connection, ended: threading.Event) -> None:
    """Send the cancel request repeatedly, because a request that arrives before the query begins is lost."""
    while not ended.wait(0.05):
        connection.cancel_safe()


@pytest.mark.parametrize(
    "call",
    [
        "uuid_sequence_nextval('bounds', -2147483648, 2147483647)",
        "uuid_sequence_nextval('bounds', 2147483647, 0)",
        "uuid_time_nextval(0, 2147483647)",
        "uuid_xact_nextval(9223372036854775807)",
        "uuid_xact_nextval(-9223372036854775808)",
        "uuid_xact_floor(-9223372036854775808)",
        "uuid_v7_floor('infinity')",
    ],
)
def test_bad_input_is_refused_and_never_hangs(connection: Connection, call: str) -> None:
    """Each call is made a thousand times. If a call hangs, statement_timeout ends it with a different error."""
    connection.execute("CREATE SEQUENCE IF NOT EXISTS bounds")
    connection.execute("SET statement_timeout = '60s'")
    block = f"BEGIN PERFORM {call}; RAISE 'accepted'; EXCEPTION WHEN data_exception THEN NULL; END;"
    connection.execute(f"DO $$ BEGIN FOR i IN 1 .. 1000 LOOP {block} END LOOP; END $$".encode())


def test_uuid_extract_timestamp_reads_the_same_time(connection: Connection, cluster: Cluster) -> None:
    if cluster.server.major < 18:
        pytest.skip("uuid_extract_timestamp reads version 7 from PostgreSQL 18 on")
    wrong = value(
        connection,
        "SELECT count(*) FROM (SELECT uuid_v7_nextval() AS id FROM generate_series(1, 10000) "
        "                      UNION ALL SELECT uuidv7() FROM generate_series(1, 10000)) AS made "
        "WHERE date_trunc('milliseconds', uuid_v7_time(id)) <> uuid_extract_timestamp(id)",
    )
    assert wrong == 0


@pytest.mark.parametrize("name", ["bigint", "v7", "xact"])
def test_ordered_keys_from_many_sessions_fill_leaf_pages(
    cluster: Cluster, without_lab: Connection, tmp_path: Path, name: str
) -> None:
    connection = without_lab
    connection.execute("CREATE SCHEMA inorder_lab")
    kind = KEY_KINDS[name]
    for statement in kind.statements():
        connection.execute(statement.encode())
    script = tmp_path / "insert.sql"
    script.write_text(f"INSERT INTO {kind.table} DEFAULT VALUES;\n")
    environment = cluster.environment() | {"PGOPTIONS": "-c synchronous_commit=off"}
    run(cluster.original.program("pgbench"), script, Load(8, 2, transactions=5000), 1, environment)
    grown = read_sizes(connection, kind)["index_bytes"]
    connection.execute(f"REINDEX INDEX {kind.index}".encode())
    assert grown * 85 <= read_sizes(connection, kind)["index_bytes"] * 90


def test_a_standby_reads_keys_and_generates_none_that_need_a_transaction(server: Installation) -> None:
    """On a standby, functions that need a transaction ID fail with an SQLSTATE.

    Other generators and functions that read keys work.
    """
    with Cluster(server) as standby:
        standby.start(SETTINGS)
        with connect(standby.dsn) as connection:
            connection.execute("CREATE EXTENSION inorder")
        standby.stop()
        (standby.data / "standby.signal").touch()
        if standby.account:
            shutil.chown(standby.data / "standby.signal", standby.account.pw_uid, standby.account.pw_gid)
        standby.start(SETTINGS)
        with connect(standby.dsn) as connection:
            for call in ("uuid_xact_nextval()", "xact_id()"):
                with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match=call.replace("()", r"\(\)")):
                    connection.execute(f"SELECT {call}".encode())
            assert value(connection, "SELECT uuid_xact_id(uuid_xact_floor(7))") == 7
            assert value(connection, "SELECT uuid_v7_time(uuid_v7_nextval()) > now()") is True


def test_keys_survive_dump_and_restore(cluster: Cluster, tmp_path: Path) -> None:
    setup = (
        "CREATE EXTENSION inorder; CREATE SEQUENCE s; "
        "CREATE TABLE t (a uuid DEFAULT uuid_sequence_nextval('s', 10, 300), b uuid DEFAULT uuid_time_nextval(5), "
        "c uuid DEFAULT uuid_v7_nextval(), d uuid DEFAULT uuid_xact_nextval(1000), e bigint DEFAULT xact_id(1000)); "
        "INSERT INTO t SELECT FROM generate_series(1, 10)"
    )
    look = "SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM t"
    with copy_of("template1", cluster, "keys_source") as source:
        source.execute(setup.encode())
        with copied(cluster, "keys_source", cluster, "keys_target", "plain", tmp_path) as target:
            assert value(source, look) == value(target, look)
            added = "INSERT INTO t DEFAULT VALUES RETURNING uuid_xact_id(d) = e AND e = xact_id(1000)"
            assert value(target, added) is True


def test_random_words_of_the_pool_are_wiped_when_they_are_used(connection: Connection) -> None:
    """Drawing 1,100 words refills the pool twice, so each slot is covered."""
    assert value(connection, "SELECT test_pool_wiped(1100)") == 0


def test_a_forked_process_draws_its_own_random_words(connection: Connection) -> None:
    """The child process has a copy of the parent's pool in memory, and must not use it."""
    assert value(connection, "SELECT test_fork_repeats(200)") == 0


def test_a_clone_of_the_machine_draws_its_own_random_words(connection: Connection) -> None:
    """A clone has the same pool, but its statements run later than the statement that filled the pool."""
    # Age of the pool in microseconds (negative if the clock was set back), and whether the session must draw new words.
    ages = {0: False, 900_000: False, 2_000_000: True, -2_000_000: True}
    drawn_by_age = {age: value(connection, "SELECT test_clone_repeats(%s)", age) == 0 for age in ages}
    assert drawn_by_age == ages


def test_short_sessions_never_repeat_random_words(cluster: Cluster) -> None:
    cluster.restart(SETTINGS | {"shared_preload_libraries": "inorder"})
    words = []
    for _ in range(SESSIONS):
        with connect(cluster.dsn) as session:
            row = session.execute(
                "SELECT uuid_v7_nextval()::text, uuid_xact_nextval()::text, uuid_time_nextval()::text"
            ).fetchone()
            assert row is not None
            words += [str(value)[-12:] for value in row]  # 48 random bits: two of 90 values are equal once in 7e10 runs
    assert len(set(words)) == 3 * SESSIONS
