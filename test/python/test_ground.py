"""Conditions on which a read depends: no change of the table silently loses rows, before or between reads."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from inorder.connection.database import Connection, connect

from ground import GROUND, GUARD, LATER, PARTS, PLAIN, READS, ROWS, SNAPSHOT, Place, numbers, state, states
from sql_edition import TESTED
from waiting import blocked
from world.sql import run, value

pytestmark = pytest.mark.server


POSITION = "SELECT reader_start('t')"
RIGHT = {"read": 4, "apply": 4, "next batch": 1, "batch rows": 4, "batch after": 1, "rows": 4, "count": 4, "fold": 4}


REWRITES = {
    "type": ("ALTER TABLE t ALTER note TYPE bigint",),
    "default": ("ALTER TABLE t ADD more float DEFAULT random()",),
    "vacuum full": ("VACUUM FULL t",),
    "cluster": ("CLUSTER t USING t_pkey",),
    "twice, then a grant": ("VACUUM FULL t", "ALTER TABLE t ALTER note TYPE bigint", "GRANT SELECT ON t TO PUBLIC"),
}


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_snapshot_older_than_the_files_is_refused(place: Place, rewrite: str, isolation: str) -> None:
    """The snapshot would see no rows, or only some, in the new file. A new transaction sees all rows."""
    owner, reader = place.make(PLAIN), place.session()
    run(reader, f"BEGIN ISOLATION LEVEL {isolation}", "SELECT 1")
    run(owner, *REWRITES[rewrite])
    assert states(reader, READS) == dict.fromkeys(READS, SNAPSHOT)
    for read in READS:
        run(reader, "ROLLBACK", f"BEGIN ISOLATION LEVEL {isolation}")
        assert_right(reader, read)
    run(reader, "ROLLBACK")


def assert_right(reader: Connection, read: str) -> None:
    rows = reader.execute(READS[read].encode()).fetchall()
    if read in ("count", "fold", "apply"):
        assert rows[0][0] == RIGHT[read]
    else:
        assert len(rows) == RIGHT[read]


PARTITION_CHANGES = {
    "one is written anew": ("ALTER TABLE t_3_3 SET (fillfactor = 90)", "VACUUM FULL t_3_3"),
    "all are": ("ALTER TABLE t ALTER note TYPE bigint",),
    "one is emptied": ("ALTER TABLE t_1 DISABLE TRIGGER zz_inorder_truncate", "TRUNCATE t_1"),
    "one is detached": ("ALTER TABLE t DETACH PARTITION t_2",),
    "one is detached by and by": ("ALTER TABLE t DETACH PARTITION t_2 CONCURRENTLY",),
    "one below another is dropped": ("DROP TABLE t_3_4",),
    "two are dropped": ("DROP TABLE t_3",),
    "one is made": ("CREATE TABLE t_5 PARTITION OF t FOR VALUES IN (5)",),
    "one goes and another comes": ("DROP TABLE t_3_4", "CREATE TABLE t_3_5 PARTITION OF t_3 FOR VALUES IN (4)"),
}


@pytest.mark.parametrize("change", PARTITION_CHANGES)
def test_a_snapshot_older_than_the_partitions_is_refused(place: Place, change: str) -> None:
    owner, reader = place.make(*PARTS), place.session()
    run(reader, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
    run(owner, *PARTITION_CHANGES[change])
    assert states(reader, READS) == dict.fromkeys(READS, SNAPSHOT)
    run(reader, "ROLLBACK", "BEGIN")
    assert states(reader, READS) == dict.fromkeys(READS, "")
    run(reader, "ROLLBACK")


@pytest.mark.parametrize("detached", [(), ("ALTER TABLE t DETACH PARTITION t_2",)], ids=["more", "as many"])
def test_a_snapshot_older_than_an_attached_partition_is_refused(place: Place, detached: tuple[str, ...]) -> None:
    owner, reader = place.make(*PARTS, "CREATE TABLE t_5 (LIKE t INCLUDING DEFAULTS)"), place.session()
    run(reader, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
    run(owner, "ALTER TABLE t ATTACH PARTITION t_5 FOR VALUES IN (5)", *detached)
    assert states(reader, READS) == dict.fromkeys(READS, SNAPSHOT)
    run(reader, "ROLLBACK")


HARMLESS = (
    "ANALYZE t", "VACUUM t", "GRANT SELECT ON t TO PUBLIC", "ALTER TABLE t ADD late int", "CREATE INDEX ON t (note)",
    "COMMENT ON TABLE t IS 'x'", "ALTER TABLE t ALTER note SET STATISTICS 10", "REINDEX TABLE t",
    "INSERT INTO t (n) VALUES (1)",
)  # fmt: skip


@pytest.mark.parametrize("tables", [(PLAIN,), PARTS], ids=["plain", "partitions"])
@pytest.mark.parametrize("change", HARMLESS)
def test_commands_that_change_no_file_cause_no_error(place: Place, tables: tuple[str, ...], change: str) -> None:
    owner, reader = place.make(*tables), place.session()
    run(reader, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
    run(owner, change)
    assert value(reader, READS["count"]) == 4
    assert numbers(reader) == [1, 2, 3, 4]
    run(reader, "COMMIT")


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_a_transaction_reads_a_table_that_it_has_rewritten(place: Place, isolation: str) -> None:
    owner = place.make(PLAIN)
    run(owner, f"BEGIN ISOLATION LEVEL {isolation}", "SELECT 1", "ALTER TABLE t ALTER note TYPE bigint", "SAVEPOINT s")
    run(owner, "ALTER TABLE t ALTER note TYPE numeric")
    assert value(owner, READS["count"]) == 4
    assert numbers(owner) == [1, 2, 3, 4]
    run(owner, "COMMIT")
    assert value(owner, READS["count"]) == 4


@pytest.mark.parametrize(
    "change", ["ALTER note TYPE bigint", "ADD more float DEFAULT random()", "ADD more int", "DROP note"]
)
@pytest.mark.parametrize("read", READS)
def test_a_read_that_waited_for_a_rewrite_loses_no_row(place: Place, read: str, change: str) -> None:
    owner, reader = place.make(PLAIN), place.session()
    run(reader, "SELECT (null::t).n")  # the read would otherwise wait when it looks up the type
    run(owner, "BEGIN", f"ALTER TABLE t {change}")
    with blocked(state, reader, READS[read]) as waiting:
        run(owner, "COMMIT")
        outcome = waiting.result()
    if outcome:
        assert outcome == SNAPSHOT
        assert_right(reader, read)
    elif read == "read":
        assert numbers(reader) == []


# Changes to the guard of one partition, which leave no trace at the root of the tree.
OFF = {
    "disabled": ("ALTER TABLE {leaf} DISABLE TRIGGER ALL",),
    "enabled again, not always": ("ALTER TABLE {leaf} DISABLE TRIGGER ALL", "ALTER TABLE {leaf} ENABLE TRIGGER ALL"),
    "for replicas only": ("ALTER TABLE {leaf} ENABLE REPLICA TRIGGER zz_inorder_guard",),
    "the one for updates": ("ALTER TABLE {leaf} DISABLE TRIGGER zz_inorder_update",),
}


@pytest.mark.parametrize("way", OFF)
@pytest.mark.parametrize("leaf", ["t_1", "t_3_4", "t_3", "ONLY t_3"])
def test_a_partition_without_its_guard_is_refused(place: Place, leaf: str, way: str) -> None:
    owner = place.make(*PARTS)
    run(owner, *(statement.format(leaf=leaf) for statement in OFF[way]))
    for session in (owner, place.session()):
        run(session, "BEGIN")
        assert states(session, READS) == dict.fromkeys(READS, GROUND)
        run(session, "ROLLBACK")
    run(owner, "SELECT feed_enable('t')")
    assert state(owner, READS["count"]) == ""


@pytest.mark.parametrize(("tables", "leaf"), [((PLAIN,), "t"), (PARTS, "t"), (PARTS, "t_3_4")], ids=str)
def test_reads_fail_after_the_guard_was_disabled_for_a_while(place: Place, tables: tuple[str, ...], leaf: str) -> None:
    """One transaction disables the guard, inserts a row with an old number, and restores the guard.

    No read silently skips that row.
    """
    owner = place.make(*tables)
    assert numbers(owner) == [1, 2, 3, 4]
    assert value(owner, READS["fold"]) == 4
    run(
        owner, "BEGIN", f"ALTER TABLE {leaf} DISABLE TRIGGER ALL",
        f"INSERT INTO {leaf} (id, n) VALUES (uuid_xact_floor(5), 4)",
        *(f"ALTER TABLE {leaf} ENABLE ALWAYS TRIGGER zz_inorder_{name}" for name in GUARD
          if (leaf, name) != ("t_3_4", "truncate")),
        "COMMIT",
    )  # fmt: skip
    for read in ("read", "apply", "next batch", "batch rows", "rows"):
        assert state(owner, READS[read]) == GROUND, read
    assert value(owner, READS["count"]) == 5
    run(owner, READS["fold"], "SELECT feed_seek('f', 'beginning')")
    assert value(owner, READS["count"]) == 5
    assert numbers(owner) == [1, 2, 3, 4, 4]


def test_a_dump_of_the_rows_is_restored_into_a_guarded_table(place: Place) -> None:
    owner = place.make(*PARTS)
    assert numbers(owner) == [1, 2, 3, 4]
    run(
        owner, "CREATE TABLE old AS SELECT uuid_xact_floor(7) AS id, 1 AS n", "ALTER TABLE t_1 DISABLE TRIGGER ALL",
        "INSERT INTO t_1 (id, n) SELECT * FROM old", "ALTER TABLE t_1 ENABLE TRIGGER ALL",
    )  # fmt: skip
    assert state(owner, READS["read"]) == GROUND
    run(owner, "SELECT feed_enable('t')")
    assert state(owner, READS["read"]) == GROUND
    run(owner, "SELECT feed_seek('f', 'beginning')")
    assert numbers(owner) == [1, 1, 2, 3, 4]


def test_feeds_continue_if_a_guarded_table_is_enabled_again(place: Place) -> None:
    """Feeds and batches continue after a change of the key column or the base.

    The change is safe, because the owner locks the table while making it.
    """
    owner = place.make(*PARTS)
    assert numbers(owner) == [1, 2, 3, 4]
    before = numbers(owner, READS["batch rows"])
    run(owner, "ALTER TABLE t RENAME id TO key", "SELECT feed_enable('t')", "SELECT feed_rebase('t', 1000000000)")
    run(owner, "INSERT INTO t (n) VALUES (4)")
    assert numbers(owner) == [4]
    assert numbers(owner, READS["batch rows"]) == before


@pytest.mark.parametrize(("tables", "leaf"), [((PLAIN,), "t"), (PARTS, "t"), (PARTS, "t_3_4")], ids=str)
def test_a_trigger_that_fires_after_the_guard_is_refused(place: Place, tables: tuple[str, ...], leaf: str) -> None:
    owner = place.make(*tables)
    run(owner, "CREATE FUNCTION old() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN new.id := public.uuid_xact_floor(5); "
        "RETURN new; END'", f"CREATE TRIGGER zzz BEFORE INSERT ON {leaf} FOR EACH ROW EXECUTE FUNCTION old()",
        "BEGIN")  # fmt: skip
    assert states(owner, READS) == dict.fromkeys(READS, LATER)
    run(owner, "ROLLBACK")
    assert state(owner, "INSERT INTO t (n) VALUES (4)") == (GROUND if LATER else "23514")
    run(owner, f"ALTER TRIGGER zzz ON {leaf} RENAME TO aaa")
    assert state(owner, "INSERT INTO t (n) VALUES (4)") == "23514"


GENERATED = (
    "CREATE TABLE t (k int, n int, note text, xact bigint GENERATED ALWAYS AS ({}) STORED)",
    "CREATE INDEX ON t (xact)",
)


@pytest.mark.parametrize(
    "expression",
    [
        "CASE WHEN note = 'draft' THEN 0 ELSE xact_id_generated() END", "xact_id_generated() / 1000",
        "xact_id_generated(5 + 5)", "xact_id_generated(n)", "xact_id_generated() + 1", "-xact_id_generated()",
        "coalesce(xact_id_generated(), 0)", "xact_id_generated()::int", "(ARRAY[xact_id_generated()])[1]",
    ],
)  # fmt: skip
def test_another_generation_expression_is_refused(place: Place, expression: str) -> None:
    owner = place.session()
    run(owner, GENERATED[0].format(expression), GENERATED[1])
    assert state(owner, "SELECT feed_enable('t')", "42703") == "42703"


def test_the_base_is_read_from_a_generation_expression(place: Place) -> None:
    owner = place.session()
    run(owner, GENERATED[0].format("xact_id_generated(10)"), GENERATED[1], "SELECT feed_enable('t')")
    query = "SELECT base FROM inorder_internal.feed_table WHERE relation = 't'::regclass"
    assert value(owner, query) == 10


@pytest.mark.parametrize("expression", ["xact_id_generated() - 1000", "xact_id_generated(1000)"])
def test_a_partition_with_another_expression_is_refused(place: Place, expression: str) -> None:
    owner = place.session()
    run(
        owner,
        "CREATE TABLE t (n int, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED) PARTITION BY LIST (n)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1)", "CREATE INDEX ON t (xact)",
        "SELECT feed_create('f', 't'), exact_count_start('t')", "INSERT INTO t VALUES (1)",
        f"CREATE TABLE t_2 (n int, xact bigint GENERATED ALWAYS AS ({expression}) STORED)",
    )  # fmt: skip
    refused = state(owner, "ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES IN (2)")
    assert refused == ("42804" if owner.info.server_version < 160000 else "")
    if refused:
        return
    for read in ("read", "count", "fold"):
        assert state(owner, READS[read]) == GROUND
    run(owner, "ALTER TABLE t DETACH PARTITION t_2")
    assert numbers(owner) == [1]


def test_set_expression_changes_the_numbers(place: Place) -> None:
    owner = place.session()
    run(
        owner,
        "CREATE TABLE t (n int, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED) PARTITION BY LIST (n)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1)", "CREATE INDEX ON t (xact)",
        "SELECT feed_create('f', 't'), exact_count_start('t')", "INSERT INTO t VALUES (1), (1)",
    )  # fmt: skip
    assert numbers(owner) == [1, 1]
    if owner.info.server_version < 170000:
        pytest.skip("SET EXPRESSION exists from PostgreSQL 17 on")
    run(owner, "ALTER TABLE t ALTER xact SET EXPRESSION AS (xact_id_generated(7))")
    assert state(owner, READS["read"]) == GROUND
    run(owner, "ALTER TABLE t ALTER xact SET EXPRESSION AS (xact_id_generated())")
    assert state(owner, READS["read"]) == GROUND


ORDERED = "CREATE TABLE t (a int, b int, n serial, xact bigint NOT NULL DEFAULT xact_id(), PRIMARY KEY (a, b))"
MANY = "INSERT INTO t (a, b) SELECT i % 10, i / 10 FROM generate_series(0, 99) AS i"


@pytest.mark.parametrize(
    "change",
    [
        ("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (b, a)", "SELECT feed_enable('t')"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (n)", "SELECT feed_enable('t')"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey", "SELECT feed_enable('t')"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (b, a)",),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (n)",),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey",),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey", "ALTER TABLE t ALTER a DROP NOT NULL"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD UNIQUE (a, b)",),
        ("ALTER TABLE t RENAME a TO c", "ALTER TABLE t RENAME b TO a", "ALTER TABLE t RENAME c TO b",
         "SELECT feed_enable('t')"),
    ],
    ids=str,
)  # fmt: skip
def test_reads_fail_if_the_key_changes_inside_a_transaction(place: Place, change: tuple[str, ...]) -> None:
    owner = place.session()
    run(owner, ORDERED, "CREATE INDEX ON t (xact)", "SELECT feed_create('f', 't')", MANY)
    first = numbers(owner, "SELECT n FROM feed_read('f', null::t, 37)")
    run(owner, "CREATE TABLE kept AS SELECT reader_start('t') AS p", "CREATE TABLE taken AS SELECT 1 AS n")
    run(owner, "UPDATE kept SET p = reader_advance(p, reader_next_batch('t', p, 37))")
    run(owner, "SELECT feed_create('out', 't')", "SELECT (feed_take_batch('out', 'w', 37)).number", *change)
    for read in ("read", "apply", "next batch", "batch rows", "batch after"):
        assert state(owner, READS[read]) == GROUND, read
    run(owner, "SELECT feed_enable('t')", "SELECT feed_seek('f', 'beginning')")
    assert len(first) == 37
    assert len(set(numbers(owner))) == 100


def test_reads_continue_if_the_key_changes_between_transactions(place: Place) -> None:
    owner = place.session()
    run(owner, ORDERED, "CREATE INDEX ON t (xact)", "SELECT feed_create('f', 't')", MANY)
    assert len(numbers(owner)) == 100
    run(owner, "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (b, a)", "SELECT feed_enable('t')")
    run(owner, "INSERT INTO t (a, b) SELECT 50, i FROM generate_series(1, 9) AS i")
    assert [len(numbers(owner, "SELECT n FROM feed_read('f', null::t, 4)")) for _ in range(4)] == [4, 4, 1, 0]


def test_reads_fail_until_a_shorter_key_is_enabled(place: Place) -> None:
    owner = place.session()
    run(owner, ORDERED, "CREATE INDEX ON t (xact)", "SELECT feed_create('f', 't'), exact_count_start('t')")
    run(owner, "INSERT INTO t VALUES (1, 1), (2, 1)", "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (a)")
    for read in ("read", "count"):
        assert state(owner, READS[read]) == GROUND


KINDS = ["regclass", "money", "int[]", "timetz", *(["public.uuid_v1"] if TESTED == "c" else [])]


@pytest.mark.parametrize("kind", KINDS)
def test_a_transaction_is_not_divided_if_a_position_cannot_contain_its_key(place: Place, kind: str) -> None:
    owner = place.session()
    values = {
        "regclass": "oid::regclass FROM pg_class LIMIT 20", "money": "i::money FROM generate_series(-9, 10) AS i",
        "int[]": "ARRAY[i] FROM generate_series(1, 20) AS i",
        "public.uuid_v1": "uuid_v1_nextval() FROM generate_series(1, 20)",
        "timetz": "('00:00'::time + i * interval '1 min')::timetz FROM generate_series(1, 20) AS i",
    }  # fmt: skip
    run(
        owner,
        f"CREATE TABLE t (k {kind} PRIMARY KEY, n serial, xact bigint NOT NULL DEFAULT xact_id())",
        "CREATE INDEX ON t (xact)", "SELECT feed_create('f', 't')", f"INSERT INTO t (k) SELECT {values[kind]}",
    )  # fmt: skip
    assert len(numbers(owner, "SELECT n FROM feed_read('f', null::t, 3)")) == 20
    assert numbers(owner) == []


@pytest.mark.parametrize("tables", [(PLAIN,), PARTS], ids=["plain", "partitions"])
@pytest.mark.parametrize("read", ["start", "batch after", "rows"])
def test_reads_fail_unless_the_table_is_enabled(place: Place, tables: tuple[str, ...], read: str) -> None:
    owner = place.session()
    run(owner, *tables, ROWS, "CREATE TABLE kept (p feed_position, b feed_batch)")
    run(owner, "INSERT INTO kept VALUES ('(1,{},,,,,)', '(1,\"{[0,9)}\",,,,,,,)')")
    assert state(owner, READS.get(read, POSITION)) == GROUND
    run(owner, "SELECT feed_enable('t')")
    assert state(owner, READS.get(read, POSITION)) == ""
    run(owner, "SELECT feed_disable('t')")
    assert state(owner, READS.get(read, POSITION)) == GROUND


def old_row(owner: Connection, table: str, leaf: str) -> None:
    run(owner, f"CREATE TABLE {leaf} (LIKE {table} INCLUDING DEFAULTS)")
    run(owner, f"INSERT INTO {leaf} (id, n) SELECT uuid_xact_floor(uuid_xact_id(min(id::text)::uuid)), 5 FROM {table}")


@pytest.mark.parametrize("read", ["batch rows", "rows"])
def test_an_added_partition_with_rows_of_the_batch_is_noticed(place: Place, read: str) -> None:
    """Reads fail if an attached partition has rows of the batch's transactions, because the batch would change.

    Other new partitions have no effect.
    """
    owner = place.make(*PARTS)
    assert len(numbers(owner, READS[read])) == 4
    run(owner, "CREATE TABLE t_6 PARTITION OF t FOR VALUES IN (6)", "INSERT INTO t (n) VALUES (6)")
    assert len(numbers(owner, READS[read])) == 4
    old_row(owner, "t", "t_5")
    run(owner, "ALTER TABLE t ATTACH PARTITION t_5 FOR VALUES IN (5)")
    assert state(owner, READS[read]) == GROUND
    run(owner, "ALTER TABLE t DETACH PARTITION t_5")
    assert len(numbers(owner, READS[read])) == 4


@pytest.mark.parametrize("read", ["batch rows", "rows"])
def test_a_partition_changed_while_detached_between_two_reads_is_noticed(place: Place, read: str) -> None:
    owner = place.make(*PARTS)
    run(
        owner, "ALTER TABLE t DETACH PARTITION t_1", "INSERT INTO t_1 (id, n) SELECT uuid_xact_floor(5), 1",
        "ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES IN (1)",
    )  # fmt: skip
    assert state(owner, READS[read]) == GROUND


@pytest.mark.parametrize(
    ("change", "mend"),
    [
        ("DROP INDEX t_xact_idx", "CREATE INDEX ON t (xact)"),
        ("DROP INDEX t_xact_idx; CREATE INDEX ON t USING brin (xact)", "CREATE INDEX ON t (xact)"),
        ("DROP INDEX t_xact_idx; CREATE INDEX ON t (xact) WHERE n > 0", "CREATE INDEX ON t (xact)"),
        (
            "DROP INDEX t_xact_idx; CREATE OPERATOR CLASS own FOR TYPE int8 USING btree AS OPERATOR 1 <, "
            "OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint8cmp(int8, int8); "
            "CREATE INDEX ON t (xact own)", "CREATE INDEX ON t (xact)",
        ),
        (
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 't_xact_idx'::regclass",
            "REINDEX INDEX t_xact_idx",
        ),
    ],
)  # fmt: skip
def test_reads_fail_without_the_index(place: Place, change: str, mend: str) -> None:
    """Reads fail instead of scanning the whole table each time."""
    owner = place.session()
    run(owner, ORDERED, "CREATE INDEX ON t (xact)", "SELECT feed_create('f', 't'), exact_count_start('t')", MANY)
    assert value(owner, READS["count"]) == 100
    run(owner, change)
    for read in ("read", "count"):
        assert state(owner, READS[read]) == GROUND
    run(owner, mend)
    assert len(numbers(owner)) == 100


def test_no_row_is_lost_while_partitions_come_and_go(place: Place) -> None:
    owner, reader, other = place.make(*PARTS), place.session(), place.session()
    stop = False

    def change() -> int:
        rounds = 0
        while not stop:
            run(other, "CREATE TABLE t_7 PARTITION OF t FOR VALUES IN (7)")
            run(other, "ALTER TABLE t DETACH PARTITION t_7", "DROP TABLE t_7")
            rounds += 1
        return rounds

    delivered: list[object] = []
    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change)
        try:
            for _ in range(60):
                run(owner, ROWS)
                try:
                    delivered += numbers(reader)
                except psycopg.errors.SerializationFailure:
                    continue
        finally:
            stop = True
        assert changing.result() > 0
    delivered += numbers(reader)
    assert len(delivered) == 4 * 61


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_a_partition_that_is_being_detached_belongs_to_older_snapshots(place: Place, isolation: str) -> None:
    owner, reader, blocker = place.make(*PARTS), place.session(), place.session()
    run(blocker, "BEGIN", "SELECT FROM t")
    run(reader, f"BEGIN ISOLATION LEVEL {isolation}", "SELECT 1")
    with ThreadPoolExecutor(1) as pool, connect(place.cluster.dsn) as admin:
        waiting = pool.submit(state, owner, "ALTER TABLE t DETACH PARTITION t_1 CONCURRENTLY")
        while not value(admin, "SELECT count(*) FROM pg_inherits WHERE inhdetachpending"):
            assert not waiting.done()
        by_read = {}
        for read, statement in READS.items():
            run(reader, "SAVEPOINT s")
            rows = reader.execute(statement.encode()).fetchall()
            by_read[read] = rows[0][0] if read in ("count", "fold", "apply") else len(rows)
            run(reader, "ROLLBACK TO s")
        run(blocker, "ROLLBACK")
        run(reader, "ROLLBACK")
        assert waiting.result() == ""
    expected = {read: amount - (isolation == "READ COMMITTED" and amount > 1) for read, amount in RIGHT.items()}
    assert by_read == expected


@pytest.mark.parametrize("key", [", ADD PRIMARY KEY (b, a)", ", ADD PRIMARY KEY (n)", ""])
def test_seeking_here_inside_a_transaction_needs_the_same_key(place: Place, key: str) -> None:
    owner = place.session()
    run(owner, ORDERED, "CREATE INDEX ON t (xact)", "SELECT feed_create('f', 't')", MANY)
    first = numbers(owner, "SELECT n FROM feed_read('f', null::t, 37)")
    run(owner, f"ALTER TABLE t DROP CONSTRAINT t_pkey{key}", "SELECT feed_enable('t')")
    assert state(owner, "SELECT feed_seek('f', 'here')") == GROUND
    assert state(owner, READS["read"]) == GROUND
    run(owner, f"ALTER TABLE t {key and 'DROP CONSTRAINT t_pkey,'} ADD PRIMARY KEY (a, b)", "SELECT feed_enable('t')")
    run(owner, "SELECT feed_seek('f', 'here')")
    assert sorted([*first, *numbers(owner)]) == list(range(1, 101))


VERSIONS = """
    SELECT inorder_internal.guarded('{0}', {1})
           = (SELECT array_agg(inorder_internal.version(g.xmin, g.ctid, 'pg_trigger', {1}) ORDER BY g.tgname)
              FROM pg_trigger AS g
              WHERE g.tgrelid = '{0}'::regclass
                AND g.tgname IN ('zz_inorder_guard', 'zz_inorder_truncate', 'zz_inorder_update'))
             || ARRAY(SELECT inorder_internal.version(d.xmin, d.ctid, 'pg_attrdef', {1}) FROM pg_attrdef AS d
                      JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
                      WHERE a.attrelid = '{0}'::regclass AND a.attgenerated = 's')"""


@pytest.mark.skipif(TESTED == "sql", reason="the SQL edition uses this query instead of stored versions")
def test_stored_versions_of_a_guard_agree_with_a_query(place: Place) -> None:
    """Stored versions are compared with those from a query, for an open transaction and after its end."""
    owner = place.make(PLAIN)
    different = []
    for column in ("GENERATED ALWAYS AS (xact_id_generated()) STORED", "DEFAULT xact_id()"):
        run(owner, "BEGIN", f"CREATE TABLE made (xact bigint {column})", "CREATE INDEX ON made (xact)")
        run(owner, "SELECT feed_enable('made')")
        for end in ("SELECT", "COMMIT"):
            calls = [VERSIONS.format(table, placed) for table in ("made", "t") for placed in ("true", "false")]
            different += [call for call in calls if value(owner, call) is not True]
            run(owner, end)
        run(owner, "DROP TABLE made")
    assert different == []
