-- What the role lacks for the statements, a line each: for those on the table and its partitions, for those that create
-- indexes on them, and for those that call inorder.
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
), lacks (what) AS (
    SELECT pg_catalog.format('ownership of table %s, which belongs to role %I', m.oid::pg_catalog.regclass,
                             pg_catalog.pg_get_userbyid(m.relowner))
    FROM member AS m WHERE NOT pg_catalog.pg_has_role(m.relowner, 'USAGE'::pg_catalog.text)
    UNION ALL
    SELECT pg_catalog.format('%s on schema %I', p.privilege, s.nspname)
    FROM place AS s CROSS JOIN pg_catalog.unnest('{{USAGE,CREATE}}'::pg_catalog.text[]) AS p(privilege)
    WHERE NOT pg_catalog.has_schema_privilege(s.oid, p.privilege)
      AND ({creates_indexes} OR p.privilege OPERATOR(pg_catalog.=) 'USAGE'::pg_catalog.text)
    UNION ALL
    SELECT pg_catalog.format('CREATE on tablespace %I', s.spcname) FROM pg_catalog.pg_tablespace AS s
    WHERE {creates_indexes} AND NOT pg_catalog.has_tablespace_privilege(s.oid, 'CREATE'::pg_catalog.text)
      AND s.spcname OPERATOR(pg_catalog.=) pg_catalog.current_setting('default_tablespace')::pg_catalog.name
      AND s.oid OPERATOR(pg_catalog.<>) (SELECT d.dattablespace FROM pg_catalog.pg_database AS d
                                         WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
    UNION ALL
    SELECT pg_catalog.format('EXECUTE on function %s', f.oid::pg_catalog.regprocedure)
    FROM pg_catalog.pg_proc AS f JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) f.pronamespace
    WHERE n.nspname OPERATOR(pg_catalog.=) {schema}::pg_catalog.name
      AND f.proname OPERATOR(pg_catalog.=) ANY ('{{feed_enable,feed_disable,feed_guard,xact_id}}'::pg_catalog.name[])
      AND NOT pg_catalog.has_function_privilege(f.oid, 'EXECUTE'::pg_catalog.text)
)
SELECT l.what FROM lacks AS l ORDER BY l.what COLLATE pg_catalog."C"
