"""The counters, against inserts whose cost is known."""

import pytest
from inorder.cluster import Cluster
from inorder.database import Connection, connect
from inorder.errors import InorderError
from inorder.lab import counters
from inorder.lab.counters import read_counters, read_leaf_density, read_sizes
from inorder.lab.keys import KEY_KINDS

from conftest import scalar

pytestmark = pytest.mark.server
ROWS = 5000


@pytest.fixture
def random_keys(connection: Connection) -> Connection:
    """An empty table of random keys."""
    connection.execute("DROP SCHEMA IF EXISTS inorder_lab CASCADE")
    connection.execute("CREATE SCHEMA inorder_lab")
    for statement in KEY_KINDS["random"].statements():
        connection.execute(statement.encode())
    return connection


def test_a_known_load_is_counted(cluster: Cluster, random_keys: Connection) -> None:
    """WAL as the log's own position says it, a record and an index access a row at least."""
    kind = KEY_KINDS["random"]
    random_keys.execute("CHECKPOINT")
    before = read_counters(random_keys, kind)
    position = scalar(random_keys, "SELECT pg_current_wal_insert_lsn()")
    with connect(cluster.dsn) as other:
        for _ in range(ROWS):
            other.execute(f"INSERT INTO {kind.table} DEFAULT VALUES".encode())
    counted = read_counters(random_keys, kind) - before
    written = float(str(scalar(random_keys, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)", position)))
    # The log also holds up to 7 bytes of padding a record and 24 to 40 of header a page of 8 kB.
    assert counted.wal_bytes <= written <= counted.wal_bytes + 7 * counted.wal_records + 40 * (written / 8192 + 2)
    assert counted.wal_records >= 3 * ROWS  # heap, index, commit
    assert counted.index_hits + counted.index_reads >= ROWS
    assert counted.heap_hits + counted.heap_reads >= ROWS


def test_full_page_images_after_a_checkpoint(cluster: Cluster, random_keys: Connection) -> None:
    """The first insert into each page after a checkpoint writes it whole, the second does not."""
    kind = KEY_KINDS["random"]
    random_keys.execute(f"INSERT INTO {kind.table} SELECT FROM generate_series(1, 100000)".encode())
    images = []
    for checkpoint in (True, False):
        if checkpoint:
            random_keys.execute("CHECKPOINT")
        before = read_counters(random_keys, kind)
        with connect(cluster.dsn) as other:
            other.execute(f"INSERT INTO {kind.table} SELECT FROM generate_series(1, {ROWS})".encode())
        images.append((read_counters(random_keys, kind) - before).full_page_images)
    index_pages = read_sizes(random_keys, kind)["index_bytes"] / 8192
    assert images[0] > 0.9 * index_pages
    assert images[1] < 0.1 * images[0]


def test_counters_are_not_read_while_another_session_is_open(
    cluster: Cluster, random_keys: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its share would come later, to the next reading; so this is an error."""
    monkeypatch.setattr(counters, "SETTLE_SECONDS", 0.2)
    with connect(cluster.dsn), pytest.raises(InorderError, match="other sessions are still connected"):
        read_counters(random_keys, KEY_KINDS["random"])


def test_sizes_and_density(cluster: Cluster, random_keys: Connection) -> None:
    """Bytes as the server reports them; density where pgstattuple is installed, else left out."""
    kind = KEY_KINDS["random"]
    random_keys.execute("DROP EXTENSION IF EXISTS pgstattuple")
    assert read_leaf_density(random_keys, kind) == {}
    random_keys.execute(f"INSERT INTO {kind.table} SELECT FROM generate_series(1, {ROWS})".encode())
    assert read_sizes(random_keys, kind)["index_bytes"] == scalar(
        random_keys, "SELECT pg_relation_size(%s)", kind.index
    )
    if (cluster.server.sharedir / "extension" / "pgstattuple.control").exists():
        random_keys.execute("CREATE EXTENSION pgstattuple")
        assert 40 < read_leaf_density(random_keys, kind)["leaf_density"] <= 100
