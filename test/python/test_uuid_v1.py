"""The type uuid_v1 beyond the pg_regress tests: fuzzing, amcheck, drivers, dumps, and many comparisons."""

import itertools
import random
import re
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import psycopg
import pytest
from inorder.connection.database import Connection
from inorder.lab.server.cluster import Cluster

from conftest import LONG_RUN, copy_of
from load.fuzz.values import TIMES
from restoring import copied
from world.sql import value

pytestmark = pytest.mark.server
INPUTS = 1_000_000 if LONG_RUN else 20_000  # number of inputs, and of pairs that are compared
RAW_VALUES = 5_000
ALPHABET = "0123456789abcdefABCDEF{}-gG _:\t\u00e4/@`'\\"


def standard(value: int) -> str:
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def version_1(generator: random.Random) -> str:
    return standard(generator.getrandbits(128) & ~(0xF << 76) & ~(3 << 62) | 1 << 76 | 2 << 62)


def mutated(generator: random.Random) -> str:
    """Return the text form of a UUID, mostly of version 1, with some characters changed, dropped, added or moved."""
    text = version_1(generator) if generator.random() < 0.8 else standard(generator.getrandbits(128))
    form = generator.random()
    if form < 0.15:
        text = text.replace("-", "")
    elif form < 0.25:
        text = "{" + text + "}"
    elif form < 0.4:
        digits, every = text.replace("-", ""), generator.choice((2, 4, 8, 12))
        text = "-".join(digits[i : i + every] for i in range(0, 32, every))
    for _ in range(generator.choice((0, 0, 1, 1, 2))):
        place = generator.randrange(len(text) + 1)
        keep = generator.choice((0, 1))
        text = text[:place] + generator.choice(("", generator.choice(ALPHABET))) + text[place + keep :]
    return text.upper() if generator.random() < 0.1 else text


@pytest.fixture
def judge(connection: Connection) -> Iterator[Connection]:
    connection.execute("DROP SCHEMA IF EXISTS fuzz CASCADE")
    connection.execute("CREATE SCHEMA fuzz")
    connection.execute(
        "CREATE FUNCTION fuzz.accepts(form text, type regtype) RETURNS boolean LANGUAGE plpgsql AS $$ "
        "BEGIN EXECUTE format('SELECT %L::%s', form, type); RETURN true; "
        "EXCEPTION WHEN invalid_text_representation THEN RETURN false; END $$"
    )
    yield connection
    connection.execute("DROP SCHEMA fuzz CASCADE")


def test_texts_are_accepted_exactly_as_by_the_type_uuid(judge: Connection, cluster: Cluster) -> None:
    generator = random.Random(3)
    soft = cluster.server.major >= 16
    inputs = INPUTS if soft else INPUTS // 20  # without soft errors, each input takes two subtransactions
    judge.execute("CREATE TABLE fuzz.forms (form text)")
    with judge.cursor() as cursor, cursor.copy("COPY fuzz.forms FROM STDIN") as copy:
        for _ in range(inputs):
            copy.write_row((mutated(generator),))
    accepts = "pg_input_is_valid(form, '{}')" if soft else "fuzz.accepts(form, '{}')"
    row = judge.execute(
        f"""
        SELECT count(*) FILTER (WHERE a_uuid), count(*) FILTER (WHERE NOT a_uuid),
               count(*) FILTER (WHERE a_v1 <> (a_uuid AND version = '1' AND variant ~ '[89ab]')),
               count(*) FILTER (WHERE a_v1 AND CASE WHEN a_v1 THEN form::uuid_v1::uuid <> form::uuid
                                                    OR form::uuid_v1::text <> form::uuid::text END)
        FROM (SELECT form, a_uuid, {accepts.format("uuid_v1")} AS a_v1,
                     CASE WHEN a_uuid THEN substr(form::uuid::text, 15, 1) END AS version,
                     CASE WHEN a_uuid THEN substr(form::uuid::text, 20, 1) END AS variant
              FROM (SELECT form, {accepts.format("uuid")} AS a_uuid FROM fuzz.forms) AS u) AS v
        """.encode()
    ).fetchone()
    assert row is not None
    accepted, refused, disagree, differ = (int(str(value)) for value in row)
    assert accepted + refused == inputs and min(accepted, refused) > inputs // 20
    assert (disagree, differ) == (0, 0)


def copy_binary(connection: Connection, values: list[bytes]) -> None:
    rows = b"".join(struct.pack(">hi", 1, 16) + value for value in values)
    with connection.cursor() as cursor, cursor.copy("COPY fuzz.raw FROM STDIN (FORMAT binary)") as copy:
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8) + rows + struct.pack(">h", -1))


