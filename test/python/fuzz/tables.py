"""Tables of mallory's: plain ones to read, and every odd one that can be thought of."""

import random
from dataclasses import dataclass

from fuzz.values import Relation

UUID = "id uuid PRIMARY KEY DEFAULT public.uuid_xact_nextval()"
NUMBER = "xact bigint NOT NULL DEFAULT public.xact_id()"
ODD = 'mallory."o""d d%s\\t"'
ODD_COLUMN = '"i d%I""\\"'


@dataclass(frozen=True)
class Table:
    relation: Relation
    make: tuple[str, ...]
    insert: str = "INSERT INTO {name} (n) SELECT i FROM generate_series(1, {rows}) AS i"

    def filled(self, rows: int) -> str:
        return self.insert.replace("{name}", self.relation.name).replace("{rows}", str(rows))


def relation(name: str, column: str = "id", is_uuid: bool = True) -> Relation:
    return Relation(name, f"mallory.{name}", column, is_uuid)


def simple(name: str, columns: str, *more: str, column: str = "id", insert: str = "") -> Table:
    made = (f"CREATE TABLE mallory.{name} ({columns})", *(text.replace("{t}", f"mallory.{name}") for text in more))
    table = relation(name, column, column == "id")
    return Table(table, made, insert) if insert else Table(table, made)


