\set SHOW_CONTEXT never
-- The reader executes the query for the rows of a batch, which returns the same rows in the same order as
-- reader_batch_rows(), and reads no other relation.
CREATE SCHEMA app;
CREATE TABLE app.u (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int GENERATED ALWAYS AS IDENTITY);
CREATE TABLE app.b (n int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id());
CREATE INDEX ON app.b (xact) WHERE xact > 0;
CREATE TABLE app.p (n int GENERATED ALWAYS AS IDENTITY, part int DEFAULT 1, xact bigint NOT NULL DEFAULT xact_id(), PRIMARY KEY (part, n)) PARTITION BY LIST (part);
CREATE INDEX ON app.p (xact);
CREATE TABLE app.p1 PARTITION OF app.p FOR VALUES IN (1);
SELECT feed_enable(t) FROM unnest('{app.u,app.b,app.p}'::regclass[]) AS t;
\set ECHO none
SELECT format('INSERT INTO %s SELECT FROM generate_series(1, %s)', t, s) FROM unnest('{app.u,app.b,app.p}'::text[]) AS t, unnest('{3,10,1,4}'::int[]) AS s \gexec
\set ECHO all
-- Read all rows in batches of 4, with the query and with the function.
CREATE FUNCTION pieces(t regclass, OUT by_query text, OUT by_function text) LANGUAGE plpgsql AS $$
DECLARE
    position feed_position := reader_start(t);
    batch feed_batch;
    query text;
    found text;
BEGIN
    LOOP
        batch := reader_next_batch(t, position, 4);
        EXIT WHEN isempty(batch.transactions);
        query := reader_batch_query(t, batch);
        EXECUTE format('SELECT string_agg(e.n::text, '' '') FROM (%s) AS e', query) INTO found;
        by_query := concat_ws(' | ', by_query, found);
        ASSERT reader_batch_query(t, batch) = query;
        EXECUTE format('SELECT string_agg(e.n::text, '' '') FROM reader_batch_rows($1, $2, NULL::%s) AS e', t) USING t, batch INTO found;
        by_function := concat_ws(' | ', by_function, found);
        position := reader_advance(position, batch);
    END LOOP;
END $$;
SELECT error_of($$SELECT pieces('app.u')$$);
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT t, (pieces(t)).* FROM unnest('{app.u,app.b,app.p}'::regclass[]) AS t;
-- The settings apply until the end of the transaction.
SELECT name, current_setting(name) FROM unnest('{enable_seqscan,max_parallel_workers_per_gather}'::text[]) AS name;
COMMIT;
SELECT current_setting('enable_seqscan');
-- If another relation takes the name of the table, that relation is not read with the reader's privileges. The
-- second call returns a query with the new name of the table.
CREATE FUNCTION evil() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'the code of somebody else'; END $$;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT reader_next_batch('app.u', reader_start('app.u')) AS batch, 'app.u'::regclass::oid AS relation \gset
SELECT reader_batch_query(:relation, :'batch') AS query \gset
ALTER SCHEMA app RENAME TO former;
CREATE SCHEMA app;
CREATE VIEW app.u AS SELECT id, evil() AS n FROM former.u;
SAVEPOINT s;
SELECT count(n) FROM (:query) AS e;
ROLLBACK TO s;
SELECT reader_batch_query(:relation, :'batch') = :'query' AS same;
ROLLBACK;
-- A partition with rows of the batch is attached in the meantime.
CREATE TABLE app.p2 (LIKE app.p INCLUDING ALL EXCLUDING IDENTITY);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT reader_next_batch('app.p', reader_start('app.p')) AS batch \gset
SELECT reader_batch_query('app.p', :'batch') IS NOT NULL AS before;
INSERT INTO app.p2 (n, part, xact) OVERRIDING SYSTEM VALUE SELECT 99, 2, min(xact) FROM app.p;
ALTER TABLE app.p ATTACH PARTITION app.p2 FOR VALUES IN (2);
SELECT reader_batch_query('app.p', :'batch');
ROLLBACK;
-- The query identifies the table with this function, whatever the name of the table.
SET search_path = public, inorder_text, inorder_internal;
SELECT feed_is_table(NULL::app.u, reltype), feed_is_table(ROW(NULL, NULL)::app.u, reltype), error_of(format('SELECT feed_is_table(%s, %s)', v, coalesce(r, 'NULL')))
FROM pg_class, unnest('{NULL::app.b,1,ROW(1),NULL::int,NULL::app.u,NULL::app.u}'::text[], ARRAY[reltype, reltype, reltype, reltype, 0, NULL]::text[]) AS a(v, r)
WHERE oid = 'app.u'::regclass;
RESET search_path;
-- Columns of types without an array type.
SELECT format('CREATE TABLE app.n (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), %s)', string_agg(format('%1$I %1$I', typname), ', ')) AS made,
       'pg_node_tree' = ANY (array_agg(typname)) AS several FROM pg_type
WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typarray = 0 AND typcategory <> 'A' \gset
:made;
SELECT feed_enable('app.n');
INSERT INTO app.n DEFAULT VALUES;
-- reader_seek() adapts a position to the current guard.
SELECT reader_seek('app.n', reader_start('app.n')) = reader_start('app.n') AS same FROM feed_enable('app.n');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT reader_batch_query('app.n', reader_next_batch('app.n', reader_start('app.n'))) AS query \gset
SELECT count(*), :'several' AS several FROM (:query) AS q;
ROLLBACK;
DROP FUNCTION pieces(regclass), evil();
\set VERBOSITY terse
DROP SCHEMA app CASCADE;
