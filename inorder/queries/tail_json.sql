-- How the rows of a table become JSON, if this transaction has locked it. A value of a type that is not the server's, or
-- has one in it, is the text that its output function writes: row_to_json() would call a cast that the type's owner made.
WITH RECURSIVE part AS (
    SELECT a.attnum, a.attname, a.atttypid AS type, true AS is_whole
    FROM pg_catalog.pg_attribute AS a
    WHERE a.attrelid = {table}::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION
    SELECT p.attnum, p.attname, w.type, p.is_whole AND t.typtype = 'd'
    FROM part AS p JOIN pg_catalog.pg_type AS t ON t.oid = p.type
    CROSS JOIN LATERAL (
        VALUES (t.typbasetype), (t.typelem)
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute AS a
                  WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) AS w(type)
), known AS (
    SELECT p.*, t.typtype, t.typdelim,
           t.typsubscript = 'pg_catalog.array_subscript_handler'::pg_catalog.regproc AS is_array
    FROM part AS p JOIN pg_catalog.pg_type AS t ON t.oid = p.type
), written AS (
    SELECT attnum, pg_catalog.quote_ident(attname) AS name,
           pg_catalog.bool_or(type >= 16384::pg_catalog.oid AND typtype NOT IN ('c', 'd') AND NOT is_array) AS is_text,
           pg_catalog.bool_or(is_whole AND is_array AND typdelim = ',') AS is_list,
           pg_catalog.bool_or(type = 'pg_catalog.json'::pg_catalog.regtype) AS may_have_line_ends
    FROM known GROUP BY attnum, attname
)
SELECT {table}::pg_catalog.oid::pg_catalog.regclass AS relation,
       pg_catalog.format(
           CASE WHEN pg_catalog.bool_or(may_have_line_ends AND NOT is_text)
                -- They become blanks, by replace(), which needs no space where there are none, not by translate(), which
                -- asks for four times the length.
                THEN 'pg_catalog.replace(pg_catalog.replace(%s::pg_catalog.text, pg_catalog.chr(10), '' ''), '
                     'pg_catalog.chr(13), '' '')'
                ELSE '%s::pg_catalog.text' END,
           CASE WHEN pg_catalog.bool_or(is_text)
                THEN pg_catalog.format('(SELECT pg_catalog.row_to_json(j.*) FROM (SELECT %s) AS j)',
                    pg_catalog.string_agg(pg_catalog.format(
                        CASE WHEN is_text THEN 'CASE WHEN pg_catalog.num_nulls(e.%1$s) OPERATOR(pg_catalog.=) 0 '
                                               'THEN pg_catalog.format(''%%s'', e.%1$s)%2$s END AS %1$s'
                             ELSE 'e.%1$s' END,
                        name, CASE WHEN is_list THEN '::pg_catalog.text[]' END), ', ' ORDER BY attnum))
                ELSE 'pg_catalog.row_to_json(e.*)' END) AS columns
FROM written
-- Its name may have led to another table when it was locked.
HAVING EXISTS (SELECT FROM pg_catalog.pg_locks AS l
               WHERE l.relation = {table}::pg_catalog.oid AND l.pid = pg_catalog.pg_backend_pid() AND l.granted)
