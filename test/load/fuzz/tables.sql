-- plain
CREATE TABLE {t} ({uuid}, n int);
-- number | xact
CREATE TABLE {t} (n int PRIMARY KEY, {number});
CREATE INDEX ON {t} (xact);
INSERT INTO {t} (n) SELECT i + (random() * 1e9)::int FROM generate_series(1, {rows}) AS i;
-- partial | xact
CREATE TABLE {t} (n int, t text DEFAULT '''%s\', {number});
CREATE INDEX ON {t} (xact) WHERE xact > 0;
-- partialkey | xact
CREATE TABLE {t} (k bigserial, n int, {number}, PRIMARY KEY (n, k));
CREATE INDEX ON {t} (xact) WHERE xact > 0;
-- made | xact
CREATE TABLE {t} (k serial PRIMARY KEY, n int, xact bigint GENERATED ALWAYS AS (public.xact_id_generated()) STORED);
CREATE INDEX ON {t} (xact);
-- based
CREATE TABLE {t} (id uuid PRIMARY KEY DEFAULT public.uuid_xact_nextval(281474976700000), n int);
-- small_base | xact
CREATE TABLE {t} (n int, xact bigint DEFAULT public.xact_id('7'::smallint), k serial PRIMARY KEY);
CREATE INDEX ON {t} (xact);
-- dropped
CREATE TABLE {t} (a text, b int, {uuid}, c text, n int);
ALTER TABLE {t} DROP COLUMN a;
ALTER TABLE {t} DROP COLUMN c;
-- many
CREATE TABLE {t} ({uuid}, n int, {many});
-- evil_index
CREATE TABLE {t} ({uuid}, n int);
CREATE INDEX ON {t} (mallory.evil(1::bigint));
CREATE INDEX ON {t} (mallory.evil(n));
CREATE INDEX ON {t} (id) WHERE mallory.evil_true(n);
CREATE INDEX ON {t} (n) WHERE mallory.evil_true(7);
-- evil_check
CREATE TABLE {t} ({uuid}, n int CHECK (mallory.evil_true(n)), CHECK (mallory.evil_true(7)),
    CHECK (id IS NOT NULL OR mallory.evil(id) = 1));
-- evil_parts
CREATE TABLE {t} (id uuid DEFAULT public.uuid_xact_nextval(), n int) PARTITION BY LIST (n);
CREATE TABLE mallory.evil_part PARTITION OF {t} (CHECK (mallory.evil_true(7))) DEFAULT;
CREATE INDEX ON {t} (id);
-- evil_made
CREATE TABLE {t} ({uuid}, n int, g bigint GENERATED ALWAYS AS (mallory.evil(n::bigint)) STORED);
CREATE INDEX ON {t} (g, mallory.evil(g));
-- evil_statistics
CREATE TABLE {t} ({uuid}, n int);
CREATE STATISTICS mallory.st ON (mallory.evil(n)), (mallory.evil(1::bigint) + n) FROM {t};
-- evil_default | xact
CREATE TABLE {t} (k bigserial, n int, xact bigint DEFAULT public.xact_id(mallory.evil(0::bigint)));
CREATE INDEX ON {t} (xact);
-- evil_mood | xact
CREATE TABLE {t} (k mallory.mood DEFAULT 'ok', n int, {number}, s serial, PRIMARY KEY (k, s));
CREATE INDEX ON {t} (xact);
-- evil_domain | xact
CREATE TABLE {t} (k mallory.number, n int, xact mallory.number DEFAULT public.xact_id(), s serial PRIMARY KEY);
CREATE INDEX ON {t} (xact);
-- evil_key | xact
CREATE TABLE {t} (k mallory.number DEFAULT 1, n int, {number}, s bigserial, PRIMARY KEY (k, s));
CREATE INDEX ON {t} (xact, mallory.evil(k));
-- evil_rule
CREATE TABLE {t} ({uuid}, n int);
CREATE RULE r AS ON INSERT TO {t} DO ALSO SELECT mallory.evil(1::bigint);
-- evil_policy
CREATE TABLE {t} ({uuid}, n int);
ALTER TABLE {t} ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON {t} USING (mallory.evil_true(n));
-- forced
CREATE TABLE {t} ({uuid}, n int);
ALTER TABLE {t} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {t} FORCE ROW LEVEL SECURITY;
-- evil_trigger
CREATE TABLE {t} ({uuid}, n int);
CREATE TRIGGER a BEFORE INSERT OR UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION mallory.fire();
-- floats | xact
CREATE TABLE {t} (a float8, b text, n numeric, {number}, PRIMARY KEY (a, n, b));
CREATE INDEX ON {t} (xact);
INSERT INTO {t} (a, b, n) SELECT ('{NaN,-0,0,Infinity,1e-300}'::float8[])[1 + i % 5], repeat('''\%s', i % 300),
    i + random() FROM generate_series(1, {rows}) AS i;
-- intervals | xact
CREATE TABLE {t} (a interval, b bytea, n timestamptz, d bit varying(9), {number}, k serial,
    PRIMARY KEY (a, n, b, d, k));
CREATE INDEX ON {t} (xact) WHERE xact > 0;
INSERT INTO {t} (a, b, n, d) SELECT make_interval(months => i, secs => i / 7.0), decode(md5(i::text), 'hex'),
    ('{infinity,-infinity,now,epoch,4713-01-01 BC}'::timestamptz[])[1 + i % 5], '101'
    FROM generate_series(1, {rows}) AS i;
-- parent
CREATE TABLE {t} ({uuid}, n int);
CREATE TABLE mallory.child (more int) INHERITS ({t});
-- ranges
CREATE TABLE {t} ({uuid}, n int, r int8multirange DEFAULT '{[1,3)}', f public.feed_position,
    v public.uuid_v1 DEFAULT public.uuid_v1_nextval());
-- unlogged
CREATE TABLE {t} ({uuid}, n int);
ALTER TABLE {t} SET UNLOGGED;
-- hidden
CREATE TABLE {t} ({uuid}, n int);
REVOKE SELECT ON {t} FROM mallory;
-- no_index | xact
CREATE TABLE {t} (n int, xact bigint DEFAULT public.xact_id());
-- two
CREATE TABLE {t} ({uuid}, n int, {number});
CREATE INDEX ON {t} (xact);
-- keys
CREATE TABLE {t} (one public.uuid_v1 PRIMARY KEY DEFAULT public.uuid_v1_nextval(),
    seven uuid DEFAULT public.uuid_v7_nextval(), n int);
CREATE INDEX ON {t} USING hash (one);
CREATE INDEX ON {t} USING brin (one);
CREATE INDEX ON {t} USING brin (one public.uuid_v1_minmax_multi_ops);
CREATE INDEX ON {t} (seven, one DESC);
CREATE INDEX ON {t} USING brin (seven);
-- typed_row
CREATE TABLE {t} (n int, id uuid DEFAULT public.uuid_xact_nextval(), s mallory.row_pair, a text[],
    PRIMARY KEY (id) INCLUDE (n));
-- parts
CREATE TABLE {t} (id uuid DEFAULT public.uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n);
CREATE TABLE mallory.parts1 PARTITION OF {t} FOR VALUES IN (1, 2, NULL);
CREATE TABLE mallory.parts2 (x text, n int NOT NULL, id uuid NOT NULL DEFAULT public.uuid_xact_nextval());
ALTER TABLE mallory.parts2 DROP COLUMN x;
ALTER TABLE {t} ATTACH PARTITION mallory.parts2 DEFAULT;
-- deep | xact
CREATE TABLE {t} (n int, {number}, k serial) PARTITION BY RANGE (n);
CREATE INDEX ON {t} (xact);
CREATE TABLE mallory.deep1 PARTITION OF {t} FOR VALUES FROM (MINVALUE) TO (5) PARTITION BY HASH (k);
CREATE TABLE mallory.deep1a PARTITION OF mallory.deep1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE mallory.deep1b PARTITION OF mallory.deep1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE mallory.deep2 PARTITION OF {t} FOR VALUES FROM (5) TO (MAXVALUE);
-- evil_parts | xact
CREATE TABLE {t} (n int, {number}) PARTITION BY RANGE (mallory.evil(n));
CREATE INDEX ON {t} (xact);
CREATE TABLE mallory.evil_parts1 PARTITION OF {t} FOR VALUES FROM (0) TO (5);
CREATE TABLE mallory.evil_parts2 PARTITION OF {t} DEFAULT;
CREATE INDEX ON mallory.evil_parts1 (mallory.evil(1::bigint));
-- mood_parts | xact
CREATE TABLE {t} (k mallory.mood DEFAULT 'ok', n int, {number}) PARTITION BY LIST (k);
CREATE INDEX ON {t} (xact);
CREATE TABLE mallory.mood_parts1 PARTITION OF {t} FOR VALUES IN ('ok');
CREATE TABLE mallory.mood_parts2 PARTITION OF {t} FOR VALUES IN ('sad', NULL);
-- empty_parts
CREATE TABLE {t} (id uuid DEFAULT public.uuid_xact_nextval() PRIMARY KEY, n int) PARTITION BY RANGE (id);
-- odd | "i d%I""\" | mallory."o""d d%s\t"
CREATE TABLE {t} ("i d%I""\" uuid DEFAULT public.uuid_xact_nextval(), n int, "%L" int DEFAULT 3,
    PRIMARY KEY ("i d%I""\", "%L"));
-- odd number | "from" | mallory."SELECT"
CREATE TABLE {t} ("from" bigint DEFAULT public.xact_id(), n int, "$1" text DEFAULT '\', "e.*" serial,
    PRIMARY KEY ("$1", "e.*"));
CREATE INDEX ON {t} ("from") WHERE "from" > 0;
-- view | id | mallory.over
CREATE TABLE mallory.under ({uuid}, n int);
CREATE VIEW {t} AS SELECT *, mallory.evil(1::bigint) AS e FROM mallory.under;
INSERT INTO mallory.under (n) SELECT i FROM generate_series(1, {rows}) AS i;
-- temporary | id | pg_temp.fleeting
CREATE TEMP TABLE fleeting ({uuid}, n int);
-- foreign | id | mallory.distant
CREATE FOREIGN TABLE {t} (id uuid DEFAULT public.uuid_xact_nextval(), n int) SERVER nowhere;
-- self | id | mallory.pointing
CREATE TABLE {t} ({uuid}, n int, up uuid REFERENCES {t} ON DELETE CASCADE ON UPDATE CASCADE);
