"""Changes that mallory makes to his own tables between calls: rows, columns, partitions and triggers."""

import random

from load.fuzz.tables import Table
from load.fuzz.values import Relation, Values, quote

GUARDS = ("zz_inorder_guard", "zz_inorder_update", "zz_inorder_truncate")
ROWS = (
    "INSERT INTO {t} DEFAULT VALUES", "INSERT INTO {t} (n) VALUES (1), (2), (9)", "INSERT INTO {t} ({c}) VALUES ({v})",
    "INSERT INTO {t} (n) VALUES (3) ON CONFLICT DO NOTHING", "INSERT INTO {t} (n) VALUES (4) RETURNING *",
    "UPDATE {t} SET n = n + 1", "UPDATE {t} SET {c} = {v}", "UPDATE {t} SET {c} = {c}", "UPDATE {t} SET n = NULL",
    "DELETE FROM {t}", "DELETE FROM {t} WHERE n = 2", "TRUNCATE {t}", "TRUNCATE {t} CASCADE",
    "MERGE INTO {t} AS t USING (SELECT 1 AS x) AS s ON t.n = s.x WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN "
    "INSERT (n) VALUES (5)",
    "MERGE INTO {t} AS t USING (SELECT 1 AS x) AS s ON t.n = s.x WHEN MATCHED THEN UPDATE SET n = 6",
    "INSERT INTO {t} (n) SELECT i FROM generate_series(1, 40) AS i",
    "WITH d AS (DELETE FROM {t} RETURNING n) INSERT INTO {t} (n) SELECT n FROM d",
)  # fmt: skip
TABLE = (
    "ALTER TABLE {t} DROP COLUMN {c}", "ALTER TABLE {t} DROP COLUMN n CASCADE", "ALTER TABLE {t} ADD COLUMN n int",
    "ALTER TABLE {t} ADD COLUMN {c} uuid",
    "ALTER TABLE {t} ADD COLUMN {c} bigint DEFAULT public.xact_id()", "ALTER TABLE {t} ALTER {c} TYPE text",
    "ALTER TABLE {t} ALTER {c} TYPE numeric USING 1",
    "ALTER TABLE {t} ALTER n TYPE bigint", "ALTER TABLE {t} RENAME COLUMN {c} TO other",
    "ALTER TABLE {t} RENAME COLUMN other TO {c}",
    "ALTER TABLE {t} RENAME COLUMN n TO m", "ALTER TABLE {t} RENAME COLUMN m TO n",
    "ALTER TABLE {t} ALTER {c} DROP DEFAULT", "ALTER TABLE {t} ALTER {c} DROP NOT NULL",
    "ALTER TABLE {t} ALTER {c} SET DEFAULT public.uuid_xact_nextval(5)",
    "ALTER TABLE {t} ALTER {c} SET DEFAULT public.xact_id(281474976710000)",
    "ALTER TABLE {t} ALTER {c} SET DEFAULT public.xact_id(0)",
    "ALTER TABLE {t} ALTER {c} SET DEFAULT public.uuid_xact_nextval(0)",
    "ALTER TABLE {t} RENAME TO renamed", "ALTER TABLE mallory.renamed RENAME TO plain",
    "ALTER TABLE {t} SET UNLOGGED", "ALTER TABLE {t} SET LOGGED",
    "ALTER TABLE {t} ENABLE ROW LEVEL SECURITY", "ALTER TABLE {t} FORCE ROW LEVEL SECURITY",
    "ALTER TABLE {t} DISABLE ROW LEVEL SECURITY",
    "CREATE POLICY p ON {t} USING (mallory.evil_true(1))", "ALTER TABLE {t} CLUSTER ON plain_pkey", "CLUSTER {t}",
    "VACUUM FULL {t}", "VACUUM {t}",
    "ANALYZE {t}", "ANALYZE {t}", "REINDEX TABLE {t}", "LOCK TABLE {t} IN ACCESS EXCLUSIVE MODE", "DROP TABLE {t}",
    "DROP TABLE {t} CASCADE",
    "CREATE INDEX ON {t} (mallory.evil(1::bigint), {c})", "CREATE INDEX ON {t} ({c})",
    "CREATE INDEX ON {t} USING brin ({c})", "CREATE INDEX CONCURRENTLY ON {t} ({c})",
    "DROP INDEX mallory.plain_pkey", "ALTER TABLE {t} DROP CONSTRAINT plain_pkey",
    "ALTER TABLE {t} ADD CHECK (mallory.evil_true(n))",
    "ALTER TABLE {t} ADD COLUMN g bigint GENERATED ALWAYS AS (public.xact_id_generated()) STORED",
    "ALTER TABLE {t} ADD COLUMN d mallory.number DEFAULT 1",
    "CREATE STATISTICS ON (mallory.evil(n)), {c} FROM {t}", "ALTER TABLE {t} ALTER {c} SET STATISTICS 1000",
    "ALTER TABLE {t} SET SCHEMA public",
    "CREATE TABLE mallory.gone AS TABLE {t}", "DROP TABLE mallory.gone",
    "CREATE VIEW mallory.gone AS SELECT * FROM {t}", "COMMENT ON TABLE {t} IS '''%s\\'",
    "GRANT SELECT ON {t} TO PUBLIC", "GRANT ALL ON {t} TO alice, reader", "REVOKE ALL ON {t} FROM mallory, PUBLIC",
    "GRANT ALL ON {t} TO mallory",
    "REVOKE USAGE ON SCHEMA mallory FROM PUBLIC", "GRANT USAGE ON SCHEMA mallory TO PUBLIC",
    "ALTER TABLE {t} OWNER TO alice", "ALTER TABLE {t} REPLICA IDENTITY FULL",
    "ALTER TABLE {t} INHERIT mallory.sink", "CREATE TABLE mallory.child2 () INHERITS ({t})",
    "ALTER TABLE {t} SET WITHOUT OIDS", "DROP OWNED BY mallory RESTRICT",
    "ALTER TYPE mallory.mood ADD VALUE 'angry' BEFORE 'sad'",
    "ALTER TYPE mallory.row_pair ADD ATTRIBUTE c int CASCADE", "DROP FUNCTION mallory.evil(bigint) CASCADE",
    "CREATE OR REPLACE VIEW mallory.over AS SELECT NULL::uuid AS id, 1 AS n, 2::bigint AS e",
    "ALTER SCHEMA mallory RENAME TO mallet", "ALTER SCHEMA mallet RENAME TO mallory",
)  # fmt: skip
PARTITIONS = (
    "ALTER TABLE mallory.parts DETACH PARTITION mallory.parts1",
    "ALTER TABLE mallory.parts ATTACH PARTITION mallory.parts1 FOR VALUES IN (1, 2, NULL)",
    "ALTER TABLE mallory.parts DETACH PARTITION mallory.parts1 CONCURRENTLY",
    "ALTER TABLE mallory.parts DETACH PARTITION mallory.parts1 FINALIZE",
    "ALTER TABLE mallory.parts DETACH PARTITION mallory.parts2",
    "ALTER TABLE mallory.parts ATTACH PARTITION mallory.parts2 DEFAULT",
    "ALTER TABLE mallory.deep DETACH PARTITION mallory.deep1",
    "ALTER TABLE mallory.deep ATTACH PARTITION mallory.deep1 FOR VALUES FROM (MINVALUE) TO (5)",
    "ALTER TABLE mallory.deep1 DETACH PARTITION mallory.deep1a",
    "ALTER TABLE mallory.deep1 ATTACH PARTITION mallory.deep1a FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE mallory.parts3 PARTITION OF mallory.parts FOR VALUES IN (9, 10)", "DROP TABLE mallory.parts1",
    "DROP TABLE mallory.deep1a", "TRUNCATE mallory.parts1",
    "CREATE UNLOGGED TABLE mallory.parts4 PARTITION OF mallory.parts FOR VALUES IN (11)",
    "CREATE TABLE mallory.parts5 PARTITION OF mallory.parts FOR VALUES IN (12) PARTITION BY LIST (n)",
    "CREATE FOREIGN TABLE mallory.parts6 PARTITION OF mallory.parts FOR VALUES IN (13) SERVER nowhere",
    "DELETE FROM mallory.parts1", "UPDATE mallory.parts SET n = 9",
    "UPDATE mallory.deep SET n = 7", "INSERT INTO mallory.parts1 (n) VALUES (1)",
    "INSERT INTO mallory.deep1a (n, k) SELECT 1, i FROM generate_series(1, 9) AS i",
    "SELECT * FROM public.feed_enable('mallory.parts1'::regclass)",
    "SELECT * FROM public.exact_count_start('mallory.deep1'::regclass)",
    "ALTER TABLE mallory.parts RENAME COLUMN n TO n",
    "CREATE TABLE mallory.empty1 PARTITION OF mallory.empty_parts DEFAULT",
    "ALTER TABLE mallory.evil_parts DETACH PARTITION mallory.evil_parts1",
)  # fmt: skip
STATE = (
    "ALTER TABLE {t} DISABLE TRIGGER ALL", "ALTER TABLE {t} DISABLE TRIGGER {g}",
    "ALTER TABLE {t} ENABLE TRIGGER {g}", "ALTER TABLE {t} ENABLE ALWAYS TRIGGER {g}",
    "ALTER TABLE {t} ENABLE REPLICA TRIGGER {g}", "DROP TRIGGER {g} ON {t}", "DROP TRIGGER made ON {t}",
    "ALTER TRIGGER {g} ON {t} RENAME TO made",
    "ALTER TRIGGER made ON {t} RENAME TO {g}", "ALTER TRIGGER {g} ON {t} DEPENDS ON EXTENSION plpgsql",
)  # fmt: skip
ARGUMENTS = (
    "", "'0'", "'0'", "'0'", "''", "'-1'", "'281474976710655'", "'281474976710656'", "'9223372036854775808'", "'x'",
    "0", "'0', '1'", "' 0'", "'0x10'", "'%s'", "E'\\\\'",
)  # fmt: skip
CONDITIONS = ("true", "false", "mallory.evil_true(1)", "OLD.n IS DISTINCT FROM NEW.n", "NEW.n > 0",
              "pg_catalog.pg_trigger_depth() = 0")  # fmt: skip
