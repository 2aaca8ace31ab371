"""Experiments on a table like the user's: copied definitions, similar rows, a complete run, and rejected input."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.errors import InputError
from inorder.installations import Installation
from inorder.lab.experiments.like import LikeExperiment, LikeTables
from inorder.lab.experiments.like.copy import LikeKind, key_column
from inorder.lab.experiments.like.plan import LikePlan
from inorder.lab.experiments.like.report import key_index
from inorder.lab.experiments.like.sample import Spread, varied
from inorder.lab.experiments.like.shape import ShapeColumn, draw_of, source
from inorder.lab.instruments import waldump
from inorder.lab.results.journal import load, save
from inorder.lab.results.result import Result, Run
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.own_server import OwnServer
from inorder.lab.targets.throw_away import ThrowAway

from on_paper import empty_result
from own_server_runs import run_there, traces
from tool import LabRun, inorder
from world.sql import value

ROWS = 4000
ORDERS = 'shop."Weird ""Orders"" 1"'
OBEYED = '"a\x1b[2J\nHINT: b"'  # a terminal would execute the escape sequence in this name if it were shown unescaped
NAMED = f"shop.{OBEYED.replace('a', 't', 1)}"
TABLES = f"""
CREATE SCHEMA shop;
CREATE TYPE shop.state AS ENUM ('new', 'paid', 'it''s sent');
CREATE DOMAIN shop.email AS text CHECK (value ~ '@');
CREATE TABLE shop."Weird ""Orders"" 1" (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), created_at timestamptz NOT NULL DEFAULT now(), customer int NOT NULL,
    email shop.email NOT NULL, state shop.state NOT NULL DEFAULT 'new', total numeric(10,2) CHECK (total >= 0),
    number bigint GENERATED ALWAYS AS IDENTITY, sku varchar(20), body jsonb,
    twice numeric GENERATED ALWAYS AS (total * 2) STORED, EXCLUDE USING btree (id WITH =));
CREATE INDEX ON shop."Weird ""Orders"" 1" (created_at);
CREATE INDEX {OBEYED} ON shop."Weird ""Orders"" 1" (customer);
CREATE UNIQUE INDEX ON shop."Weird ""Orders"" 1" (lower(email::text));
CREATE UNIQUE INDEX ON shop."Weird ""Orders"" 1" (number);
CREATE INDEX ON shop."Weird ""Orders"" 1" (sku) WHERE state = 'new';
INSERT INTO shop."Weird ""Orders"" 1" (created_at, customer, email, state, total, sku, body)
SELECT '2024-01-01'::timestamptz + i * interval '7 s', i * 7919 % 1500, 'user' || md5(i::text) || '@example.com',
       (enum_range(NULL::shop.state))[1 + i % 3], i % 977, CASE WHEN i % 10 < 7 THEN 'SKU-' || i * 31 % 40 END,
       jsonb_build_object('n', repeat(md5(i::text), 1 + i % 8)) FROM generate_series(1, {ROWS}) AS i;
CREATE TABLE shop.texts (
    id varchar(32) PRIMARY KEY DEFAULT md5(gen_random_uuid()::text), owner text, at date, plain text);
CREATE INDEX ON shop.texts (owner);
INSERT INTO shop.texts (owner, at, plain)
SELECT md5((i % 1000)::text), '2024-01-01'::date + i / 9, repeat('x', i % 100) FROM generate_series(1, {ROWS}) AS i;
CREATE TABLE shop.parts (id uuid DEFAULT gen_random_uuid(), at date, device int, value float8, PRIMARY KEY (id, at))
    PARTITION BY RANGE (at);
CREATE TABLE shop.parts_1 PARTITION OF shop.parts FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE TABLE shop.parts_2 PARTITION OF shop.parts FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')
    PARTITION BY LIST (at);
