-- prepare_changes: Return the statement that logs the changes of a table and, unless the feed exists, creates a feed on
-- the log, in one transaction. For undo, return the statement that ends the log. There is no row if nothing is left to
-- do. The log is identified by its OID, which is an argument of the triggers. Before the triggers exist, it is
-- identified by the name that changes_enable() gives it. If a feed on another table has the name of the feed,
-- feed_create() raises an error.
SELECT step FROM (SELECT pg_catalog.format(
    CASE WHEN {undo} THEN 'SELECT %1$I.changes_disable(%2$L::pg_catalog.regclass)'
         WHEN {feed}::pg_catalog.text IS NULL OR EXISTS (
             SELECT FROM {inorder}.feeds AS f
             JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid
             WHERE f.name OPERATOR(pg_catalog.=) {feed}::pg_catalog.text AND f.owner OPERATOR(pg_catalog.=) CURRENT_USER
               AND f.relation::pg_catalog.oid OPERATOR(pg_catalog.=) coalesce(
                   (SELECT pg_catalog.substring(pg_catalog.encode(g.tgargs, 'escape'), '^[0-9]+')::pg_catalog.oid
                    FROM pg_catalog.pg_trigger AS g WHERE g.tgrelid OPERATOR(pg_catalog.=) c.oid
                      AND g.tgname OPERATOR(pg_catalog.=) 'zz_inorder_changes_insert'),
                   (SELECT l.oid FROM pg_catalog.pg_class AS l
                    WHERE l.relnamespace OPERATOR(pg_catalog.=) c.relnamespace
                      AND l.relname OPERATOR(pg_catalog.=) pg_catalog.concat(c.relname, '_changes')::pg_catalog.name)))
         THEN s.step
         ELSE 'SELECT %1$I.feed_create(%3$L::pg_catalog.text, %1$I.changes_enable(%2$L::pg_catalog.regclass), '
              '''beginning''::pg_catalog.text, NULL::pg_catalog.name, NULL::pg_catalog.name, false, '
              'NULL::pg_catalog.name, NULL::pg_catalog.int4)' END,
    {schema}::pg_catalog.name, {quoted}::pg_catalog.text, {feed}::pg_catalog.text) AS step
FROM (VALUES (true)) AS single_row
LEFT JOIN LATERAL {inorder}.changes_prepare({table}::pg_catalog.oid::pg_catalog.regclass) AS s(step) ON NOT {undo}
) AS steps WHERE step IS NOT NULL

-- prepare_lacks: Return the privileges that the role lacks for the statements, one per row: on the table and its
-- partitions, to create indexes or a log, and to call inorder. A row for missing ownership contains the owner. To log
-- changes, the role must itself be the owner. Otherwise, membership in the owner is enough.
WITH RECURSIVE tree AS (
    SELECT {table}::pg_catalog.oid AS oid
    UNION ALL
    SELECT i.inhrelid FROM tree AS t JOIN pg_catalog.pg_inherits AS i ON i.inhparent OPERATOR(pg_catalog.=) t.oid
), member AS (
    SELECT c.oid, c.relnamespace, c.relowner FROM tree AS t
    JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) t.oid
), place AS (
    SELECT DISTINCT n.oid, n.nspname FROM member AS m
    JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) m.relnamespace
), lacks (what, owner) AS (
    SELECT pg_catalog.format('ownership of table %s, which belongs to role %I', m.oid::pg_catalog.regclass,
                             pg_catalog.pg_get_userbyid(m.relowner)), pg_catalog.pg_get_userbyid(m.relowner)
    FROM member AS m
    WHERE CASE WHEN {itself} THEN pg_catalog.pg_get_userbyid(m.relowner) OPERATOR(pg_catalog.<>) CURRENT_USER
               ELSE NOT pg_catalog.pg_has_role(m.relowner, 'USAGE'::pg_catalog.text) END
    UNION ALL
    SELECT pg_catalog.format('%s on schema %I', p.privilege, s.nspname), NULL
    FROM place AS s CROSS JOIN pg_catalog.unnest('{{USAGE,CREATE}}'::pg_catalog.text[]) AS p(privilege)
    WHERE NOT pg_catalog.has_schema_privilege(s.oid, p.privilege)
      AND ({creates} OR p.privilege OPERATOR(pg_catalog.=) 'USAGE'::pg_catalog.text)
    UNION ALL
    SELECT pg_catalog.format('CREATE on tablespace %I', s.spcname), NULL FROM pg_catalog.pg_tablespace AS s
    WHERE {creates} AND NOT pg_catalog.has_tablespace_privilege(s.oid, 'CREATE'::pg_catalog.text)
      AND s.spcname OPERATOR(pg_catalog.=) pg_catalog.current_setting('default_tablespace')::pg_catalog.name
      AND s.oid OPERATOR(pg_catalog.<>) (SELECT d.dattablespace FROM pg_catalog.pg_database AS d
                                         WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
    UNION ALL
    SELECT pg_catalog.format('EXECUTE on function %s', f.oid::pg_catalog.regprocedure), NULL
    FROM pg_catalog.pg_proc AS f JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) f.pronamespace
    WHERE n.nspname OPERATOR(pg_catalog.=) {schema}::pg_catalog.name
      AND f.proname OPERATOR(pg_catalog.=) ANY ({functions}::pg_catalog.name[])
      AND NOT pg_catalog.has_function_privilege(f.oid, 'EXECUTE'::pg_catalog.text)
)
SELECT l.what, l.owner FROM lacks AS l ORDER BY l.what COLLATE pg_catalog."C"

-- prepare_progress: Return the progress of an index build.
SELECT pg_catalog.format('%s: %s %%', phase, CASE WHEN blocks_total OPERATOR(pg_catalog.>) 0 THEN 100 * blocks_done / blocks_total ELSE 0 END)
FROM pg_catalog.pg_stat_progress_create_index WHERE pid OPERATOR(pg_catalog.=) {pid}

-- prepare_steps: Return the statements that remain to be run. feed_prepare() raises notices about their consequences.
SELECT step
FROM {inorder}.feed_prepare({table}::pg_catalog.oid::pg_catalog.regclass, {column}::pg_catalog.name)
    WITH ORDINALITY AS s(step, place)
ORDER BY place

-- prepare_undo: Return the statements that undo the preparation. They drop the guard, and either the indexes that the
-- preparation has named, or the column and thereby these indexes. An attached index is dropped with its parent.
WITH RECURSIVE tree AS (
    SELECT {table}::pg_catalog.oid AS oid
    UNION ALL
    SELECT i.inhrelid FROM tree AS t JOIN pg_catalog.pg_inherits AS i ON i.inhparent OPERATOR(pg_catalog.=) t.oid
)
SELECT pg_catalog.format('SELECT %I.feed_disable(%L::pg_catalog.regclass)', {schema}::pg_catalog.name, {quoted}::pg_catalog.text)
UNION ALL
SELECT pg_catalog.format('ALTER TABLE %s DROP COLUMN %I', {quoted}::pg_catalog.text, a.attname)
FROM pg_catalog.pg_attribute AS a
WHERE {drop_column} AND a.attrelid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid
  AND a.attname OPERATOR(pg_catalog.=) {column}::pg_catalog.name AND NOT a.attisdropped
  AND a.atttypid OPERATOR(pg_catalog.=) 'pg_catalog.int8'::pg_catalog.regtype AND a.attgenerated OPERATOR(pg_catalog.=) ''
  AND EXISTS (SELECT FROM pg_catalog.pg_attrdef AS f JOIN pg_catalog.pg_depend AS d
                  ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_attrdef'::pg_catalog.regclass
                 AND d.objid OPERATOR(pg_catalog.=) f.oid
              WHERE f.adrelid OPERATOR(pg_catalog.=) a.attrelid AND f.adnum OPERATOR(pg_catalog.=) a.attnum
                AND d.refobjid OPERATOR(pg_catalog.=) pg_catalog.format('%I.xact_id(pg_catalog.int8)', {schema}::pg_catalog.name)::pg_catalog.regprocedure)
UNION ALL
SELECT pg_catalog.format(CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'I' THEN 'DROP INDEX %I.%I' ELSE 'DROP INDEX CONCURRENTLY %I.%I' END,
                         n.nspname, c.relname)
FROM tree AS t JOIN pg_catalog.pg_index AS i ON i.indrelid OPERATOR(pg_catalog.=) t.oid
JOIN pg_catalog.pg_attribute AS a ON a.attrelid OPERATOR(pg_catalog.=) t.oid AND a.attnum OPERATOR(pg_catalog.=) i.indkey[0]
 AND a.attname OPERATOR(pg_catalog.=) {column}::pg_catalog.name
JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) i.indexrelid
 AND c.relname OPERATOR(pg_catalog.~) pg_catalog.format('_%s_number$', t.oid)
JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE NOT {drop_column}
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS h WHERE h.inhrelid OPERATOR(pg_catalog.=) c.oid)

-- prepare_primary_key: Return a row if a table has a primary key.
SELECT FROM pg_catalog.pg_index AS i
WHERE i.indrelid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid AND i.indisprimary

-- prepare_holders: Return the other sessions that hold locks on a table, one per row. The application is null if the
-- role may not see it.
SELECT DISTINCT pg_catalog.concat_ws(', ', pg_catalog.concat('pid ', l.pid), nullif(a.application_name, ''), a.state)
FROM pg_catalog.pg_locks AS l LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid OPERATOR(pg_catalog.=) l.pid
WHERE l.relation OPERATOR(pg_catalog.=) {table}::pg_catalog.oid AND l.granted
  AND l.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid()
  AND l.database OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database AS d
                                         WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
ORDER BY 1
