"""The choice of a key: its rules, its command and, on a server, the properties that it promises for a key."""

import json
import re
from dataclasses import replace
from itertools import combinations, pairwise
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inorder.choose.choice import (
    COLUMNS,
    DAY,
    FEED,
    MASKED,
    MOST,
    NONE,
    POLL,
    READERS,
    Candidate,
    Needs,
    blocks_of,
    candidate,
    choice_for,
)
from inorder.connection.database import Connection
from inorder.errors import InputError
from psycopg import errors

from tool import inorder
from world.sql import run, value

TOLERANCE = 0.2
HIDES = st.one_of(st.just(0.0), st.floats(0.1, 30 * DAY), st.just(inf))
READ = st.sampled_from((NONE, FEED))  # polling and hiding exclude each other
RATES, MEMORIES = st.floats(1, 1e7), st.floats(2**20, 2**42)
MORE = st.floats(1, 1e4)

# Requirements of tables with a retention period. The number of rows is the insert rate times this period.
KEPT = st.builds(
    lambda rate, retention, memory, hide, reader: Needs(rate * retention, rate, memory, retention, hide, reader),
    RATES, st.floats(3600, 1000 * DAY), MEMORIES, HIDES, READ,
)  # fmt: skip


@given(KEPT, MORE)
def test_more_memory_never_costs_more(needs: Needs, more: float) -> None:
    larger = replace(needs, memory_bytes=needs.memory_bytes * more)
    assert choice_for(larger).chosen.io_per_row <= choice_for(needs).chosen.io_per_row * (1 + 1e-9)
    for kind in COLUMNS:
        assert candidate(kind, larger).io_per_row <= candidate(kind, needs).io_per_row * (1 + 1e-9)
        assert blocks_of(kind, larger) == blocks_of(kind, needs)


@given(KEPT, MORE)
def test_a_higher_rate_never_costs_less_a_day(needs: Needs, more: float) -> None:
    rate = needs.rate * more
    faster = replace(needs, rate=rate, rows=rate * (needs.retention or 0))
    slow, fast = choice_for(needs).chosen, choice_for(faster).chosen
    assert fast.io_per_row * faster.rate >= slow.io_per_row * needs.rate * (1 - 1e-9)
    for kind in COLUMNS:
        before, after = candidate(kind, needs), candidate(kind, faster)
        assert after.predicted.index_bytes >= before.predicted.index_bytes * (1 - 1e-9)
        assert not before.blocks or (after.blocks and after.blocks.size >= before.blocks.size)


@given(KEPT)
def test_blocks_last_as_long_as_requested_and_wrap_after_the_rows_are_gone(needs: Needs) -> None:
    for kind in ("time", "sequence"):
        key = candidate(kind, needs)
        assert key.blocks and needs.retention
        assert key.blocks.wrap_seconds - key.blocks.seconds >= needs.retention * (1 - 1e-9)
        if not key.against:
            assert key.blocks.seconds >= needs.hide * (1 - 1e-9)
            assert 1 <= key.blocks.size <= MOST and 1 <= key.blocks.count <= MOST


@given(KEPT)
def test_the_chosen_key_meets_the_requirements_at_the_least_cost(needs: Needs) -> None:
    choice = choice_for(needs)
    assert not choice.chosen.against
    assert {choice.chosen.kind, *(option.kind for option in choice.alternatives)} == set(COLUMNS)
    assert all(option.against or option.io_per_row >= choice.chosen.io_per_row for option in choice.alternatives)


@pytest.mark.parametrize(
    ("needs", "kind"),
    [
        (Needs(1e8, 1000, 2**30), "v7"),
        (Needs(1e8, 1000, 2**30, guessable=True), "bigint"),
        (Needs(1e8, 1000, 2**30, reader=FEED), "xact"),
        (Needs(1e8, 1000, 2**30, reader=POLL), "v7"),
        (Needs(1e8, 1000, 2**30, hide=60), "time"),
        (Needs(1e8, 1000, 2**30, hide=60, reader=FEED, guessable=True), "time"),
        (Needs(1e10, 10**6, 2**24, hide=0.1), "sequence"),  # more rows are inserted per second than there are values
        (Needs(1e8, 1000, 2**30, hide=inf), "v7"),
        (Needs(1e8, 1000, 2**30, hide=inf, reader=FEED), "xact"),
        (Needs(1e8, 1000, 2**30, hide=inf, reader=POLL), "v7"),
    ],
)
def test_each_set_of_requirements_leads_to_the_expected_kind_of_key(needs: Needs, kind: str) -> None:
    chosen = choice_for(needs).chosen
    assert chosen.kind == kind
    assert (" xact bigint" in chosen.column) == (needs.reader == FEED and kind != "xact")


