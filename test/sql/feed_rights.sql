-- Each action needs certain privileges, and no code runs with the privileges of another role. track_counts is off,
-- because feed_enable() would otherwise warn about deleted and updated rows in some runs.
SET track_counts = off;
CREATE ROLE inorder_owner;
CREATE ROLE inorder_member IN ROLE inorder_owner;
CREATE ROLE inorder_reader;
CREATE ROLE inorder_feeder;
CREATE ROLE inorder_mover;
CREATE ROLE inorder_blind;
CREATE ROLE inorder_monitor IN ROLE pg_monitor;
CREATE ROLE inorder_stranger;
CREATE SCHEMA private AUTHORIZATION inorder_owner;
GRANT USAGE ON SCHEMA private TO PUBLIC;
SET ROLE inorder_owner;
CREATE TABLE private.events (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n);
CREATE TABLE private.e1 PARTITION OF private.events FOR VALUES IN (1, 2, 3);
CREATE TABLE private.plain (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
CREATE TABLE private.secret (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
-- Roles have privileges on the table, but not on its partitions.
GRANT SELECT ON private.events, private.plain TO inorder_reader, inorder_feeder, inorder_mover;
SELECT feed_create('theirs', 'private.events'), feed_create('secret', 'private.secret'), exact_count_start('private.events');
SELECT feed_grant('theirs', r::regrole) FROM unnest('{inorder_mover,inorder_blind}'::text[]) AS r;
INSERT INTO private.events (n) VALUES (1), (2);
SET ROLE inorder_feeder;
SELECT feed_create('mine', 'private.events');
RESET ROLE;

-- Return the result or the error of a statement that a role executes. The statement is always rolled back.
CREATE FUNCTION attempt(role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %s', role);
    EXECUTE statement INTO answer;
    RAISE 'undo' USING ERRCODE = 'IN000';
EXCEPTION WHEN SQLSTATE 'IN000' THEN
    RETURN coalesce(answer, 'null');
WHEN OTHERS THEN
    RETURN CASE WHEN SQLERRM ~ '^must be owner' THEN 'not owner' WHEN SQLERRM ~ '^permission denied for table' THEN 'no SELECT'
                WHEN SQLERRM ~ '^permission denied for feed' THEN 'not mover' WHEN SQLERRM ~ '^feed .* does not exist' THEN 'unknown'
                ELSE SQLSTATE || ' ' || SQLERRM END;
END $$;
CREATE TABLE attempts (place serial, what text, statement text);
INSERT INTO attempts (what, statement) VALUES
    ('see theirs, mine', 'SELECT string_agg(name, '', '' ORDER BY name DESC) FROM feeds WHERE name <> ''secret'''),
    ('see secret', 'SELECT count(*) FROM feeds WHERE name = ''secret'''),
    ('create', 'SELECT feed_create(''new'', ''private.events'') IS NOT NULL'),
    ('create, not enabled', 'SELECT feed_create(''new'', ''private.plain'') IS NOT NULL'),
    ('read', 'SELECT count(*) FROM feed_read(''theirs'', null::private.events, owner => ''inorder_owner'')'),
    ('peek', 'SELECT count(*) FROM feed_peek(''theirs'', null::private.events, owner => ''inorder_owner'')'),
    ('apply', 'SELECT feed_apply(''theirs'', ''SELECT FROM batch'', owner => ''inorder_owner'')'),
    ('batch', 'SELECT (feed_take_batch(''theirs'', ''w'', owner => ''inorder_owner'')).number'),
    ('rows of batch', 'SELECT feed_batch_rows(''theirs'', (feed_take_batch(''theirs'', ''w'', 1, owner => ''inorder_owner'')).number, null::private.events, ''inorder_owner'') IS NOT NULL'),
    ('finish', 'SELECT feed_finish_batch(''theirs'', number, token, owner => ''inorder_owner'') FROM feed_take_batch(''theirs'', ''w'', 1, owner => ''inorder_owner'')'),
    ('seek', 'SELECT feed_seek(''theirs'', ''now'', ''inorder_owner'') IS NOT NULL'),
    ('seek to a set', 'SELECT feed_seek(''theirs'', ''{}''::int8multirange, ''inorder_owner'') IS NOT NULL'),
    ('grant', 'SELECT feed_grant(''theirs'', ''inorder_stranger'', ''inorder_owner'') IS NOT NULL'),
    ('revoke', 'SELECT feed_revoke(''theirs'', ''inorder_mover'', ''inorder_owner'') IS NOT NULL'),
    ('drop', 'SELECT feed_drop(''theirs'', ''inorder_owner'') IS NOT NULL'),
    ('read mine', 'SELECT count(*) FROM feed_read(''mine'', null::private.events, owner => ''inorder_feeder'')'),
    ('grant mine', 'SELECT feed_grant(''mine'', ''inorder_stranger'', ''inorder_feeder'') IS NOT NULL'),
    ('drop mine', 'SELECT feed_drop(''mine'', ''inorder_feeder'') IS NOT NULL'),
    ('peek mine', 'SELECT count(*) FROM feed_peek(''mine'', null::private.events, owner => ''inorder_feeder'')'),
    ('read secret', 'SELECT count(*) FROM feed_read(''secret'', null::private.secret, owner => ''inorder_owner'')'),
    ('seek secret', 'SELECT feed_seek(''secret'', ''now'', ''inorder_owner'') IS NOT NULL'),
    ('start', 'SELECT reader_start(''private.events'')::text <> '''''),
    ('rows', 'SELECT count(*) FROM reader_batch_rows(''private.events'', reader_next_batch(''private.events'', ROW(1, ''{}'', NULL, NULL, NULL, NULL, NULL)), null::private.events)'),
    ('enable', 'SELECT feed_enable(''private.events'') IS NOT NULL'),
    ('disable', 'SELECT feed_disable(''private.plain'') IS NOT NULL'),
    ('rebase', 'SELECT feed_rebase(''private.events'')'),
    ('prepare', 'SELECT count(*) FROM feed_prepare(''private.plain'', ''id'')'),
    ('holders', 'SELECT count(*) FROM feed_holders(''private.events'')'),
    ('count', 'SELECT exact_count(''private.events'')'),
    ('fold', 'SELECT exact_count_fold(''private.events'')'),
    ('start count', 'SELECT exact_count_start(''private.events'')'),
    ('stop count', 'SELECT exact_count_stop(''private.events'') IS NOT NULL');
GRANT SELECT ON attempts TO PUBLIC;
SELECT what, attempt('inorder_member', statement) AS "owner, as a member", attempt('inorder_feeder', statement) AS feeder,
       attempt('inorder_mover', statement) AS mover, attempt('inorder_blind', statement) AS "mover, blind"
FROM attempts ORDER BY place;
-- Every role can call the functions that access no table, and gets their results and errors.
\set SHOW_CONTEXT never
SET ROLE inorder_stranger;
CREATE TEMP TABLE own AS SELECT ROW(1, '{[3,9)}', NULL, NULL, NULL, NULL, NULL)::feed_position AS p, ROW(1, '{[1,3)}', NULL, NULL, NULL, NULL, NULL, NULL, NULL)::feed_batch AS b;
SELECT reader_advance(p::text::feed_position, b::jsonb::feed_batch)::text::feed_position::jsonb, reader_advance(p::jsonb::feed_position, b::text::feed_batch)::text FROM own;
SELECT reader_advance(p, reader_batch_between(ROW(1, '{}', NULL, NULL, NULL, NULL, NULL), p)) FROM own;
SELECT reader_advance(ROW(1, '{[-3,-2)}', NULL, NULL, NULL, NULL, NULL), b) FROM own;
DROP TABLE own;
\set SHOW_CONTEXT errors
RESET ROLE;
SELECT what, attempt('inorder_reader', statement) AS reader, attempt('inorder_monitor', statement) AS monitor, attempt('inorder_stranger', statement) AS stranger,
       attempt('postgres', statement) AS superuser
FROM attempts ORDER BY place;
-- The messages of the errors above.
SET ROLE inorder_reader;
SELECT error_of($$SELECT feed_read('theirs', null::private.events, owner => 'inorder_owner')$$);
SELECT error_of($$SELECT feed_read('mine', null::private.events)$$);
SELECT error_of($$SELECT feed_drop('mine', 'inorder_feeder')$$);
SELECT error_of($$SELECT feed_create('new', 'private.plain')$$);
SET ROLE inorder_mover;
SELECT error_of($$SELECT feed_drop('theirs', 'inorder_owner')$$);
-- The hint is shown only to roles that can follow it.
\set SHOW_CONTEXT never
SELECT n FROM feed_read('theirs', null::private.events);
SET ROLE inorder_stranger;
SELECT (feed_take_batch('theirs', 'w')).number;
SELECT (feed_take_batch('theirs', 'w', owner => 'inorder_owner')).number;
SET ROLE inorder_blind;
SELECT (feed_take_batch('theirs', 'w', owner => 'inorder_owner')).number;

-- Calls without a rollback: feeds of a reader and of other roles, and rows of partitions that are created in the
-- meantime.
SET ROLE inorder_reader;
SELECT feed_create('theirs', 'private.events'), feed_create('mine', 'private.events');
SELECT name, owner, relation, key_column FROM feeds ORDER BY name, owner;
SELECT n FROM feed_read('theirs', null::private.events, 1);
SELECT n FROM feed_read('theirs', null::private.events);
SET ROLE inorder_owner;
CREATE TABLE private.e4 PARTITION OF private.events FOR VALUES IN (4);
INSERT INTO private.events (n) VALUES (3), (4);
SELECT exact_count_fold('private.events');
INSERT INTO private.events (n) VALUES (4);
SET ROLE inorder_reader;
SELECT n FROM feed_read('theirs', null::private.events, 2);
SELECT n FROM feed_read('theirs', null::private.events, 2);
SELECT exact_count('private.events') = count(*) AS exact FROM private.events;
SET ROLE inorder_mover;
SELECT feed_apply('theirs', 'SELECT FROM batch', 3, 'inorder_owner');
SET ROLE inorder_owner;
SELECT n FROM feed_read('theirs', null::private.events);
SELECT n FROM feed_read('mine', null::private.events, 1, 'inorder_reader');
SELECT (feed_take_batch('mine', 'w', 1, owner => 'inorder_reader')).number, (feed_take_batch('mine', 'w', 2, owner => 'inorder_feeder')).number;
SELECT n FROM feed_batch_rows('mine', 1, null::private.events, 'inorder_reader');
SELECT feed_finish_batch('mine', r.number, r.token, 'inorder_reader'), feed_finish_batch('mine', f.number, f.token, 'inorder_feeder')
FROM feed_take_batch('mine', 'w', owner => 'inorder_reader') AS r, feed_take_batch('mine', 'w', owner => 'inorder_feeder') AS f;
SELECT name, owner, unfinished_batch, isempty(position) AS at_beginning FROM feeds ORDER BY name, owner;
-- feed_create() creates a feed that belongs to its caller, even if the caller owns the table.
SELECT error_of($$SELECT feed_create('theirs', 'private.events')$$);
SELECT feed_create('mine', 'private.events', 'now'), feed_drop('mine');
RESET ROLE;
SELECT error_of($$SELECT feed_drop('theirs')$$);
SELECT feed_drop('mine', 'inorder_feeder'), feed_drop('mine', 'inorder_reader');

-- Memberships and privileges are checked at the time of the call.
GRANT inorder_feeder TO inorder_stranger;
SET ROLE inorder_feeder;
SELECT feed_create('mine', 'private.events');
SET ROLE inorder_stranger;
SELECT count(*) FROM feed_read('mine', null::private.events, owner => 'inorder_feeder');
SELECT feed_seek('mine', 'beginning', 'inorder_feeder');
RESET ROLE;
REVOKE inorder_feeder FROM inorder_stranger;
SET ROLE inorder_stranger;
SELECT error_of($$SELECT feed_seek('mine', 'beginning', 'inorder_feeder')$$);
-- A role that has lost SELECT can still see and drop its feed, but cannot move it.
RESET ROLE;
REVOKE SELECT ON private.events FROM inorder_feeder;
SET ROLE inorder_feeder;
SELECT error_of(s) FROM unnest(ARRAY['SELECT feed_read(''mine'', null::private.events)', 'SELECT feed_apply(''mine'', ''SELECT'')', 'SELECT (feed_take_batch(''mine'', ''w'')).number',
    'SELECT feed_seek(''mine'', ''now'')', 'SELECT (SELECT feed_finish_batch(''mine'', 1, token) FROM feed_take_batch(''mine'', ''w''))']) AS s;
SELECT name FROM feeds;
SELECT feed_drop('mine');
RESET ROLE;
-- SELECT on only some columns is not sufficient.
GRANT SELECT (id) ON private.events TO inorder_feeder;
SET ROLE inorder_feeder;
SELECT error_of($$SELECT feed_create('mine', 'private.events')$$);
SELECT error_of($$SELECT reader_start('private.events')$$);
SELECT error_of($$SELECT exact_count('private.events')$$);
-- USAGE on the schema is needed, too.
RESET ROLE;
REVOKE USAGE ON SCHEMA private FROM PUBLIC;
SET ROLE inorder_reader;
SELECT name FROM feeds;
SELECT error_of(format('SELECT (feed_take_batch(%L, ''w'')).number', name)) FROM feeds;
SELECT error_of(format('SELECT feed_seek(%L, ''now'')', name)) FROM feeds;
SELECT error_of(format('SELECT feed_create(''new'', %s::regclass)', relation::oid)) FROM feeds;
SELECT error_of(format('SELECT exact_count(%s)', relation::oid)) = error_of(format('SELECT reader_start(%s)', relation::oid)) AS same_error FROM feeds;
RESET ROLE;

-- The state is accessible only through the public functions. These are the privileges on tables, functions and types of
-- the internal schema.
CREATE FUNCTION denied(role text) RETURNS TABLE (place text, schema text, others text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %s', role);
    RETURN QUERY SELECT c.relname::text, string_agg(DISTINCT error_of(format(s, c.relname)), '; '),
        (SELECT string_agg(p, ', ') FROM unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) AS p WHERE has_table_privilege(c.oid, p))
    FROM pg_class AS c CROSS JOIN unnest(ARRAY['SELECT * FROM inorder_internal.%I', 'INSERT INTO inorder_internal.%I DEFAULT VALUES', 'DELETE FROM inorder_internal.%I',
        'TRUNCATE inorder_internal.%I', 'LOCK TABLE inorder_internal.%I']) AS s
    WHERE c.relnamespace = 'inorder_internal'::regnamespace AND c.relkind = 'r' GROUP BY c.oid, c.relname
    UNION ALL SELECT 'functions', string_agg(DISTINCT error_of(format('SELECT inorder_internal.%I(%s)', p.proname,
            (SELECT string_agg(format('NULL::%s', t::regtype), ', ') FROM unnest(p.proargtypes) AS t WHERE t::regtype::text !~ '^inorder_internal'))), '; '),
        string_agg(p.proname, ', ' ORDER BY p.proname) FILTER (WHERE has_function_privilege(p.oid, 'EXECUTE'))
    FROM pg_proc AS p WHERE p.pronamespace = 'inorder_internal'::regnamespace
    UNION ALL SELECT 'create', error_of('CREATE TABLE inorder_internal.x ()'), NULL;
    RESET ROLE;
END $$;
SELECT r AS role, d.* FROM unnest('{inorder_owner,inorder_reader,inorder_monitor}'::text[]) AS r CROSS JOIN LATERAL denied(r) AS d;
SELECT rolname FROM pg_roles WHERE rolname ~ '^inorder' AND has_schema_privilege(rolname, 'inorder_internal', 'USAGE')
ORDER BY rolname;
DROP FUNCTION denied;

DROP TABLE attempts;
DROP FUNCTION attempt;
SET client_min_messages = warning;
DROP OWNED BY inorder_owner, inorder_member, inorder_reader, inorder_feeder, inorder_mover, inorder_blind, inorder_monitor, inorder_stranger;
DROP ROLE inorder_owner, inorder_member, inorder_reader, inorder_feeder, inorder_mover, inorder_blind, inorder_monitor, inorder_stranger;