TABLES = (
    simple("plain", f"{UUID}, n int"),
    simple(
        "number",
        f"n int PRIMARY KEY, {NUMBER}",
        "CREATE INDEX ON {t} (xact)",
        column="xact",
        insert="INSERT INTO {name} (n) SELECT i + (random() * 1e9)::int FROM generate_series(1, {rows}) AS i",
    ),
    simple("brin", f"n int, t text DEFAULT '''%s\\', {NUMBER}", "CREATE INDEX ON {t} USING brin (xact)", column="xact"),
    simple(
        "brinkey",
        f"k bigserial, n int, {NUMBER}, PRIMARY KEY (n, k)",
        "CREATE INDEX ON {t} USING brin (xact)",
        column="xact",
    ),
    simple(
        "made",
        "k serial PRIMARY KEY, n int, xact bigint GENERATED ALWAYS AS (public.xact_id_generated()) STORED",
        "CREATE INDEX ON {t} (xact)",
        column="xact",
    ),
    simple("based", "id uuid PRIMARY KEY DEFAULT public.uuid_xact_nextval(281474976700000), n int"),
    simple(
        "small_base",
        "n int, xact bigint DEFAULT public.xact_id('7'::smallint), k serial PRIMARY KEY",
        "CREATE INDEX ON {t} (xact)",
        column="xact",
    ),
    simple(
        "dropped",
        f"a text, b int, {UUID}, c text, n int",
        "ALTER TABLE {t} DROP COLUMN a",
        "ALTER TABLE {t} DROP COLUMN c",
    ),
    simple("many", f"{UUID}, n int, " + ", ".join(f"c{i} bigint DEFAULT {i}" for i in range(60))),
    simple(
        "evil_index",
        f"{UUID}, n int",
        "CREATE INDEX ON {t} (mallory.evil(1::bigint))",
        "CREATE INDEX ON {t} (mallory.evil(n))",
        "CREATE INDEX ON {t} (id) WHERE mallory.evil_true(n)",
        "CREATE INDEX ON {t} (n) WHERE mallory.evil_true(7)",
    ),
    simple(
        "evil_check",
        f"{UUID}, n int CHECK (mallory.evil_true(n)), CHECK (mallory.evil_true(7)), CHECK (id IS NOT NULL OR "
        f"mallory.evil(id) = 1)",
    ),
    # The planner evaluates such a constraint of a partition, unless it is told not to.
    Table(
        relation("evil_parts"),
        (
            "CREATE TABLE mallory.evil_parts (id uuid DEFAULT public.uuid_xact_nextval(), n int) PARTITION BY LIST (n)",
            "CREATE TABLE mallory.evil_part PARTITION OF mallory.evil_parts (CHECK (mallory.evil_true(7))) DEFAULT",
            "CREATE INDEX ON mallory.evil_parts (id)",
        ),
    ),
    simple(
        "evil_made",
        f"{UUID}, n int, g bigint GENERATED ALWAYS AS (mallory.evil(n::bigint)) STORED",
        "CREATE INDEX ON {t} (g, mallory.evil(g))",
    ),
    simple(
        "evil_statistics",
        f"{UUID}, n int",
        "CREATE STATISTICS mallory.st ON (mallory.evil(n)), (mallory.evil(1::bigint) + n) FROM {t}",
    ),
    simple(
        "evil_default",
        "k bigserial, n int, xact bigint DEFAULT public.xact_id(mallory.evil(0::bigint))",
        "CREATE INDEX ON {t} (xact)",
        column="xact",
    ),
    simple(
        "evil_mood",
        f"k mallory.mood DEFAULT 'ok', n int, {NUMBER}, s serial, PRIMARY KEY (k, s)",
        "CREATE INDEX ON {t} (xact)",
        column="xact",
    ),
    simple(
        "evil_domain",
        "k mallory.number, n int, xact mallory.number DEFAULT public.xact_id(), s serial PRIMARY KEY",
        "CREATE INDEX ON {t} (xact)",
        column="xact",
    ),
    simple(
        "evil_key",
        f"k mallory.number DEFAULT 1, n int, {NUMBER}, s bigserial, PRIMARY KEY (k, s)",
        "CREATE INDEX ON {t} (xact, mallory.evil(k))",
        column="xact",
    ),
    simple("evil_rule", f"{UUID}, n int", "CREATE RULE r AS ON INSERT TO {t} DO ALSO SELECT mallory.evil(1::bigint)"),
    simple(
        "evil_policy",
        f"{UUID}, n int",
        "ALTER TABLE {t} ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON {t} USING (mallory.evil_true(n))",
    ),
    simple(
        "forced",
        f"{UUID}, n int",
        "ALTER TABLE {t} ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE {t} FORCE ROW LEVEL SECURITY",
    ),
    simple(
        "evil_trigger",
        f"{UUID}, n int",
        "CREATE TRIGGER a BEFORE INSERT OR UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION mallory.fire()",
    ),
    simple(
        "floats",
        f"a float8, b text, n numeric, {NUMBER}, PRIMARY KEY (a, n, b)",
        "CREATE INDEX ON {t} (xact)",
        column="xact",
        insert="INSERT INTO {name} (a, b, n) SELECT ('{NaN,-0,0,Infinity,1e-300}'::float8[])[1 + i % 5], "
        "repeat('''\\%s', i % 300), i + random() FROM generate_series(1, {rows}) AS i",
    ),
    simple(
        "intervals",
        f"a interval, b bytea, n timestamptz, d bit varying(9), {NUMBER}, k serial, PRIMARY KEY (a, n, b, d, k)",
        "CREATE INDEX ON {t} USING brin (xact)",
        column="xact",
        insert="INSERT INTO {name} (a, b, n, d) SELECT make_interval(months => i, secs => i / 7.0), "
        "decode(md5(i::text), 'hex'), "
        "('{infinity,-infinity,now,epoch,4713-01-01 BC}'::timestamptz[])[1 + i % 5], '101' FROM generate_series(1, "
        "{rows}) AS i",
    ),
    simple("parent", f"{UUID}, n int", "CREATE TABLE mallory.child (more int) INHERITS ({t})"),
    simple(
        "ranges",
        f"{UUID}, n int, r int8multirange DEFAULT '{{[1,3)}}', f public.feed_position, v public.uuid_v1 DEFAULT "
        f"public.uuid_v1_nextval()",
    ),
    simple("unlogged", f"{UUID}, n int", "ALTER TABLE {t} SET UNLOGGED"),
    simple("hidden", f"{UUID}, n int", "REVOKE SELECT ON {t} FROM mallory"),
    simple("no_index", "n int, xact bigint DEFAULT public.xact_id()", column="xact"),
    simple("two", f"{UUID}, n int, {NUMBER}", "CREATE INDEX ON {t} (xact)"),
    simple(
        "keys",
        "one public.uuid_v1 PRIMARY KEY DEFAULT public.uuid_v1_nextval(), seven uuid DEFAULT "
        "public.uuid_v7_nextval(), n int",
        "CREATE INDEX ON {t} USING hash (one)",
        "CREATE INDEX ON {t} USING brin (one)",
        "CREATE INDEX ON {t} USING brin (one public.uuid_v1_minmax_multi_ops)",
        "CREATE INDEX ON {t} (seven, one DESC)",
        "CREATE INDEX ON {t} USING brin (seven)",
    ),
    simple(
        "typed_row",
        "n int, id uuid DEFAULT public.uuid_xact_nextval(), s mallory.row_pair, a text[], PRIMARY KEY (id) INCLUDE (n)",
    ),
)
PARTED = (
    Table(
        relation("parts"),
        (
            "CREATE TABLE mallory.parts (id uuid DEFAULT public.uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) "
            "PARTITION BY LIST (n)",
            "CREATE TABLE mallory.parts1 PARTITION OF mallory.parts FOR VALUES IN (1, 2, NULL)",
            "CREATE TABLE mallory.parts2 (x text, n int NOT NULL, id uuid NOT NULL DEFAULT public.uuid_xact_nextval())",
            "ALTER TABLE mallory.parts2 DROP COLUMN x",
            "ALTER TABLE mallory.parts ATTACH PARTITION mallory.parts2 DEFAULT",
        ),
    ),
    Table(
        relation("deep", "xact", False),
        (
            f"CREATE TABLE mallory.deep (n int, {NUMBER}, k serial) PARTITION BY RANGE (n)",
            "CREATE INDEX ON mallory.deep (xact)",
            "CREATE TABLE mallory.deep1 PARTITION OF mallory.deep FOR VALUES FROM (MINVALUE) TO (5) PARTITION BY "
            "HASH (k)",
            "CREATE TABLE mallory.deep1a PARTITION OF mallory.deep1 FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
            "CREATE TABLE mallory.deep1b PARTITION OF mallory.deep1 FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
            "CREATE TABLE mallory.deep2 PARTITION OF mallory.deep FOR VALUES FROM (5) TO (MAXVALUE)",
        ),
    ),
    Table(
        relation("evil_parts", "xact", False),
        (
            f"CREATE TABLE mallory.evil_parts (n int, {NUMBER}) PARTITION BY RANGE (mallory.evil(n))",
            "CREATE INDEX ON mallory.evil_parts (xact)",
            "CREATE TABLE mallory.evil_parts1 PARTITION OF mallory.evil_parts FOR VALUES FROM (0) TO (5)",
            "CREATE TABLE mallory.evil_parts2 PARTITION OF mallory.evil_parts DEFAULT",
            "CREATE INDEX ON mallory.evil_parts1 (mallory.evil(1::bigint))",
        ),
    ),
    Table(
        relation("mood_parts", "xact", False),
        (
            f"CREATE TABLE mallory.mood_parts (k mallory.mood DEFAULT 'ok', n int, {NUMBER}) PARTITION BY LIST (k)",
            "CREATE INDEX ON mallory.mood_parts (xact)",
            "CREATE TABLE mallory.mood_parts1 PARTITION OF mallory.mood_parts FOR VALUES IN ('ok')",
            "CREATE TABLE mallory.mood_parts2 PARTITION OF mallory.mood_parts FOR VALUES IN ('sad', NULL)",
        ),
    ),
    Table(
        relation("empty_parts"),
        (
            "CREATE TABLE mallory.empty_parts (id uuid DEFAULT public.uuid_xact_nextval() PRIMARY KEY, n int) "
            "PARTITION BY RANGE (id)",
        ),
    ),
    Table(
        Relation("odd", ODD, ODD_COLUMN, True),
        (
            f'CREATE TABLE {ODD} ({ODD_COLUMN} uuid DEFAULT public.uuid_xact_nextval(), n int, "%L" int DEFAULT 3, '
            f'PRIMARY KEY ({ODD_COLUMN}, "%L"))',
        ),
    ),
    Table(
        Relation("odd number", 'mallory."SELECT"', '"from"', False),
        (
            'CREATE TABLE mallory."SELECT" ("from" bigint DEFAULT public.xact_id(), n int, "$1" text DEFAULT \'\\\', '
            '"e.*" serial, PRIMARY KEY ("$1", "e.*"))',
            'CREATE INDEX ON mallory."SELECT" USING brin ("from")',
        ),
    ),
    Table(
        Relation("view", "mallory.over"),
        (
            "CREATE TABLE mallory.under (id uuid PRIMARY KEY DEFAULT public.uuid_xact_nextval(), n int)",
            "CREATE VIEW mallory.over AS SELECT *, mallory.evil(1::bigint) AS e FROM mallory.under",
        ),
        "INSERT INTO mallory.under (n) SELECT i FROM generate_series(1, {rows}) AS i",
    ),
    Table(
        Relation("temporary", "pg_temp.fleeting"),
        ("CREATE TEMP TABLE fleeting (id uuid PRIMARY KEY DEFAULT public.uuid_xact_nextval(), n int)",),
    ),
    Table(
        Relation("foreign", "mallory.distant"),
        ("CREATE FOREIGN TABLE mallory.distant (id uuid DEFAULT public.uuid_xact_nextval(), n int) SERVER nowhere",),
    ),
    Table(
        Relation("self", "mallory.pointing"),
        (
            "CREATE TABLE mallory.pointing (id uuid PRIMARY KEY DEFAULT public.uuid_xact_nextval(), n int, up uuid "
            "REFERENCES mallory.pointing ON DELETE CASCADE ON UPDATE CASCADE)",
        ),
    ),
)
ALL = (*TABLES, *PARTED)
KEYS = next(table for table in ALL if table.relation.feed == "keys")

