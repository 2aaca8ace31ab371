"""The caller's settings do not affect functions of inorder, or data that a session stores for other sessions."""

import json
import re

import psycopg
import pytest
from inorder.connection.database import Connection, connect

from conftest import LONG_RUN

pytestmark = pytest.mark.server

# Settings for compiling functions, for the input and output of values, and for planning queries. The values differ from
# the defaults as much as possible.
ODD = (
    {
        "plpgsql.extra_errors": "'all'", "plpgsql.variable_conflict": "use_variable",
        "plpgsql.print_strict_params": "on", "plpgsql.check_asserts": "off", "plan_cache_mode": "force_generic_plan",
        "check_function_bodies": "off",
        "row_security": "off",
        "stats_fetch_consistency": "none",
    },
    {
        "plpgsql.extra_warnings": "'all'", "plpgsql.variable_conflict": "use_column", "transform_null_equals": "on",
        "standard_conforming_strings": "off", "backslash_quote": "off", "array_nulls": "off", "DateStyle": "'SQL, DMY'",
        "IntervalStyle": "sql_standard", "TimeZone": "'-13:45'", "bytea_output": "escape", "extra_float_digits": "-15",
        "quote_all_identifiers": "on", "xmlbinary": "hex", "xmloption": "document", "lc_messages": "'C'",
        "lc_numeric": "'C'", "lc_time": "'C'", "default_toast_compression": "pglz", "escape_string_warning": "on",
        "constraint_exclusion": "on", "geqo_threshold": "2", "from_collapse_limit": "1", "join_collapse_limit": "1",
        "work_mem": "'64kB'", "enable_seqscan": "off", "enable_indexscan": "off", "enable_bitmapscan": "off",
        "enable_sort": "off", "enable_nestloop": "off", "enable_hashjoin": "off", "enable_partition_pruning": "off",
        "cursor_tuple_fraction": "0", "parallel_setup_cost": "0", "min_parallel_table_scan_size": "0",
        "gin_fuzzy_search_limit": "1", "plan_cache_mode": "force_custom_plan",
    },
)  # fmt: skip
SETTINGS = ODD if LONG_RUN else (ODD[1] | ODD[0],)
# The text form of these keys depends on settings, and a position stores the last key as text.
TABLES = r"""
CREATE TABLE "odd ""\' name" (at timestamptz, f float8, b bytea, i interval, n int, PRIMARY KEY (at, f, b, i),
    xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON "odd ""\' name" (xact, at, f, b, i);
CREATE TABLE parts (id uuid DEFAULT uuid_xact_nextval(), n int, day date, PRIMARY KEY (id, day))
    PARTITION BY RANGE (day);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
CREATE TABLE streams (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), k text NOT NULL,
    n bigint GENERATED ALWAYS AS IDENTITY (CACHE 1));
CREATE INDEX ON streams (n);
"""
FILL = r"""
INSERT INTO "odd ""\' name" SELECT timestamptz '2026-01-02 03:04:05.678901+00' + n * interval '1 day', n + 1/3::float8,
    decode('00ff5c27', 'hex'), n * interval 'P1M2DT3H4M5.678S', n FROM generate_series(1, 9) AS n;
INSERT INTO parts (n, day) SELECT n, date '2026-01-28' + n FROM generate_series(1, 9) AS n;
INSERT INTO streams (k) SELECT 'k"' || n % 3 FROM generate_series(1, 9) AS n;
"""
TABLE = r"""$$"odd ""\' name"$$"""
ERRORS = 14  # number of steps that are expected to fail
ROW = r"""null::"odd ""\' name" """
BATCH = f"reader_next_batch({TABLE}, reader_start({TABLE}, 'beginning'), 3)"
START = (
    f"SELECT feed_create('f', {TABLE})", "SELECT feed_create('p', 'parts', whole_transactions => true)",
    "SELECT feed_create('o', 'streams', order_column => 'n')", "SELECT feed_create('w', 'streams')",
    "SELECT feed_create('s', 'streams', partition_by => 'k', shares => 2)",
    f"SELECT exact_count_start({TABLE}), exact_count_start('parts')",
)  # fmt: skip
PIECE = (
    f"SELECT n FROM feed_peek('f', {ROW}, 3)", "SELECT feed_apply('f', 'SELECT n FROM batch', 1)",
    "SELECT (feed_take_batch('o', 'w', 2)).number, (feed_take_batch('p', 'w')).number",
    "SELECT n FROM feed_batch_rows('o', 1, null::streams)",
    "SELECT feed_finish_batch('o', 1, token) FROM feed_take_batch('o', 'w')",
    "SELECT feed_finish_batch('p', 1, token) FROM feed_take_batch('p', 'w')",
    "SELECT n FROM feed_batch_rows('o', 2, null::streams)",
    "SELECT number, tries, set_config('my.token', token::text, false) <> '' FROM feed_take_batch('w', 'one', 4)",
    "SELECT n FROM feed_batch_rows('w', 1, null::streams)",
    "SELECT feed_renew_batch('w', 1, current_setting('my.token')::bigint) > now()",
    "SELECT feed_fail_batch('w', 1, current_setting('my.token')::bigint, 'it''s', '0')",
)  # fmt: skip
REST = (
    f"SELECT n FROM reader_batch_rows({TABLE}, {BATCH}, {ROW}) ORDER BY n",
    f"SELECT (b::text)::feed_batch = b, (b::jsonb)::feed_batch = b FROM {BATCH} AS b",
    f"SELECT n FROM reader_batch_rows({TABLE}, (SELECT b::text FROM {BATCH} AS b)::feed_batch, {ROW}) ORDER BY n",
    f"SELECT count(*) FROM {BATCH} AS b, reader_split({TABLE}, b, 2)",
    "SELECT number, tries FROM feed_take_batch('s', 'one')",
    "SELECT count(*) FROM feed_batches", "SELECT exact_count('parts')", f"SELECT exact_count_fold({TABLE})",
    f"SELECT exact_count({TABLE})", "SELECT name, worker_batches, dead_batches, partition_by FROM feeds ORDER BY name",
    r"SELECT feed_rename('f', $$g\'$$), feed_grant('p', 'pg_monitor'), feed_revoke('p', 'pg_monitor')",
    r"SELECT feed_seek($$g\'$$, 'beginning'), feed_seek('p', '{[1,3)}'::int8multirange)",
    "SELECT feed_seek('o', 'here'), feed_wait('p', '0')", "SELECT feed_passed('streams') IS NOT NULL",
    "SELECT count(*) FROM feed_passed_partitions('parts')", f"SELECT reader_batch_query({TABLE}, {BATCH}) <> ''",
    f"SELECT * FROM feed_prepare({TABLE})", "SELECT feed_peek('none', null::streams)",
    "SELECT feed_create('c', 'pg_cast')",  # rows of pg_cast are never updated, and updates would cause a different HINT
    "INSERT INTO parts (id, day) VALUES ('00000000-0a68-8000-8000-000000000000', '2026-01-03')", "DELETE FROM parts",
    "UPDATE parts SET id = uuid_xact_nextval() WHERE n = 1", "TRUNCATE parts", "SELECT * FROM feed_holders('parts')",
    "CREATE TABLE parts3 PARTITION OF parts FOR VALUES FROM ('2026-03-01') TO ('2026-04-01')",
    "INSERT INTO parts (n, day) VALUES (10, '2026-03-02')", "SELECT exact_count('parts')",
    "SELECT feed_disable('streams')",
    "SELECT exact_count_stop('parts')", f"SELECT exact_count_stop({TABLE})",
    "SELECT feed_drop(name) FROM feeds ORDER BY name", "SELECT feed_disable('parts')", "SELECT feed_enable('parts')",
)  # fmt: skip