CREATE TABLE shop.parts_3 PARTITION OF shop.parts_2 DEFAULT;
CREATE INDEX ON shop.parts (device, at);
INSERT INTO shop.parts (at, device, value)
SELECT '2024-01-01'::date + i * 58 / {ROWS}, i % 20, random() FROM generate_series(1, {ROWS}) AS i;
CREATE TABLE shop.empty (id uuid PRIMARY KEY);
CREATE TABLE shop.keyless (a int, b int);
CREATE TABLE shop.two (a int, b int, PRIMARY KEY (a, b));
CREATE TABLE shop.small (id integer PRIMARY KEY);
CREATE TABLE shop.odd (id uuid PRIMARY KEY, at shop.keyless);
CREATE TABLE shop.named (id uuid PRIMARY KEY, {OBEYED} shop.keyless);
CREATE TABLE {NAMED} ();
CREATE VIEW shop.view AS SELECT 1 AS id;
CREATE ROLE shop_reader LOGIN;
GRANT USAGE ON SCHEMA shop TO shop_reader;
INSERT INTO shop.keyless VALUES (1, 2);
INSERT INTO shop.two VALUES (1, 2);
INSERT INTO shop.small VALUES (1);
INSERT INTO shop.odd VALUES (gen_random_uuid(), (1, 2));
INSERT INTO shop.named SELECT * FROM shop.odd;
"""
PLAN = LikePlan(rows=6000, sample=1000, transactions=300, clients=2, memory_bytes=2**27)


@pytest.fixture(scope="module")
def shop(cluster: Cluster) -> Iterator[str]:
    with connect(cluster.dsn) as connection:
        connection.execute(TABLES.encode())
        yield cluster.dsn
        connection.execute("DROP SCHEMA shop CASCADE; DROP ROLE shop_reader")


def plan_of(dsn: str, table: str, plan: LikePlan = PLAN) -> LikePlan:
    return LikeExperiment.completed(replace(plan, table=table, source=dsn), False).plan


def statistics(connection: Connection, table: str) -> dict[str, tuple[float, ...]]:
    row = connection.execute("SELECT array_agg(attname::text) FROM pg_attribute WHERE attrelid = %s::regclass "
                             "AND attnum > 0", (table,)).fetchone()  # fmt: skip
    assert row is not None and isinstance(row[0], list)
    facts = {}
    for name in row[0]:
        figures = f'avg(("{name}" IS NULL)::int), avg(pg_column_size("{name}")), count(DISTINCT "{name}")'
        values = connection.execute(f"SELECT {figures} FROM {table}".encode()).fetchone()
        assert values is not None
        facts[str(name)] = tuple(float(str(value)) for value in values)
    return facts


@pytest.mark.server
@pytest.mark.parametrize(("table", "indexes"), [(ORDERS, 7), ("shop.texts", 2), ("shop.parts", 2)])
def test_rows_are_like_those_of_the_table(
    shop: str, users: Cluster, server: Installation, table: str, indexes: int
) -> None:
    with connect(shop) as shop_session, OwnServer(users.dsn, server) as own_server:
        plan = plan_of(shop, table)
        tables = LikeTables(own_server, plan)
        sizes = [batch.metrics for batch in tables.fill(plan.rows)]
        assert all(sum(name.startswith("bytes ") for name in sizes_of_kind) >= indexes + 1 for sizes_of_kind in sizes)
        with own_server.connect() as session:
            before, after = statistics(shop_session, table), statistics(session, "inorder_lab.v7")
            assert value(session, "SELECT count(*) FROM inorder_lab.random") == plan.rows
            check_indexes(session, indexes)
            if table == ORDERS:
                back = "SELECT created_at < lag(created_at) OVER (ORDER BY ctid) AS back FROM inorder_lab.v7"
                steps_back = value(session, f"SELECT count(*) FROM ({back}) AS rows WHERE back")
                # newer rows that were stored before older rows, in free space
                assert int(str(steps_back)) < 0.04 * plan.rows
        assert plan.found and before.keys() == after.keys()
        for name, (nulls, width, distinct) in after.items():
            assert nulls == pytest.approx(before[name][0], abs=0.05), name
            assert width == pytest.approx(before[name][1], rel=0.1, abs=1), name
            if name in {column for index in plan.found.shape.indexes for column in index.mentions} - {"id"}:
                expected = before[name][2] * (plan.rows / ROWS if before[name][2] > ROWS / 10 else 1)
                assert distinct == pytest.approx(expected, rel=0.3), name


@pytest.mark.server
@pytest.mark.parametrize(
    ("touch", "keys", "fraction", "newest"), [("any", (450, 750), 10, (20, 100)), ("recent", (60, 60), 100, (60, 60))]
)
def test_keys_are_drawn_from_all_rows_or_from_the_newest_rows(
    shop: str, users: Cluster, server: Installation, monkeypatch: pytest.MonkeyPatch, touch: str,
    keys: tuple[int, int], fraction: int, newest: tuple[int, int],
) -> None:  # fmt: skip
    """The sample of keys respects its limits for all rows and for the newest rows.

    The newest rows are one tenth or one hundredth of all rows.
    """
    monkeypatch.setattr("inorder.lab.experiments.like.copy.MOST_KEYS", 600)
    with OwnServer(users.dsn, server) as own_server:
        tables = LikeTables(own_server, replace(plan_of(shop, ORDERS), touch=touch))
        list(tables.fill(PLAN.rows))
        with own_server.connect() as session:
            count = int(value(session, "SELECT count(*) FROM inorder_lab.v7_keys"))
            rows = f"SELECT id FROM inorder_lab.v7 ORDER BY created_at DESC LIMIT {PLAN.rows // fraction}"
            of_newest = value(session, f"SELECT count(*) FROM inorder_lab.v7_keys JOIN ({rows}) AS rows ON id = key")
        assert keys[0] <= count <= keys[1] and newest[0] <= int(of_newest) <= newest[1]
        assert f"\\set m random(1, {count})\n" in tables.script(tables.kind("v7")).read_text()


def check_indexes(connection: Connection, indexes: int) -> None:
    query = "SELECT count(*) FROM pg_index WHERE indisvalid AND indrelid = 'inorder_lab.v7'::regclass"
    assert value(connection, query) == indexes
    assert value(connection, f"{query} AND indisunique") == (3 if indexes == 7 else 1)


@pytest.mark.server
def test_partitions_and_types_are_copied(shop: str, users: Cluster, server: Installation) -> None:
    with OwnServer(users.dsn, server) as own_server:
        list(LikeTables(own_server, plan_of(shop, "shop.parts")).fill(PLAN.rows))
        with own_server.connect() as session:
            bounds = "SELECT count(*) FROM pg_partition_tree('inorder_lab.v7') WHERE isleaf"
            assert value(session, bounds) == 3
            assert value(session, "SELECT count(*) FROM inorder_lab.v7_rest") == 0
            later = "SELECT avg((at >= '2024-02-01')::int)::float8 FROM inorder_lab.v7"
            assert float(str(value(session, later))) == pytest.approx(27 / 58, abs=0.05)


@pytest.mark.server
def test_the_table_is_only_read(shop: str) -> None:
    with source(shop) as connection:
        assert value(connection, "SELECT current_setting('transaction_read_only')") == "on"
        assert value(connection, "SELECT current_setting('transaction_isolation')") == "repeatable read"
        LikeExperiment.completed(replace(PLAN, table=ORDERS, source=shop), False)
        modes = "SELECT string_agg(DISTINCT mode, ',') FROM pg_locks WHERE locktype = 'relation'"
        assert value(connection, modes) == "AccessShareLock"


@pytest.mark.server
@pytest.mark.parametrize(
    ("table", "changes", "words"),
    [
        ("shop.nothing", {}, 'there is no table shop.nothing in the database "postgres"'),
        ("shop.view", {}, "is a view, not a table"),
        ("shop.empty", {}, "has no rows"),
        (NAMED, {}, "has no rows"),
        ("shop.named", {}, "the column a.* is of the type shop.keyless.*--leave-out a"),
        ("shop.keyless", {}, "the table has no primary key"),
        ("shop.two", {}, r"the primary key of the table is \(a, b\)"),
        ("shop.two", {"key": "b"}, "no index that begins with it"),
        ("shop.small", {}, "id is integer, for which the lab does not have two kinds"),
        (ORDERS, {"kinds": ("v7", "bigint")}, "id is uuid, for which the lab has xact, v7"),
        ("shop.odd", {}, "the column at is of the type shop.keyless.*--leave-out at"),
        (ORDERS, {"leave_out": ("nothing",)}, "no column nothing"),
        (ORDERS, {"update": ("twice",)}, "no column twice that can be changed"),
    ],
)
def test_each_refusal_is_one_sentence(shop: str, table: str, changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words) as raised:
        plan_of(shop, table, replace(PLAN, **changes))  # type: ignore[arg-type]
    assert str(raised.value).isprintable()


@pytest.mark.server
def test_a_table_that_the_role_may_not_read_is_refused(shop: str) -> None:
    with pytest.raises(InputError, match=r'the role "shop_reader" has no SELECT privilege on shop\.texts'):
        plan_of(f"{shop} user=shop_reader", "shop.texts")
    with pytest.raises(InputError, match=r"privilege on shop.*HINT: b") as raised:
        plan_of(f"{shop} user=shop_reader", NAMED)
    assert str(raised.value).isprintable()
    plan = plan_of(shop, "shop.odd", replace(PLAN, leave_out=("at",)))
    assert plan.found and [column.name for column in plan.found.shape.columns] == ["id"]


@pytest.mark.server
def test_no_code_of_the_owner_runs(shop: str) -> None:
    with connect(shop) as owner:
        owner.execute(
            """CREATE TABLE shop.traps (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int CHECK (n > 0));
               INSERT INTO shop.traps (n) VALUES (1); GRANT SELECT ON shop.traps TO shop_reader;
               ALTER TABLE shop.traps ADD CHECK (lo_export(1, '/nowhere') > n) NOT VALID, ADD CHECK (n::text <> '')"""
        )
        facts = plan_of(shop, "shop.traps").found
        assert facts and facts.notes == ("Left out: the constraint traps_n_check1.",)
        assert [check.definition for check in facts.shape.checks] == [
            "CHECK ((n > 0))", "CHECK (((n)::text <> ''::text))"
        ]  # fmt: skip
        owner.execute(
            """CREATE FUNCTION shop.trap(n int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''sprung''; END';
               ALTER TABLE shop.traps ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON shop.traps USING (shop.trap(n))"""
        )
    with pytest.raises(InputError, match=r'row security hides rows of shop\.traps from "shop_reader"'):
        plan_of(f"{shop} user=shop_reader", "shop.traps")


OTHERS = """
CREATE ROLE shop_other;
CREATE SCHEMA other AUTHORIZATION shop_other;
SET ROLE shop_other;
CREATE FUNCTION other.trap() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF current_user <> 'shop_other' THEN RAISE 'sprung as %', current_user; END IF;
    RETURN 1;
END $$;
"""
COLUMNS = "(id uuid, n int, PRIMARY KEY (id, n))"
# For each table, the table on which its owner creates an index. The planner evaluates the index expression even for a
# query that only counts rows.
TRAPPED = {
    "public.plain": (
        f"CREATE TABLE public.plain {COLUMNS}; ALTER TABLE public.plain OWNER TO shop_other",
        "public.plain",
    ),
    "public.divided": (
        f"CREATE TABLE public.divided {COLUMNS} PARTITION BY RANGE (n); "
        "CREATE TABLE other.leaf PARTITION OF public.divided DEFAULT; ALTER TABLE other.leaf OWNER TO shop_other",
        "other.leaf",
    ),
    "public.parent": (
        f"CREATE TABLE public.parent {COLUMNS}; CREATE TABLE other.child () INHERITS (public.parent); "
        "ALTER TABLE other.child OWNER TO shop_other",
        "other.child",
    ),
}


@pytest.mark.server
def test_the_planner_runs_no_code_of_an_owner(shop: str) -> None:
    with connect(shop) as session:
        session.execute(OTHERS.encode())
        try:
            session.execute("RESET ROLE; GRANT CREATE ON SCHEMA public TO shop_other")
            for table, (definition, trapped) in TRAPPED.items():
                session.execute(f"{definition}; INSERT INTO {table} SELECT gen_random_uuid(), 1".encode())
                trap = f"CREATE INDEX ON {trapped} (n) WHERE other.trap() = 1"
                session.execute(f"SET ROLE shop_other; {trap}; RESET ROLE".encode())
                with pytest.raises(psycopg.errors.RaiseException, match="sprung as postgres"):
                    session.execute(f"SELECT count(*) FROM {table}".encode())
                with pytest.raises(InputError, match=f"{table}, its schema or one of its partitions belongs to shop_"):
                    plan_of(shop, table, replace(PLAN, key="id"))
                with source(shop) as reader, pytest.raises(InputError, match="belongs to shop_other"):
                    draw_of(reader, table).drawn(reader)  # the call that later draws the sample
        finally:
            session.execute(
                "RESET ROLE; DROP SCHEMA other CASCADE; DROP TABLE IF EXISTS plain, divided, parent CASCADE"
            )
            session.execute("REVOKE CREATE ON SCHEMA public FROM shop_other; DROP ROLE shop_other")


@pytest.mark.server
def test_another_role_cannot_replace_the_table_by_a_rename(shop: str) -> None:
    """The schema belongs to another role.

    That role could rename the schema between the check and the read, so that the name resolves to a different table.
    """
    with connect(shop) as session:
        session.execute(OTHERS.encode())
        try:
            session.execute(f"RESET ROLE; CREATE TABLE other.mine {COLUMNS}".encode())
            with pytest.raises(InputError, match="belongs to shop_other, who could make readers run code"):
                plan_of(shop, "other.mine", replace(PLAN, key="id"))
        finally:
            session.execute("RESET ROLE; DROP SCHEMA other CASCADE; DROP ROLE shop_other")


@pytest.mark.server
def test_the_query_of_the_sample_does_not_evaluate_check_constraints(shop: str) -> None:
    """The query has a condition, for which the planner would evaluate CHECK constraints of partitions."""
    with connect(shop) as session, source(shop) as reader:
        session.execute(
            """CREATE FUNCTION shop.trap() RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
               CREATE TABLE shop.checked (id uuid, n int, PRIMARY KEY (id, n)) PARTITION BY RANGE (n);
               CREATE TABLE shop.checked_1 PARTITION OF shop.checked DEFAULT;
               ALTER TABLE shop.checked_1 ADD CHECK (n > shop.trap());
               CREATE OR REPLACE FUNCTION shop.trap() RETURNS int IMMUTABLE LANGUAGE plpgsql AS
               'BEGIN RAISE ''sprung''; END'"""
        )
        draw = "SELECT count(*) FROM shop.checked TABLESAMPLE SYSTEM (100) WHERE random() < 2"
        with pytest.raises(psycopg.errors.RaiseException, match="sprung"):
            session.execute(draw.encode())
        assert draw_of(reader, "shop.checked").drawn(reader) == 0 == value(reader, draw)
        with connect(shop) as owner:
            owner.execute("ALTER TABLE shop.texts RENAME TO texts_before; CREATE VIEW shop.texts AS SELECT shop.trap()")
        try:
            with pytest.raises(psycopg.Error, match="access to non-system view"):
                value(reader, "SELECT count(*) FROM shop.texts")
        finally:
            session.execute("DROP VIEW shop.texts; ALTER TABLE shop.texts_before RENAME TO texts")


SECOND = {  # function of a server -> its false answer, which ends the surrounding statement and begins another
    "pg_get_constraintdef(oid)": "'CHECK (true)); ' || {second}",
    "pg_get_indexdef(oid)": "pg_catalog.honest($1) || '; ' || {second}",
    "pg_get_expr(pg_node_tree, oid)": "'1) STORED); ' || {second}",
    "pg_get_partkeydef(oid)": "'HASH (id); ' || {second}",
    "format_type(oid, int4)": "CASE $1 WHEN 21 THEN 'int); ' || {second} ELSE pg_catalog.honest($1, $2) END",
}
ALONE = {  # false answers that attack within the same statement
    "pg_get_constraintdef(oid)": "$$CHECK (pg_read_file('PG_VERSION') <> '')$$",
    "format_type(oid, int4)": "CASE $1 WHEN 21 THEN $$int DEFAULT lo_import('/')$$ ELSE pg_catalog.honest($1, $2) END",
}


@contextmanager
def a_lie(dsn: str, function: str, text: str) -> Iterator[None]:
    name = function.partition("(")[0]
    with connect(dsn) as liar:
        liar.execute(f"ALTER FUNCTION pg_catalog.{function} RENAME TO honest".encode())
        liar.execute(
            f"CREATE FUNCTION pg_catalog.{function} RETURNS text LANGUAGE sql AS $_$ SELECT {text} $_$".encode()
        )
        yield
        liar.execute(f"DROP FUNCTION pg_catalog.{function}".encode())
        liar.execute(f"ALTER FUNCTION pg_catalog.honest RENAME TO {name}".encode())


@pytest.mark.server
def test_answers_of_a_server_run_nothing_on_the_other_server(
    cluster: Cluster, without_lab: Connection, monkeypatch: pytest.MonkeyPatch, shared_folder: Path
) -> None:
    make_schema = "CREATE SCHEMA IF NOT EXISTS inorder_lab"  # the schema without the extension
    monkeypatch.setattr(ThrowAway, "create_schema", lambda _target, session: session.execute(make_schema))
    shared_folder.chmod(0o777)
    file, here, liar_dsn = shared_folder / "came", ThrowAway(cluster, LikeExperiment.role), f"{cluster.dsn} dbname=liar"
    second = f"COPY (SELECT 1) TO PROGRAM 'cat > {file}'"  # cat reads its input, because COPY could otherwise fail
    with connect(cluster.dsn) as session:
        session.execute(second.encode())
        assert file.exists()
        file.unlink()
        session.execute("CREATE DATABASE liar TEMPLATE template0")
        try:
            with connect(liar_dsn) as liar:
                liar.execute(LIAR.encode())
            for function, text in [*SECOND.items(), *ALONE.items()]:
                message = text.format(second=f"$${second}; --$$")
                with a_lie(liar_dsn, function, message), here.connect() as target, pytest.raises(ANY) as raised:
                    plan = plan_of(liar_dsn, "lies", replace(PLAN, key="id"))
                    LikeTables(here, plan).create(target, 1)
                    target.execute("INSERT INTO inorder_lab.v7 (n) VALUES (1)")
                words = "multiple commands" if text in SECOND.values() else "permission denied for function"
                assert words in str(raised.value), (function, str(raised.value))
                assert not file.exists(), function
        finally:
            role = LikeExperiment.role
            session.execute("DROP DATABASE liar WITH (FORCE)")
            session.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


ANY = (psycopg.Error, InputError)
LIAR = """
CREATE TABLE lies (id uuid, n int, m smallint CHECK (m > 0), g int GENERATED ALWAYS AS (n) STORED, PRIMARY KEY (id, n))
    PARTITION BY HASH (id);
CREATE TABLE lies_1 PARTITION OF lies FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO lies VALUES (gen_random_uuid(), 1);
"""


@pytest.mark.server
def test_a_superuser_measures_no_like_table_on_the_users_own_server(shop: str, users: Cluster) -> None:
    """A superuser would execute definitions copied from the server that has the table."""
    with (
        OwnServer(users.dsn, None) as own_server,
        pytest.raises(InputError, match='--dsn: role "postgres" may read files'),
    ):
        LikeExperiment.adapt(PLAN, own_server.capabilities)


@pytest.mark.server
def test_figures_of_a_run_add_up_and_agree_with_the_model(
    shop: str, tmp_path: Path, server: Installation, shared_folder: Path
) -> None:
    words = ("--like", ORDERS, "--source", shop, "--rows", "20k", "--transactions", "2k", "--rounds", "2", "--mix",
             "insert=3,update=1", "--clients", "2", "--memory", "32MB")  # fmt: skip
    done = inorder("lab", "run", "insert", *words, folder=tmp_path, server=server, temporary=shared_folder)
    assert done.returncode == 0, done.stderr
    assert list(shared_folder.iterdir()) == []
    result = load(file := tmp_path / "inorder-like.jsonl")
    assert shop.split(maxsplit=1)[0] not in file.read_text() and result.complete
    for run in result.select("insert"):
        parts = sum(value for name, value in run.metrics.items() if name.startswith("wal_bytes "))
        assert parts == pytest.approx(run.metrics["wal_bytes"], rel=0.02)
        assert run.metrics["inserted"] + run.metrics["updated"] == run.metrics["inserts"] == 2000
        assert run.metrics["hot"] <= run.metrics["updated"] and run.metrics["updated"] > 300
    shown = {
        record["label"]: record for record in json.loads(reported(tmp_path, file)) if record["table"] == "like_model"
    }
    assert shown["random"]["wal"] == pytest.approx(shown["random"]["wal_model"], rel=0.3)
    assert r"a\x1b[2J\nHINT: b" in done.stdout and "\x1b[2J" not in done.stdout + done.stderr
    assert "What would ordered keys save here?" in done.stdout and "20,000 rows like shop" in done.stdout
    facts = result.plan["found"]
    other = {**result.plan, "found": {**facts, "shape": {**facts["shape"], "key": "other"}}}
    save(replace(result, plan=other, runs=[], complete=False), file)
    refused = inorder("lab", "resume", file.name, "--source", shop, folder=tmp_path, server=server)
    assert refused.returncode == 2 and "has changed since the run began" in refused.stderr


def reported(folder: Path, file: Path) -> str:
    return inorder("lab", "report", file.name, "--format", "json", folder=folder).stdout


@pytest.mark.server
def test_a_run_is_resumed(shop: str, lab_run: LabRun, tmp_path: Path, server: Installation) -> None:
    sizes = "--rows 2k --transactions 200 --rounds 2 --clients 2 --memory 32MB"
    result, _ = lab_run(f"like --table shop.texts --source postgresql:///?{'&'.join(shop.split())} {sizes}")
    partial = tmp_path / "part.jsonl"
    save(replace(result, runs=[run for run in result.runs if run.round == 1], complete=False), partial)
    resumed = inorder("lab", "resume", partial.name, "--source", shop, folder=tmp_path, server=server)
    assert resumed.returncode == 0, resumed.stderr
    assert load(partial).complete and len(load(partial).runs) == len(result.runs)


@pytest.mark.server
def test_nothing_is_left_on_the_users_own_server(
    shop: str, tmp_path: Path, users: Cluster, server: Installation
) -> None:
    with connect(users.dsn) as session:
        session.execute("CREATE ROLE measures LOGIN; GRANT CREATE ON DATABASE postgres TO measures;"
                        "GRANT USAGE ON SCHEMA elsewhere TO measures")  # fmt: skip
    options = ("--table", "shop.texts", "--source", shop, "--rows", "2k", "--transactions", "200", "--clients", "2")
    result, notes = run_there(
        tmp_path, server, f"{users.dsn} user=measures", "like", *options, "--mix", "insert=2,update=1,read=1"
    )
    assert traces(users.dsn) == [] and "the contents of the WAL" in notes
    for run in result.select("insert"):
        assert (
            run.metrics["inserted"] + run.metrics["updated"] < run.metrics["inserts"] and run.metrics["wal_bytes"] > 0
        )
        assert not any(name.startswith("wal_bytes ") for name in run.metrics)
    assert [section.name for section in LikeExperiment.sections(result)] == ["like"]


# --- without a server ---------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "type_name", "expected"),
    [
        ("random", "bigint", "bigint DEFAULT ('x' ||"),
        ("random", "text", "text DEFAULT (gen_random_uuid())::text"),
        ("xact", "character(32)", "character(32) DEFAULT replace((uuid_xact_nextval())::text"),
        ("random", "character varying(20)", ""),
        ("v7", "jsonb", ""),
    ],
)
def test_a_key_fits_its_column(kind: str, type_name: str, expected: str) -> None:
    column = key_column(kind, ShapeColumn("id", type_name))
    assert column.startswith(expected) and bool(column) == bool(expected)


def test_a_longer_text_is_padded() -> None:
    assert key_column("v7", ShapeColumn("id", "text"), 42.0).endswith("::text, 42, 'x')")


@pytest.mark.server
def test_varied_values_are_distinct(cluster: Cluster) -> None:
    with connect(cluster.dsn) as connection:
        for name, sample in (
            ("text", "'a'"), ("character varying(10)", "'abcdefghij'"), ("integer", "1"), ("bigint", "1"),
            ("uuid", "gen_random_uuid()"), ("timestamp with time zone", "now()"),
        ):  # fmt: skip
            new = varied(ShapeColumn("v", name), Spread(low=0, high=1e9, unique=True), "s.v", "i")
            query = f"SELECT count(DISTINCT ({new})::{name}) FROM generate_series(1, 20000) AS i, "
            assert value(connection, f"{query} (SELECT {sample}::{name} AS v) AS s") == 20000, name


def test_a_wal_record_counts_for_the_relation_of_its_first_block(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "rmgr: Btree       len (rec/tot):     72/   272, tx: 1, lsn: 0/1, prev 0/1, desc: INSERT_LEAF off: 1, "
        "blkref #0: rel 1663/5/9 blk 7 FPW",
        "rmgr: Btree       len (rec/tot):    100/   100, tx: 1, lsn: 0/1, prev 0/1, desc: SPLIT_R level: 0, "
        "blkref #0: rel 1663/5/9 blk 7, blkref #1: rel 1663/5/9 blk 8",
        "rmgr: Transaction len (rec/tot):     34/    34, tx: 1, lsn: 0/1, prev 0/1, desc: COMMIT 2026",
    ]
    monkeypatch.setattr(waldump, "lines_of", lambda _span: iter(lines))
    relations = waldump.by_relation(cast(waldump.Span, SimpleNamespace()))
    assert relations["1663/5/9"] == {"bytes": 372, "image_bytes": 200, "images": 1, "splits": 1, "blocks": 2}
    assert relations[""]["bytes"] == 34


def made_up(ratio: float) -> Result:
    plan = LikePlan(table="orders", mix="insert=1,update=1")
    result = empty_result(LikeExperiment, plan)
    for (kind, times), number in product((("v7", 1.0), ("random", ratio)), range(1, 7)):
        wal = {
            "wal_bytes": 1000.0 * times,
            f"wal_bytes {key_index(kind)}": 1000 * times - 800,
            "wal_bytes table": 800.0,
        }
        metrics = {"tps": 100.0, "inserts": 10.0, "inserted": 5.0, "updated": 5.0, "hot": 1.0, "full_page_images": 1.0}
        result.runs.append(Run("insert", kind, plan.rows, number, metrics | wal))
    return result


def test_the_advice_follows_from_the_ratio() -> None:
    (little,), (much,) = (LikeExperiment.verdicts(made_up(ratio)) for ratio in (1.1, 3.0))
    assert little.answer == "9 % of the WAL" and "Leave the key as it is" in little.figures
    assert "its index causes 27 % of the WAL" in little.figures
    assert much.answer == "67 % of the WAL" and "Generate the keys of new rows in order." in much.figures
    assert much.holds.startswith(
        "Each copy of orders has 1,000,000 rows and 1 indexes. The load is 50 % inserts and 50 % updates of any rows, "
        "with 5 inserted rows"
    )
    assert LikeExperiment.verdicts(empty_result(LikeExperiment, LikePlan(table="orders"))) == []


def test_a_table_without_columns_has_no_list_of_columns() -> None:
    assert "() " not in LikeKind("v7", "version 7", "uuid").insert("1", "FROM x")