# Whatever else has an oid.
ODD_RELATIONS = (
    "0", "4294967295", "1", "16384", "'pg_catalog.pg_class'", "'pg_catalog.pg_proc'", "'pg_catalog.pg_database'",
    "'pg_catalog.pg_authid'",
    "'pg_catalog.pg_stat_activity'", "'pg_catalog.pg_class_oid_index'", "'pg_catalog.pg_settings'", "'public.feeds'",
    "'pg_toast.pg_toast_1255'",
    "'mallory.counter'", "'mallory.backward'", "'mallory.typed'", "'alice.events'", "'alice.numbers'",
    "'alice.parts'", "'alice.secret'",
    "'alice.secret_pkey'", "'alice.counter'", "'mallory.keys_pkey'", "'mallory.keys_one_idx'",
    "'mallory.keys_one_idx1'", "'mallory.plain_pkey'",
    "'mallory.parts1'", "'mallory.deep1'", "'mallory.deep1a'", "'mallory.child'", "'mallory.sink'", "'mallory.made'",
    "'mallory.over'",
    "'mallory.parts_pkey'", "'information_schema.tables'", "'mallory.row_pair'", "'mallory.gone'",
)  # fmt: skip


def choose(rng: random.Random) -> list[Table]:
    return [KEYS, *rng.sample([table for table in ALL if table is not KEYS], 6)]