WHENS = ("", "", "", *(f" WHEN ({condition})" for condition in CONDITIONS))
VALUES = (
    "DEFAULT", "NULL", "1", "'00000000-0001-8000-8000-000000000000'", "public.xact_id()", "public.uuid_xact_nextval()",
    "-1", "281474976710655",
)  # fmt: skip
# Statements of a transaction that may stay open while other sessions work.
HOLDS = (
    "LOCK TABLE {t} IN ACCESS EXCLUSIVE MODE", "DROP TABLE {t} CASCADE", "TRUNCATE {t}",
    "ALTER TABLE {t} ADD COLUMN held int", "SELECT public.feed_create('held', {r})",
    "SELECT public.feed_drop({f})", "SELECT public.feed_disable({r})", "SELECT public.feed_enable({r})",
    "SELECT public.exact_count_fold({r})",
    "SELECT public.exact_count_stop({r})", "SELECT * FROM public.feed_read({f}, NULL::{t})",
    "SELECT * FROM public.feed_peek({f}, NULL::{t}) LIMIT 1",
    "SELECT public.feed_seek({f}, 'beginning'::text)", "INSERT INTO {t} (n) VALUES (1)",
    "SELECT (public.feed_take_batch({f}, 'w', 1)).number",
    "SELECT public.feed_rebase({r}, 1000000)", "ALTER TABLE {t} RENAME TO held",
    "SELECT public.exact_count_start({r})",
    "SELECT public.feed_create('held', 'alice.numbers')",
    "SELECT pg_catalog.pg_advisory_lock(oid::bigint) FROM pg_class WHERE relname LIKE 'feed%'",
    "SELECT public.feed_grant({f}, 'alice'::regrole)",
    "SELECT public.exact_count('alice.numbers')", "LOCK TABLE alice.numbers IN ACCESS SHARE MODE",
    "SELECT * FROM alice.numbers", "ANALYZE {t}", "DROP SCHEMA mallory CASCADE",
)  # fmt: skip


