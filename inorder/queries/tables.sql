-- count_cron: Return the statement that schedules the fold of an exact count with pg_cron. The statement for the fold
-- is a quoted argument.
SELECT pg_catalog.format('SELECT cron.schedule(%L, %L, %L);', 'inorder count ' || {table}, {schedule},
                         pg_catalog.format('SELECT %I.exact_count_fold(%L::pg_catalog.regclass)', {schema}, {table}))

-- feeds: Return the feeds that the role may see, feeds with a backlog first. Times are ages in seconds on the server's
-- clock.
SELECT pg_catalog.to_jsonb(f.*)
FROM (SELECT name AS feed, owner, relation::pg_catalog.text AS table, pg_catalog.current_database() AS database,
             order_column, whole_transactions, partial, caught_up, extract(epoch FROM lag) AS lag_seconds,
             CASE WHEN polled IS NOT NULL
                  THEN greatest(extract(epoch FROM clock.now OPERATOR(pg_catalog.-) polled),
                                '0'::pg_catalog.numeric) END AS polled_seconds,
             greatest(extract(epoch FROM clock.now OPERATOR(pg_catalog.-) coalesce(moved, created)),
                      '0'::pg_catalog.numeric) AS moved_seconds,
             backlog_rows, backlog_transactions, unfinished_batch, batch_worker, worker_batches,
             dead_batches, partition_by, shares, blocked_shares,
             namesake::pg_catalog.text, (namesake IS NOT NULL) AS swapped,
             coalesce(writers, '0'::pg_catalog.int8) AS writers,
             CASE WHEN held_since IS NOT NULL
                  THEN greatest(extract(epoch FROM clock.now OPERATOR(pg_catalog.-) held_since),
                                '0'::pg_catalog.numeric) END AS held_seconds,
             holder_pid, holder_application, holder_gid
      FROM {inorder}.feeds CROSS JOIN pg_catalog.clock_timestamp() AS clock(now)) AS f
ORDER BY coalesce(f.caught_up, false), f.backlog_rows DESC NULLS LAST,
         f.lag_seconds DESC, f.feed, f.owner

-- hold_tree: Lock the columns of a table and the files of its partitions against changes until the transaction ends.
-- The transaction takes its snapshot after the lock.
LOCK TABLE {table} IN ACCESS SHARE MODE

-- hold_type: Lock the columns of a table against changes until the transaction ends.
LOCK TABLE ONLY {table} IN ACCESS SHARE MODE

-- log_of_changes: Return the change log of a table. The triggers on the table contain the OID of the log, and a trigger
-- on the log contains the OID of the table.
SELECT c.oid, n.nspname, c.relname, pg_catalog.format('%I.%I', n.nspname, c.relname), pg_catalog.current_database()
FROM pg_catalog.pg_class AS t
JOIN pg_catalog.pg_trigger AS g ON g.tgrelid OPERATOR(pg_catalog.=) t.oid
    AND g.tgname OPERATOR(pg_catalog.=) 'zz_inorder_changes_insert'
JOIN pg_catalog.pg_class AS c ON c.relowner OPERATOR(pg_catalog.=) t.relowner
    AND c.oid::pg_catalog.text OPERATOR(pg_catalog.=) pg_catalog.split_part(
        pg_catalog.encode(g.tgargs, 'escape'), '\000', 1)
JOIN pg_catalog.pg_trigger AS m ON m.tgrelid OPERATOR(pg_catalog.=) c.oid
    AND m.tgname OPERATOR(pg_catalog.=) 'zz_inorder_changes' AND m.tgenabled OPERATOR(pg_catalog.=) 'A'
    AND pg_catalog.split_part(pg_catalog.encode(m.tgargs, 'escape'), '\000', 1)
        OPERATOR(pg_catalog.=) t.oid::pg_catalog.text
JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE t.oid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid

-- named_path: Set the search_path for the rest of a transaction.
SELECT pg_catalog.set_config('search_path', %s::pg_catalog.text, true)

-- path_at_start: Return the search_path with which the session begins, and its source. This is the first statement of
-- the session, and runs under the user's path. Each name is therefore qualified, and both operands have the type of the
-- operator.
SELECT s.setting, s.source FROM pg_catalog.pg_settings AS s
WHERE s.name OPERATOR(pg_catalog.=) 'search_path'::pg_catalog.text

-- session_path: Set a search_path without user schemas for the rest of the session.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false)