def test_binary_input_accepts_only_values_that_text_input_accepts(judge: Connection) -> None:
    """16 bytes are stored unchanged if they are a version 1 UUID, and rejected otherwise."""
    judge.execute("CREATE TABLE fuzz.raw (id uuid_v1)")
    generator = random.Random(5)
    valid: list[bytes] = []
    invalid: list[bytes] = []
    for _ in range(RAW_VALUES):
        raw = generator.randbytes(16)
        (valid if raw[6] >> 4 == 1 and raw[8] >> 6 == 2 else invalid).append(raw)
        valid.append(uuid.UUID(version_1(generator)).bytes)
    copy_binary(judge, valid)
    stored = judge.execute("SELECT id::text FROM fuzz.raw").fetchall()
    assert sorted(str(row[0]) for row in stored) == sorted(str(uuid.UUID(bytes=raw)) for raw in valid)
    judge.execute("SELECT id::text::uuid_v1 FROM fuzz.raw")
    for raw in invalid[:500]:
        with pytest.raises(psycopg.errors.InvalidBinaryRepresentation, match=str(uuid.UUID(bytes=raw))):
            copy_binary(judge, [raw])


def test_binary_output_has_the_same_bytes_as_uuid(judge: Connection) -> None:
    outputs = []
    for type_name in ("uuid", "uuid_v1"):
        statement = f"COPY (SELECT 'fb2893ae-9265-11e8-90d8-e03f496e733b'::{type_name}) TO STDOUT (FORMAT binary)"
        with judge.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            outputs.append(b"".join(bytes(block) for block in copy))
    assert outputs[0] == outputs[1]
    assert bytes.fromhex("fb2893ae926511e890d8e03f496e733b") in outputs[0]


FROM_TIMES = """
SELECT p.proname, format_type(p.prorettype, NULL),
       ARRAY(SELECT format_type(a, NULL) FROM unnest(p.proargtypes::oid[]) AS a)
FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'inorder'
WHERE p.prorettype IN ('uuid'::regtype, 'uuid_v1'::regtype)
  AND p.proargtypes::oid[] && ARRAY['timestamptz'::regtype, 'tstzrange'::regtype]::oid[]
"""


