"""Reads access few blocks and execute few statements under all planner settings, according to the server's counters."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from inorder.connection.database import Connection, connect, one_row
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from sql_edition import TESTED
from world.sql import run, value

pytestmark = pytest.mark.server

ROWS, NEW, OPEN = 60_000, 1_000, 15
OLD, PIECE = 30_000, 1_000
INDEXES = {
    "btree": ("id uuid PRIMARY KEY DEFAULT uuid_xact_nextval()", ""),
    "btree on a number": (
        "id int GENERATED ALWAYS AS IDENTITY, xact bigint DEFAULT xact_id()",
        "CREATE INDEX ON big (xact)",
    ),
    "partial": (
        "id int GENERATED ALWAYS AS IDENTITY, xact bigint DEFAULT xact_id()",
        "CREATE INDEX ON big (xact) WHERE xact > 0",
    ),
}
SETTINGS = {
    "default": "",
    "free reads": """SET random_page_cost = 0; SET seq_page_cost = 0; SET cpu_index_tuple_cost = 0;
                     SET effective_cache_size = '1TB'""",
    "random reads dear": "SET random_page_cost = 1000; SET cpu_index_tuple_cost = 10",
    "parallel": """SET max_parallel_workers_per_gather = 4; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
                   SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0""",
    "jit": "SET jit = on; SET jit_above_cost = 0; SET jit_inline_above_cost = 0; SET jit_optimize_above_cost = 0",
    "generic plans": "SET plan_cache_mode = force_generic_plan; SET enable_nestloop = off; SET enable_sort = off",
}


@pytest.fixture(scope="module", params=INDEXES)
def big(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Connection]:
    columns, index = INDEXES[request.param]
    with connect(cluster.dsn) as connection:
        run(connection, f"CREATE TABLE big ({columns}, n int)", index or "SELECT 1",
                *[f"INSERT INTO big (n) SELECT generate_series(1, {ROWS // 12})"] * 12, "VACUUM ANALYZE big",
                "SELECT feed_create('big', 'big', 'now'), exact_count_start('big')")  # fmt: skip
        yield connection
        run(connection, "RESET ALL", "SELECT feed_drop('big'), exact_count_stop('big')", "DROP TABLE big")


def touched(connection: Connection, statement: str, table: str = "big") -> tuple[int, int]:
    counters = f"""SELECT heap_blks_read + heap_blks_hit, idx_blks_read + idx_blks_hit
                  FROM pg_stat_force_next_flush(), pg_statio_user_tables WHERE relname = '{table}'"""
    run(connection, "SELECT pg_stat_force_next_flush()")
    before = one_row(connection, counters)
    run(connection, statement, "SELECT pg_stat_force_next_flush()")
    after = one_row(connection, counters)
    return after[0] - before[0], after[1] - before[1]


def insert_new(connection: Connection) -> None:
    connection.execute(f"INSERT INTO big (n) SELECT generate_series(1, {NEW})".encode())


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_read_touches_only_new_rows(big: Connection, server: Installation, setting: str) -> None:
    big.execute("RESET ALL")
    big.execute((SETTINGS[setting] or "SELECT 1").encode())
    if setting == "parallel":
        big.execute(b"SET force_parallel_mode = on" if server.major == 15 else b"SET debug_parallel_query = on")
    everything = int(value(big, "SELECT relpages FROM pg_class WHERE relname = 'big'"))
    assert everything > 300
    for statement in (
        "SELECT count(*) FROM feed_read('big', null::big)",
        "SELECT count(*) FROM feed_read('big', null::big, 1000)",
        "SELECT feed_apply('big', 'SELECT count(*) FROM batch')",
        "SELECT feed_finish_batch('big', number, token) FROM feed_take_batch('big', 'w')",
        "SELECT exact_count('big')",
    ):
        if setting == "random reads dear" and ("feed_apply" in statement or "exact_count" in statement):
            continue  # feed_apply() plans the caller's query, and the best plan of exact_count() is a sequential scan
        big.execute("SELECT feed_seek('big', 'now'), exact_count_fold('big')")
        insert_new(big)
        heap, index = touched(big, statement)
        assert heap <= 150 and index <= 100, f"{statement}: {heap} blocks of the table, {index} of its indexes"
    big.execute("SELECT feed_seek('big', 'now')")
    heap, index = touched(big, "SELECT count(*) FROM feed_read('big', null::big)")
    assert heap <= 40 and index <= 20, f"idle: {heap} blocks of the table, {index} of its indexes"


def test_each_gap_between_transactions_costs_one_index_probe(big: Connection, cluster: Cluster) -> None:
    big.execute("RESET ALL")
    big.execute("SELECT feed_seek('big', 'now'), exact_count_fold('big')")
    with ExitStack() as held:
        for _ in range(OPEN):
            writer = held.enter_context(connect(cluster.dsn))
            writer.autocommit = False
            writer.execute("INSERT INTO big (n) VALUES (0)")
            big.execute(f"INSERT INTO big (n) SELECT generate_series(1, {NEW // OPEN})".encode())
            held.callback(writer.rollback)
        new = "SELECT unnest(ended_transactions() - position) FROM feeds WHERE name = 'big'"
        assert int(value(big, f"SELECT count(*) FROM ({new}) AS ranges")) >= OPEN
        for statement in ("SELECT exact_count('big')", "SELECT count(*) FROM feed_read('big', null::big)"):
            heap, index = touched(big, statement)
            message = f"{statement}: {heap} blocks of the table, {index} of its indexes"
            assert heap <= 60 * OPEN and index <= 40 * OPEN, message
        # The transactions are still open, but older rows are not read again.
        insert_new(big)
        heap, index = touched(big, "SELECT count(*) FROM feed_read('big', null::big)")
        assert heap <= 150 and index <= 100, f"after: {heap} blocks of the table, {index} of its indexes"


def read_in_pieces(connection: Connection, table: str) -> tuple[int, int]:
    connection.execute(f"SELECT feed_create('pieces', '{table}')".encode())
    heap = index = rows = 0
    piece = f"INSERT INTO pieces SELECT count(*) FROM feed_read('pieces', null::{table}, {PIECE})"
    while rows < OLD:
        more = touched(connection, piece, table)
        heap, index = heap + more[0], index + more[1]
        rows += PIECE
        assert value(connection, "SELECT sum(n) FROM pieces") == rows
    sizes = "SELECT pg_relation_size(%s::regclass) / 8192, pg_indexes_size(%s) / 8192"
    of_table, of_indexes = one_row(connection, sizes, (table, table))
    return heap // of_table, index // of_indexes


@pytest.mark.parametrize("column", ["", "xact bigint DEFAULT xact_id()"])
def test_a_large_transaction_is_read_once(fresh: Connection, column: str) -> None:
    run(fresh, "CREATE TABLE pieces (n int)", "CREATE TABLE old (k int PRIMARY KEY)",
            *[f"ALTER TABLE old ADD {column}"] * bool(column),
            f"INSERT INTO old (k) SELECT generate_series(1, {OLD})")  # fmt: skip
    steps = fresh.execute("SELECT feed_prepare('old')").fetchall()
    run(fresh, *(str(step) for (step,) in steps), "VACUUM ANALYZE old")
    heap, index = read_in_pieces(fresh, "old")
    # The keys of a piece are in three leaves of the primary key, and each scan also descends from the root. The SQL
    # edition scans each index once more per piece.
    most = 6 if TESTED == "c" else 9
    assert heap <= 6 and index <= most, f"the table was read {heap} times, and its indexes {index} times"


@pytest.mark.editions
def test_no_writer_waits_while_existing_rows_are_checked(fresh: Connection) -> None:
    """The check reads existing rows from an index, and ends before the call takes the lock that blocks writers."""
    run(fresh, "CREATE TABLE old (k int PRIMARY KEY)", f"INSERT INTO old SELECT generate_series(1, {OLD})")
    *steps, enable = (str(step) for (step,) in fresh.execute("SELECT feed_prepare('old')").fetchall())
    run(fresh, *steps, "VACUUM ANALYZE old", "INSERT INTO old SELECT 0")
    for statement in (enable, "SELECT feed_enable('old')", "SELECT feed_rebase('old')"):
        heap, _index = touched(fresh, statement, "old")
        assert heap <= 10, f"{statement}: {heap} blocks of the table"


ORDERED_ROWS, ORDERED_PIECE = 20_000, 1_000
# Maximum number of blocks that a piece may access if the table's rows are stored in the order of the column.
ORDERED_HEAP, ORDERED_INDEX = 120, 120


@pytest.fixture
def ordered(cluster: Cluster) -> Iterator[Connection]:
    with connect(cluster.dsn) as connection:
        connection.execute(
            """CREATE TABLE big_order (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(),
                                       seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE NOT NULL)"""
        )
        connection.execute("SELECT feed_create('in order', 'big_order', order_column => 'seq')")
        for _ in range(ORDERED_ROWS // ORDERED_PIECE):
            connection.execute(f"INSERT INTO big_order SELECT FROM generate_series(1, {ORDERED_PIECE})".encode())
        yield connection
        run(connection, "RESET ALL", "SELECT feed_drop('in order')", "DROP TABLE big_order")


def expect_pieces(connection: Connection, rows: int) -> None:
    piece = f"SELECT count(*) FROM feed_read('in order', null::big_order, {ORDERED_PIECE})"
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS got (n int)")
    connection.execute("TRUNCATE got")
    for number in range(-(-rows // ORDERED_PIECE)):
        heap, index = touched(connection, f"INSERT INTO got {piece}", "big_order")
        assert heap <= ORDERED_HEAP and index <= ORDERED_INDEX, f"piece {number}: {heap} and {index} blocks"
    assert value(connection, "SELECT sum(n) FROM got") == rows
    assert value(connection, piece) == 0


@pytest.mark.parametrize("setting", ["default", "random reads dear", "generic plans"])
def test_a_batch_of_an_ordered_feed_touches_few_blocks_besides_its_rows(ordered: Connection, setting: str) -> None:
    ordered.execute((SETTINGS[setting] or "SELECT 1").encode())
    expect_pieces(ordered, ORDERED_ROWS)
    ordered.execute("INSERT INTO big_order SELECT FROM generate_series(1, 100)")
    expect_pieces(ordered, 100)


def test_rows_of_a_set_that_were_already_delivered_are_skipped_only_once(ordered: Connection) -> None:
    between = f"WHERE seq BETWEEN {ORDERED_PIECE + 1} AND {ORDERED_ROWS // 2}"
    numbers = f"SELECT DISTINCT uuid_xact_id(id) AS n FROM big_order {between}"
    seek = f"SELECT feed_seek('in order', range_agg(int8range(n, n + 1))) FROM ({numbers}) AS e"
    ordered.execute(seek.encode())
    first = f"SELECT count(*) FROM feed_read('in order', null::big_order, {ORDERED_PIECE + 500})"
    heap, index = touched(ordered, first, "big_order")
    assert heap + index <= 10 * ORDERED_ROWS / 100, f"{heap} and {index} blocks"
    expect_pieces(ordered, ORDERED_ROWS // 2 - 500)


# Make the server report each statement that this session executes. The first calls, which compile functions, are not
# counted.
EXPLAINED = """LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
               SET auto_explain.log_level = notice"""
BATCH = "SELECT count(*) FROM feed_batch_rows('steps', {0}, null::steps)"
# For each step: its statements, and the maximum number of statements that they may execute inside functions. The first
# statement returns the arguments of the others.
STEPS = {
    "poll": (["SELECT count(*) FROM feed_read('steps', null::steps, 500)"], 0),
    "read": (["SELECT count(*) FROM feed_read('steps', null::steps, 500)"], 4),
    "worker": (
        ["SELECT number, token FROM feed_take_batch('steps', 'w', 500)", BATCH,
         "SELECT feed_finish_batch('steps', {0}, {1})"], 2,  # in a transaction, a separate statement moves the feed
    ),
    "share": (
        ["SELECT number, token FROM feed_take_batch('shared', 'w', 500)", BATCH.replace("'steps'", "'shared'"),
         "SELECT feed_finish_batch('shared', {0}, {1})"], 19,
    ),
    "order": (["SELECT count(*) FROM feed_read('ordered', null::steps, 500)"], 5),
    "count": (["SELECT exact_count('steps')"], 4),
}  # fmt: skip


# The PL/pgSQL functions that the session has compiled.
COMPILED = "SELECT array_agg(ident ORDER BY ident) FROM pg_backend_memory_contexts WHERE name = 'PL/pgSQL function'"


def test_calls_execute_few_statements(cluster: Cluster, fresh: Connection) -> None:
    """Calls execute few statements, because starting statements is most of their cost. Simple expressions need none.

    The test does not count SQL functions that the server does not inline: auto_explain reports them without a query
    string, and pg_stat_statements does not count them either.
    """
    messages: list[str] = []
    dsn = f"{cluster.dsn} dbname={fresh.info.dbname}"
    with connect(dsn) as connection, connect(dsn) as other:
        connection.execute(
            "CREATE TABLE steps (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int NOT NULL); "
            "CREATE INDEX ON steps (n); SELECT feed_create('steps', 'steps'), exact_count_start('steps'), "
            "feed_create('ordered', 'steps', order_column => 'n'), feed_create('shared', 'steps', partition_by => 'n')"
        )
        connection.execute(EXPLAINED)
        connection.add_notice_handler(lambda notice: messages.append(str(notice.message_primary)))
        counts = {}
        for name, (steps, _) in STEPS.items():
            for _ in range(4):
                rows = 1 if name == "poll" else 600
                other.execute(f"INSERT INTO steps (n) SELECT generate_series(1, {rows})".encode())
                if name == "poll":
                    connection.execute(b"SELECT count(*) FROM feed_read('steps', null::steps)")
                    other.execute("SELECT pg_current_xact_id()")
                messages.clear()
                first = connection.execute(steps[0].encode()).fetchall()[0]
                for step in steps[1:]:
                    connection.execute(step.format(*first).encode())
            counts[name] = sum(re.search(r"Query Text: \S", text) is not None for text in messages) - len(steps)
    assert counts["read"] > 0
    assert {name: count for name, count in counts.items() if count > STEPS[name][1]} == {}


@pytest.mark.editions
def test_a_session_keeps_no_compiled_function_for_a_dropped_partition(cluster: Cluster, fresh: Connection) -> None:
    """For a function with a polymorphic argument, PL/pgSQL keeps one compiled copy per row type."""
    run(fresh, "CREATE TABLE parts (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) "
                   "PARTITION BY LIST (n)", "SELECT feed_create('f', 'parts')")  # fmt: skip
    compiled = []
    with connect(f"{cluster.dsn} dbname={fresh.info.dbname}") as reader:
        for n in range(4):
            run(
                fresh,
                f"CREATE TABLE part PARTITION OF parts FOR VALUES IN ({n})",
                f"INSERT INTO parts VALUES (DEFAULT, {n})",
            )
            run(reader, "BEGIN ISOLATION LEVEL REPEATABLE READ", "LOCK TABLE parts IN ACCESS SHARE MODE")
            batch = "reader_next_batch('parts', reader_start('parts'))"
            query = value(reader, f"SELECT reader_batch_query('parts', {batch})")
            assert len(reader.execute(str(query).encode()).fetchall()) == 1
            run(reader, "COMMIT")
            assert value(reader, "SELECT feed_apply('f', 'SELECT count(*) FROM batch')") == 1
            compiled.append(value(reader, COMPILED))
            run(fresh, "DROP TABLE part")
    assert compiled[1] == compiled[2] == compiled[3]


def test_the_first_call_of_a_connection_touches_few_catalogs(cluster: Cluster, fresh: Connection) -> None:
    """The call checks the table without PL/pgSQL and without catalog queries.

    Each new session would have to plan such queries.
    """
    columns, parts, single = "uuid DEFAULT uuid_xact_nextval(), n int", range(20), '"A single"'
    run(fresh, f'CREATE TABLE {single} ("Key" {columns}, PRIMARY KEY ("Key"))',
            'CREATE TABLE numbers ("K" serial PRIMARY KEY, n int, "X" bigint DEFAULT xact_id())',
            'CREATE INDEX ON numbers ("X", "K") WHERE "X" <> 0',
            "CREATE TABLE generated (n int, x bigint GENERATED ALWAYS AS (xact_id_generated()) STORED)",
            "CREATE INDEX ON generated (x)",
            f"CREATE TABLE parts (id {columns}, PRIMARY KEY (id, n)) PARTITION BY LIST (n)",
            *[f"CREATE TABLE part_{n} PARTITION OF parts FOR VALUES IN ({n})" for n in parts])  # fmt: skip
    first, compiled = {}, {}
    for table in (single, "numbers", "generated", "parts"):
        insert = f"INSERT INTO {table} (n) VALUES (7)"
        run(fresh, f"SELECT feed_create('{table}', '{table}')", insert,
                f"SELECT feed_apply('{table}', 'SELECT count(*) FROM batch')", insert)  # fmt: skip
        with connect(f"{cluster.dsn} dbname={fresh.info.dbname}") as reader:
            # names in a position are written the same way without this setting
            run(reader, "SET quote_all_identifiers = on")
            look = (
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT count(*) FROM feed_peek('{table}', null::{table}, 9)"
            )
            plan: Any = value(reader, look)
            compiled[table] = value(reader, COMPILED)
        first[table] = plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]
    # Functions are compiled only for the table with many partitions.
    assert compiled.pop("parts") and set(compiled.values()) == {None}
    assert first.pop("parts") <= 1000 + 100 * len(parts) and max(first.values()) <= 600, first


def test_a_batch_inside_a_large_transaction_touches_only_its_own_rows(fresh: Connection) -> None:
    """The index that feed_prepare() creates has the rows in delivery order, even before any ANALYZE."""
    run(fresh, "CREATE TABLE old (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int)",
            "INSERT INTO old (n) SELECT generate_series(1, 10)")  # fmt: skip
    run(fresh, *(str(step) for (step,) in fresh.execute("SELECT feed_prepare('old')").fetchall()))
    run(fresh, "SELECT feed_create('f', 'old', 'now')", "INSERT INTO old (n) SELECT generate_series(1, 30000)")
    # The end of the first piece is looked up twice, because the index alone does not contain the key of a row.
    for most in (300, 200, 200):
        heap, index = touched(fresh, "SELECT count(*) FROM feed_read('f', null::old, 50)", "old")
        assert heap <= most and index <= 100, (heap, index)


def test_the_prepared_index_has_only_keys_of_a_fixed_size(fresh: Connection) -> None:
    """The primary key accepts long strings. Together with the number, such a string would be too long for an index."""
    names = [f"c{i}" for i in range(32)]
    keys = {
        "k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY": "(xact, k)", "k text PRIMARY KEY": "(xact)",
        "k int": "(xact)",
        'a date, "B" uuid, PRIMARY KEY ("B", a)': '(xact, "B", a)', "a text, b int, PRIMARY KEY (b, a)": "(xact)",
        f"{', '.join(f'{name} int' for name in names)}, PRIMARY KEY ({', '.join(names)})": "(xact)",
    }  # fmt: skip
    for columns, indexed in keys.items():
        run(fresh, "DROP TABLE IF EXISTS old", f"CREATE TABLE old ({columns})")
        steps = [str(step) for (step,) in fresh.execute("SELECT feed_prepare('old')").fetchall()]
        assert f" ON public.old {indexed} WHERE " in steps[1]
        run(fresh, *steps)