-- session_settings: Set up a transaction that reads all rows, and gets the same text for a value in every run. The
-- user's time zone is kept. With row_security off, a policy that would hide rows is an error. Notices are suppressed,
-- because the Arrow driver would write them to the standard error of the process.
SELECT pg_catalog.set_config(name, value, true)
FROM (VALUES ('search_path', 'pg_catalog, pg_temp'), ('datestyle', 'ISO, YMD'), ('intervalstyle', 'postgres'),
             ('extra_float_digits', '1'), ('bytea_output', 'hex'), ('quote_all_identifiers', 'off'),
             ('array_nulls', 'on'), ('standard_conforming_strings', 'on'), ('row_security', 'off'),
             ('client_min_messages', 'error')) AS s(name, value)

-- table: Return the names of a table with the given OID.
SELECT c.oid, nspname, relname, pg_catalog.format('%I.%I', nspname, relname), pg_catalog.current_database()
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
WHERE c.oid = {oid}::pg_catalog.oid

-- table_oid: Return the OID of a table. Its name is written as in SQL, and is looked up with the user's search_path.
SELECT %s::pg_catalog.regclass::pg_catalog.oid

-- table_of_name: Return the OID of the table that now has a given name.
SELECT c.oid FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE n.nspname OPERATOR(pg_catalog.=) {schema}::pg_catalog.name
  AND c.relname OPERATOR(pg_catalog.=) {name}::pg_catalog.name
  AND c.relkind OPERATOR(pg_catalog.=) ANY ('{{r,p,f}}'::pg_catalog."char"[])

-- tables_alike: Return tables whose names differ from a given name only in case, schema or quotes.
SELECT pg_catalog.format('%I.%I', n.nspname, c.relname)
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
CROSS JOIN (SELECT pg_catalog.lower(pg_catalog.replace({name}::pg_catalog.text, '"', '')) AS name) AS asked
WHERE c.relkind OPERATOR(pg_catalog.=) ANY ('{{r,p}}'::pg_catalog."char"[])
  AND asked.name OPERATOR(pg_catalog.=) ANY (ARRAY[
      pg_catalog.lower(c.relname::pg_catalog.text),
      pg_catalog.lower(pg_catalog.concat(n.nspname, '.', c.relname))])
ORDER BY c.oid LIMIT 3

-- table_names: Return at most 10,000 user tables.
SELECT n.nspname, c.relname, pg_catalog.format('%I.%I', n.nspname, c.relname)
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE c.relkind OPERATOR(pg_catalog.=) ANY ('{{r,p}}'::pg_catalog."char"[])
  AND n.nspname OPERATOR(pg_catalog.!~) '^(pg_|information_schema$|inorder_internal$)'::pg_catalog.text
ORDER BY c.oid LIMIT 10000

-- count_views: Return the columns, the schema and the name of each view with counts of a table by group. Any role with
-- TRIGGER on the table may create a trigger with this name. The view and the function must therefore belong to the
-- owner of the table.
SELECT ARRAY(
    SELECT a.attname::pg_catalog.text FROM pg_catalog.pg_attribute AS a
    WHERE a.attrelid OPERATOR(pg_catalog.=) v.oid AND a.attnum OPERATOR(pg_catalog.>) '0'::pg_catalog.int2
      AND a.attnum OPERATOR(pg_catalog.<) v.relnatts ORDER BY a.attnum), n.nspname, v.relname
FROM pg_catalog.pg_class AS t
JOIN pg_catalog.pg_trigger AS g ON g.tgrelid OPERATOR(pg_catalog.=) t.oid
JOIN pg_catalog.pg_proc AS f ON f.oid OPERATOR(pg_catalog.=) g.tgfoid
    AND f.proowner OPERATOR(pg_catalog.=) t.relowner
JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) f.pronamespace
JOIN pg_catalog.pg_class AS v ON v.relnamespace OPERATOR(pg_catalog.=) f.pronamespace
    AND v.relname OPERATOR(pg_catalog.=) pg_catalog.left(f.proname::pg_catalog.text, -7)
    AND v.relowner OPERATOR(pg_catalog.=) t.relowner
WHERE t.oid OPERATOR(pg_catalog.=) {table}
  AND g.tgname OPERATOR(pg_catalog.~) '^zz_inorder_count_[0-9a-f]+_row$'
ORDER BY v.relname