# The server also counts rejected writes, and reports them some time later.
BY_STATISTICS = "were deleted or updated"


def outcome(session: Connection, step: str) -> object:
    try:
        cursor = session.execute(step.encode())
        return cursor.fetchall() if cursor.description else None
    except psycopg.Error as error:
        diag = error.diag
        return diag.sqlstate, diag.message_primary, re.sub(r"\d+", "N", str(diag.message_detail)), diag.message_hint


def outcomes(fresh: Connection, settings: dict[str, str]) -> list[tuple[str, object]]:
    with connect(fresh.info.dsn) as plain, connect(fresh.info.dsn) as odd:
        plain.execute(TABLES.encode())
        plain.execute("SELECT inorder_internal.sweep()")
        messages: list[object] = []
        odd.add_notice_handler(lambda notice: messages.append(notice.message_primary))
        for name, value in settings.items():
            odd.execute(f"SET {name} = {value}".encode())
        answers: list[tuple[str, object]] = []
        for step in (*START, FILL, *PIECE, *PIECE, *REST):
            session = plain if step == FILL else odd
            answers.append((step, outcome(session, step)))
            if step.startswith("SELECT n FROM"):
                answers.append((step, outcome(plain, step)))
        plain.execute("DROP TABLE parts, streams")
        plain.execute(rb'DROP TABLE "odd ""\' name"')
        return [*answers, ("notices", [notice for notice in messages if BY_STATISTICS not in str(notice)])]


# For each setting: its value while a function runs as the owner of the state, and a different value set by the caller.
PINNED = {
    "quote_all_identifiers": ("off", "on"), "standard_conforming_strings": ("on", "off"),
    "transform_null_equals": ("off", "on"), "array_nulls": ("on", "off"), "enable_seqscan": ("off", "on"),
    "jit": ("off", "on"), "plpgsql.extra_errors": ("none", "all"), "plpgsql.extra_warnings": ("none", "all"),
    "search_path": ("pg_catalog, pg_temp", "public, inorder"),
}  # fmt: skip


# The tested calls use this function, and its replacement shows the settings.
SHOWN = """
CREATE OR REPLACE FUNCTION inorder_internal.find_feed(feed_name text, owner oid, caller oid)
RETURNS inorder_internal.feed LANGUAGE plpgsql AS $$ BEGIN
    RAISE '%', (SELECT pg_catalog.jsonb_object_agg(n, pg_catalog.current_setting(n))
                FROM pg_catalog.unnest(pg_catalog.string_to_array(feed_name, ' ')) AS n);
END $$"""


@pytest.mark.editions
def test_settings_of_the_caller_have_no_effect_within_a_call(fresh: Connection) -> None:
    fresh.execute(SHOWN)
    for name, (_, other) in PINNED.items():
        fresh.execute("SELECT set_config(%s, %s, false)", [name, other])
    with pytest.raises(psycopg.errors.RaiseException) as shown:
        fresh.execute("SELECT feed_drop(%s)", [" ".join(PINNED)])
    assert json.loads(str(shown.value.diag.message_primary)) == {name: value for name, (value, _) in PINNED.items()}


@pytest.mark.editions
def test_no_setting_of_the_caller_changes_an_answer(fresh: Connection) -> None:
    expected = outcomes(fresh, {})
    rows = [answer for step, answer in expected if step.startswith("SELECT n FROM feed_peek")]
    assert rows == [[(1,), (2,), (3,)]] * 2 + [[(2,), (3,), (4,)]] * 2
    assert sum(isinstance(answer, tuple) for _, answer in expected) == ERRORS
    for settings in SETTINGS:
        answers = outcomes(fresh, settings)
        assert [(a[0], a[1], b[1]) for a, b in zip(expected, answers, strict=True) if a != b] == [], settings