def calls_with_times(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield calls with extreme times, with their result types.

    They call each function that generates a key from one or more times.
    """
    moments = [f"'{moment}'::timestamptz" for moment in TIMES]
    ranges = [f"tstzrange({low}, {high}, '{ends}') " for low in moments for high in moments for ends in ("[)", "(]")]
    values = {
        "timestamp with time zone": moments,
        "tstzrange": [*ranges, "'empty'::tstzrange", "'(,)'::tstzrange"],
        "boolean": ["true", "false"],
    }
    functions = connection.execute(FROM_TIMES.encode()).fetchall()
    assert len(functions) >= 8
    for name, type_name, arguments in functions:
        for call in itertools.product(*(values[argument] for argument in cast(list[str], arguments))):
            yield f"SELECT {name}({', '.join(call)})", str(type_name)
    for first, last in itertools.product(moments, moments):
        bounds = f"uuid_v7_partition_bounds({first}, {last}, '100000 years')"
        yield f"SELECT unnest(ARRAY[lower, upper]) FROM {bounds}", "uuid"


def test_keys_made_from_a_time_are_read_back(judge: Connection) -> None:
    for type_name in ("uuid", "uuid_v1"):
        judge.execute(f"CREATE TABLE fuzz.made_{type_name} (id {type_name})".encode())
    judge.execute("SET timezone = 'UTC'")
    refused = 0
    for call, type_name in calls_with_times(judge):
        try:
            judge.execute(f"INSERT INTO fuzz.made_{type_name} {call}".encode())
        except (psycopg.errors.DatetimeFieldOverflow, psycopg.errors.InvalidParameterValue) as error:
            assert re.search(r"UUIDs hold \d{4}-|must be (from 1970|later than first, and both must be)", str(error))
            refused += 1
        except psycopg.errors.DataException as error:
            assert "range lower bound must be less" in str(error), call
    assert refused > 100
    for type_name, form in itertools.product(("uuid", "uuid_v1"), ("text", "binary")):
        made_table, read_table = f"fuzz.made_{type_name}", f"fuzz.read_{type_name}_{form}"
        judge.execute(f"CREATE TABLE {read_table} (id {type_name})".encode())
        with judge.cursor() as source, source.copy(f"COPY {made_table} TO STDOUT (FORMAT {form})".encode()) as out:
            rows = b"".join(bytes(block) for block in out)
        with judge.cursor() as target, target.copy(f"COPY {read_table} FROM STDIN (FORMAT {form})".encode()) as copy:
            copy.write(rows)
        for first, other in ((made_table, read_table), (read_table, made_table)):
            assert value(judge, f"SELECT count(*) FROM (TABLE {first} EXCEPT ALL TABLE {other}) AS d") == 0
        assert int(value(judge, f"SELECT count(DISTINCT id) FROM {made_table}")) > 10


@pytest.mark.parametrize("step", ["CREATE", "REINDEX", "CLUSTER"])
def test_an_index_over_shuffled_rows_is_sound(judge: Connection, cluster: Cluster, step: str) -> None:
    if not (cluster.server.sharedir / "extension" / "amcheck.control").exists():
        pytest.skip("this server has no amcheck")
    judge.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
    judge.execute("CREATE TABLE fuzz.shuffled (id uuid_v1)")
    generator = random.Random(11)
    with judge.cursor() as cursor, cursor.copy("COPY fuzz.shuffled FROM STDIN") as copy:
        for _ in range(30_000):
            copy.write_row((version_1(generator),))
        for number in range(5_000):  # all with the same time, so that abbreviated keys are equal
            copy.write_row((f"00000000-0000-1000-9000-{(number * 7919) % 5_000:012x}",))
    judge.execute("CREATE INDEX shuffled_id ON fuzz.shuffled (id)")
    if step == "REINDEX":
        judge.execute("REINDEX INDEX fuzz.shuffled_id")
    elif step == "CLUSTER":
        judge.execute("CLUSTER fuzz.shuffled USING shuffled_id")
    judge.execute("SELECT bt_index_check('fuzz.shuffled_id', true)")
    digest = "SELECT md5(string_agg(id::text, ',')) FROM (SELECT id FROM fuzz.shuffled ORDER BY id) AS o"
    judge.execute("SET enable_seqscan = off; SET enable_sort = off")
    by_index = value(judge, digest)
    judge.execute("SET enable_seqscan = on; SET enable_sort = on")
    judge.execute("SET enable_indexscan = off; SET enable_indexonlyscan = off")
    assert value(judge, digest) == by_index


@pytest.mark.parametrize(("key", "time"), [("uuid_v1", "uuid_v1_get_timestamp"), ("uuid", "uuid_v7_time")])
def test_many_comparisons_agree_with_their_definition(connection: Connection, key: str, time: str) -> None:
    make = "uuid_v1" if key == "uuid_v1" else "uuid_v7"
    wrong = " OR ".join(
        f"(id {op}~ at) <> ({time}(id) {op} at) OR (at {op}~ id) <> (at {op} {time}(id))"
        for op in ("<", "<=", ">", ">=", "=", "<>")
    )
    row = connection.execute(
        f"""
        SELECT count(*), count(*) FILTER (WHERE {wrong}), count(*) FILTER (WHERE id =~ at)
        FROM (SELECT CASE WHEN n % 2 = 0 THEN {make}_floor(t) ELSE {make}_ceiling(t) END AS id,
                     t + (n % 7 - 3) * interval '1 microsecond' AS at
              FROM (SELECT n, timestamptz '2000-01-01' + n * interval '997 seconds 1234567 microseconds' AS t
                    FROM generate_series(1, {INPUTS}) AS n) AS s) AS pairs
        """.encode()
    ).fetchone()
    assert row is not None
    assert row[:2] == (INPUTS, 0)
    assert int(str(row[2])) > INPUTS // 10


def test_values_indexes_and_partitions_survive_dump_and_restore(cluster: Cluster, tmp_path: Path) -> None:
    setup = (
        "CREATE EXTENSION inorder; "
        "CREATE TABLE t (id uuid_v1 DEFAULT uuid_v1_nextval(), n int) PARTITION BY RANGE (id); "
        "CREATE TABLE t_all PARTITION OF t FOR VALUES FROM (MINVALUE) TO (MAXVALUE); "
        "ALTER TABLE t ADD PRIMARY KEY (id); CREATE TABLE h AS SELECT uuid_v1_nextval() AS id "
        "FROM generate_series(1, 300); CREATE INDEX h_hash ON h USING hash (id); "
        "CREATE INDEX h_brin ON h USING brin (id); CREATE INDEX h_multi ON h USING brin (id uuid_v1_minmax_multi_ops); "
        "CREATE VIEW recent AS SELECT * FROM t WHERE id >=~ now() - interval '1 day'; "
        "INSERT INTO t (n) SELECT generate_series(1, 300)"
    )
    look = "SELECT md5(string_agg(t::text, ',' ORDER BY id)) || (SELECT count(*) FROM recent) FROM t"
    with copy_of("template1", cluster, "v1_source") as source:
        source.execute(setup.encode())
        with copied(cluster, "v1_source", cluster, "v1_target", "plain", tmp_path) as target:
            assert ">=~" in (tmp_path / "dump").read_text()  # the dump contains the view as it was written
            looks = [value(session, look) for session in (source, target)]
            for session in (source, target):
                # VACUUM FULL rewrites the table as CLUSTER does
                for step in ("SELECT 1", "REINDEX TABLE h", "VACUUM FULL h"):
                    session.execute(step.encode())
                    check_indexes(cluster, session)
    assert looks[0] == looks[1] and str(looks[0]).endswith("300")


def check_indexes(cluster: Cluster, connection: Connection) -> None:
    if (cluster.server.sharedir / "extension" / "amcheck.control").exists():
        connection.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
        connection.execute("SELECT bt_index_check('t_all_pkey', true)")
    connection.execute("SET enable_seqscan = off")
    for index in ("h_hash", "h_brin", "h_multi"):
        with connection.transaction(force_rollback=True):
            for other in {"h_hash", "h_brin", "h_multi"} - {index}:
                connection.execute(f"DROP INDEX {other}".encode())
            query = "SELECT count(*) FROM h a WHERE EXISTS (SELECT FROM h b WHERE b.id = a.id OFFSET 0)"
            plan = connection.execute(f"EXPLAIN {query}".encode()).fetchall()
            assert any(index in str(line[0]) for line in plan)
            assert value(connection, query) == 300


def test_scans_use_skip_support_where_the_server_has_it(judge: Connection, cluster: Cluster) -> None:
    judge.execute("CREATE TABLE fuzz.pairs (id uuid_v1, n int)")
    ends = ("00000000-0000-1000-8000-000000000000", "ffffffff-ffff-1fff-bfff-ffffffffffff")
    for end in ends:
        judge.execute("INSERT INTO fuzz.pairs SELECT %s, generate_series(1, 2000)", (end,))
    neighbours = ("00000004-0000-1000-bfff-ffffffffffff", "00000005-0000-1000-8000-000000000000",
                  "00000005-0000-1000-8000-000000000001", "00000005-0000-1000-bfff-ffffffffffff")  # fmt: skip
    for neighbour in neighbours:
        judge.execute("INSERT INTO fuzz.pairs SELECT %s, generate_series(1, 2000)", (neighbour,))
    judge.execute("CREATE INDEX pairs_id_n ON fuzz.pairs (id, n)")
    judge.execute("ANALYZE fuzz.pairs")
    bounds = [f"id {operator} '{value}' AND" for value in ends + neighbours for operator in ("<", "<=", ">", ">=")]
    by_plan = []
    for by_index in (True, False):
        judge.execute("SET enable_bitmapscan = off")
        for name in ("seqscan", "sort"):
            judge.execute(f"SET enable_{name} = {not by_index}".encode())
        for name in ("indexscan", "indexonlyscan"):
            judge.execute(f"SET enable_{name} = {by_index}".encode())
        query = "SELECT id::text FROM fuzz.pairs WHERE {} n = {} ORDER BY id {}"
        by_plan.append([
            judge.execute(query.format(bound, n, order).encode()).fetchall()
            for bound in ("", *bounds) for n in (1, 2000, 2001) for order in ("ASC", "DESC")
        ])  # fmt: skip
    assert by_plan[0] == by_plan[1]
    assert len(by_plan[0][0]) == 6
    declared = value(judge, "SELECT to_regprocedure('uuid_v1_skipsupport(internal)') IS NOT NULL")
    assert declared == (cluster.server.major >= 18)
    if declared:  # there are several searches, because the scan skips from id to id
        judge.execute("SET enable_seqscan = off; SET enable_indexscan = on; SET enable_indexonlyscan = on")
        plan = judge.execute("EXPLAIN (ANALYZE, TIMING OFF) SELECT id FROM fuzz.pairs WHERE n = 1").fetchall()
        searches = [int(str(line[0]).split(":")[1]) for line in plan if "Index Searches" in str(line[0])]
        assert searches and searches[0] >= 6


def test_nextval_changes_the_clock_sequence_if_the_clock_steps_back(connection: Connection) -> None:
    readings = [5_000_000, 5_000_000, 4_000_000, 4_000_000, 5_000_000, 5_000_001]
    rows = [connection.execute("SELECT test_v1(%s)::text", (reading,)).fetchone() for reading in readings]
    values = [uuid.UUID(str(row[0])) for row in rows if row]
    assert len(set(values)) == len(readings)
    assert [value.time for value in values] == [5_000_000, 5_000_001, 4_000_000, 4_000_001, 5_000_000, 5_000_001]
    sequences = [value.clock_seq for value in values]
    assert sequences[0] == sequences[1]
    assert sequences[2:] == [(sequences[0] + 1) % 2**14] * 4