def test_an_id_that_must_leak_nothing_is_an_ordered_key_with_a_mask(tmp_path: Path) -> None:
    output = inorder("choose", "--rows", "100M", "--hide", "always", folder=tmp_path).stdout
    assert output.startswith("id uuid PRIMARY KEY DEFAULT uuid_v7_nextval()\n")
    assert "Give out uuid_mask(id, secret_key) instead of the key" in output
    assert re.search(r"Elsewhere, use random keys, at \d{2,} times the I/O", output)
    assert re.search(r"^version 7 .* chosen, given out as a mask$", output, re.MULTILINE)
    arguments = ("choose", "--rows", "1M", "--hide", "always", "--reader", "feed", "--format", "json")
    data = json.loads(inorder(*arguments, folder=tmp_path).stdout)
    assert data["chosen"]["mask"] == "uuid_mask(id, secret_key, 8)"


@pytest.mark.server
def test_the_named_masks_fit_the_keys(connection: Connection) -> None:
    for kind, call in MASKED.items():
        default = COLUMNS[kind].partition(" DEFAULT ")[2]
        masked = call.replace("(id,", "(k.id,").replace("secret_key", "decode(repeat('00', 16), 'hex')")
        query = f"SELECT {masked.replace('uuid_mask', 'uuid_unmask', 1).replace('k.id', masked, 1)} = k.id"
        try:
            assert value(connection, f"{query} FROM (SELECT {default} AS id OFFSET 0) AS k") is True
        except errors.FeatureNotSupported:
            pytest.skip("this server has no OpenSSL")


def test_polling_and_hiding_exclude_each_other() -> None:
    with pytest.raises(InputError, match="--reader poll needs keys in order, and --hide forbids them"):
        choice_for(Needs(1e8, 1000, 2**30, hide=60, reader=POLL))


# --- on a server ---------------------------------------------------------------


def made(connection: Connection, key: Candidate) -> str:
    run(connection, "DROP TABLE IF EXISTS chosen", "DROP SEQUENCE IF EXISTS numbers", "CREATE SEQUENCE numbers",
        f"CREATE TABLE chosen (id {key.column})")  # fmt: skip
    return "chosen_pkey"


def next_second(connection: Connection) -> None:
    """Wait for the beginning of the next second on the server's clock."""
    connection.execute("SELECT pg_sleep(1 - mod(extract(epoch FROM clock_timestamp()), 1))")