def hold(rng: random.Random, values: Values) -> list[str]:
    """Return the statements of a transaction that stays open or is prepared."""
    table = values.own(rng)
    held = [named(rng, text, table) for text in rng.sample(HOLDS, rng.randint(1, 2))]
    statements = ["ROLLBACK", "BEGIN", "SAVEPOINT s", *held]
    if rng.random() < 0.1:
        statements.append("PREPARE TRANSACTION 'fuzz'")
    return statements


def named(rng: random.Random, text: str, table: Relation) -> str:
    words = {
        "{r}": f"{quote(table.name)}::regclass", "{f}": f"{quote(table.feed)}::text", "{t}": table.name,
        "{c}": table.column, "{v}": rng.choice(VALUES), "{g}": rng.choice(GUARDS),
    }  # fmt: skip
    for word, meant in words.items():
        text = text.replace(word, meant)
    return text


def trigger(rng: random.Random, table: Relation) -> str:
    """Return the definition of a random trigger, which usually calls feed_guard()."""
    events = rng.sample(("INSERT", "DELETE", "TRUNCATE", "UPDATE"), rng.randint(1, 3))
    columns = rng.sample(("n", table.column, "k", "more", "ctid", "e"), rng.randint(1, 2))
    if "UPDATE" in events and rng.random() < 0.6:
        events[events.index("UPDATE")] = f"UPDATE OF {', '.join(columns)}"
    constraint = rng.random() < 0.2
    when = "AFTER" if constraint else rng.choice(("BEFORE", "AFTER", "INSTEAD OF", "BEFORE"))
    name = rng.choice((*GUARDS, "made", '"%s\\"'))
    referencing = rng.choice(("", "", "", " REFERENCING OLD TABLE AS o", " REFERENCING NEW TABLE AS w"))
    deferred = rng.choice((" DEFERRABLE INITIALLY DEFERRED", " DEFERRABLE", "")) if constraint else ""
    level = "ROW" if constraint else rng.choice(("ROW", "ROW", "STATEMENT"))
    function = rng.choice(("public.feed_guard",) * 6 + ("mallory.fire",))
    return (
        f"CREATE {'CONSTRAINT ' if constraint else rng.choice(('', '', 'OR REPLACE '))}TRIGGER {name} {when} "
        f"{' OR '.join(events)} ON {table.name}"
        f"{'' if constraint else referencing}{deferred} FOR EACH {level}{rng.choice(WHENS)} EXECUTE FUNCTION "
        f"{function}({rng.choice(ARGUMENTS)})"
    )


def change(rng: random.Random, values: Values) -> str:
    table = values.own(rng)
    (kind,) = rng.choices((ROWS, TABLE, PARTITIONS, STATE, None), (4, 2, 1, 1, 2))
    return named(rng, rng.choice(kind), table) if kind else trigger(rng, table)


def use(rng: random.Random, table: Table) -> list[str]:
    """Return statements that an honest owner would run: make a table readable, create a feed, and start a count."""
    name, feed = f"{quote(table.relation.name)}::regclass", quote(table.relation.feed)
    ways = [
        f"SELECT public.feed_enable({name})",
        f"SELECT public.feed_create({feed}, {name}, {quote(rng.choice(('beginning', 'now')))})",
        f"SELECT public.exact_count_start({name})",
    ]
    return [way for way in ways if rng.random() < 0.8]