def filled(connection: Connection, key: Candidate, needs: Needs) -> None:
    """Insert all rows. If the key contains the time, insert one second's rows at the beginning of each second."""
    batch = int(needs.rate) if key.kind == "time" else int(needs.rows)
    for _ in range(int(needs.rows) // batch):
        next_second(connection)
        connection.execute(f"INSERT INTO chosen SELECT FROM generate_series(1, {batch})".encode())


POINTS = [
    ("v7", Needs(100_000, 100, 2**30, checkpoint=100)),
    ("sequence", Needs(200_000, 1000, 2**30, hide=5, checkpoint=10, retention=3600)),
    ("time", Needs(100_000, 20_000, 2**30, hide=1, checkpoint=1)),
    ("random", Needs(100_000, 100, 2**30, hide=inf, checkpoint=100)),
]


@pytest.mark.server
@pytest.mark.parametrize(("kind", "needs"), POINTS)
def test_the_predicted_wal_and_index_size_agree_with_the_server(
    connection: Connection, kind: str, needs: Needs
) -> None:
    key, inserts = candidate(kind, needs), int(needs.rate * needs.checkpoint)
    assert not key.against
    index = made(connection, key)
    filled(connection, key, needs)
    size = value(connection, f"SELECT pg_relation_size('{index}')")
    next_second(connection)
    connection.execute("CHECKPOINT")
    start = value(connection, "SELECT pg_current_wal_insert_lsn()")
    loop = f"FOR i IN 1..{inserts} LOOP INSERT INTO chosen DEFAULT VALUES; COMMIT; END LOOP"
    connection.execute(f"DO $$ BEGIN {loop}; END $$".encode())
    wal = value(connection, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)::float8", start)
    assert wal == pytest.approx(key.wal_per_row * inserts, rel=TOLERANCE)
    assert size == pytest.approx(key.predicted.index_bytes, rel=TOLERANCE)


@pytest.mark.server
@pytest.mark.parametrize(("rate", "hide", "retention"), [(100, 5, 30), (1000, 1, 2.5), (37, 11, 100)])
def test_a_sequence_wraps_when_predicted(connection: Connection, rate: int, hide: float, retention: float) -> None:
    key = candidate("sequence", Needs(1e4, rate, 2**30, retention, hide))
    assert key.blocks
    made(connection, key)
    values = round(key.blocks.wrap_seconds * rate)
    call = key.column.split("DEFAULT ")[1]
    query = f"SELECT get_byte(uuid_send({call}), 0) FROM generate_series(1, {2 * values})"
    prefixes = [int(str(row[0])) for row in connection.execute(query.encode())]
    assert prefixes[:values] == prefixes[values:] and len(set(prefixes)) == key.blocks.count
    starts = [place for place in range(1, values) if prefixes[place] != prefixes[place - 1]]
    assert [after - before for before, after in pairwise(starts)] == ([key.blocks.size] * (len(starts) - 1))
    assert key.blocks.size >= rate * hide and values - key.blocks.size >= rate * retention


@pytest.mark.server
def test_the_clock_wraps_when_predicted(connection: Connection) -> None:
    key = candidate("time", Needs(1e4, 1000, 2**30, retention=2, hide=1))
    assert key.blocks and (key.blocks.size, key.blocks.count, key.blocks.wrap_seconds) == (1, 3, 3)
    call = key.column.split("DEFAULT ")[1]
    # The generator uses time(), which may lag by one tick of the kernel timer.
    query = (
        "SELECT floor(extract(epoch FROM clock_timestamp()) - 0.02)::bigint, "
        f"(SELECT get_byte(uuid_send({call}), 0)), floor(extract(epoch FROM clock_timestamp()))::bigint"
    )
    prefixes_of: dict[int, set[int]] = {}
    while len(prefixes_of) < key.blocks.wrap_seconds + 2:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        first, prefix, last = (int(str(value)) for value in row)
        if first == last:
            prefixes_of.setdefault(first, set()).add(prefix)
    assert all(len(prefixes) == 1 for prefixes in prefixes_of.values())
    for (one_second, prefixes), (other, later) in combinations(prefixes_of.items(), 2):
        assert (prefixes == later) == ((one_second - other) % key.blocks.wrap_seconds == 0)


# --- the command ---------------------------------------------------------------


def test_the_table_begins_with_the_chosen_column(tmp_path: Path) -> None:
    done = inorder("choose", "--rate", "10k", "--retention", "30d", "--hide", "60s", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("id uuid PRIMARY KEY DEFAULT uuid_time_nextval(60, 43201)\n\n* ")
    assert "A key reveals its creation time to within 1 min, modulo 30 days." in done.stdout
    table = done.stdout.splitlines()[-6:]
    assert table[0].startswith("time-prefixed") and table[0].endswith("chosen")
    assert [line.split()[0] for line in table[3:]] == ["bigint", "version", "xact"]


def test_each_kind_has_the_expected_cost_for_a_hundred_billion_rows(tmp_path: Path) -> None:
    arguments = ("choose", "--rows", "100e9", "--memory", "256GB", "--rate", "20000")
    plain, explained = (inorder(*arguments, *more, folder=tmp_path).stdout for more in ((), ("--explain",)))
    assert explained.startswith(plain.rstrip("\n"))
    title, head, *table = explained.removeprefix(plain).strip().splitlines()
    assert title.startswith("Leaf pages touched by 6,000,000 rows between two checkpoints") and head.split()[:3] == [
        "key",
        "pages",
        "FPI/row",
    ]
    assert len(table) == len(COLUMNS) and max(map(len, table)) <= 80
    (random_keys,) = [line for line in table if line.startswith("random ")]
    assert float(random_keys.split()[2]) == pytest.approx(0.999, abs=0.001)
    answer = json.loads(inorder(*arguments, "--format", "json", folder=tmp_path).stdout)
    (data,) = [record for record in answer["others"] if record["kind"] == "random"]
    assert data["images_per_row"] == pytest.approx(0.999, abs=0.001) and data["leaf_pages_touched"] > 5_000_000


@pytest.mark.parametrize("reader", READERS)
def test_the_json_output_has_the_chosen_key_and_the_alternatives(tmp_path: Path, reader: str) -> None:
    done = inorder("choose", "--rows", "10M", "--reader", reader, "--format", "json", folder=tmp_path)
    data, needs = json.loads(done.stdout), Needs(10_000_000, 1000, 2**30, reader=reader)
    chosen = choice_for(needs).chosen
    assert data["chosen"]["kind"] == chosen.kind and len(data["others"]) == 5
    assert data["chosen"]["wal_bytes_per_day"] == pytest.approx(chosen.wal_per_row * 1000 * DAY)
    assert all(data["reasons"]) and ("Polling" in data["reasons"][-1]) == (reader == POLL)
