-- The statements that undo the others: the guard, then the indexes that have their names, or the column with them.
SELECT pg_catalog.format('SELECT %I.feed_disable(%L::pg_catalog.regclass)', {schema}::pg_catalog.name, {quoted}::pg_catalog.text)
UNION ALL
(SELECT CASE WHEN {drop_column} THEN pg_catalog.format('ALTER TABLE %s DROP COLUMN %I', {quoted}::pg_catalog.text, a.attname)
             WHEN c.relkind OPERATOR(pg_catalog.=) 'I' THEN pg_catalog.format('DROP INDEX %I.%I', n.nspname, c.relname)
             ELSE pg_catalog.format('DROP INDEX CONCURRENTLY %I.%I', n.nspname, c.relname) END
 FROM pg_catalog.pg_attribute AS a
 LEFT JOIN (pg_catalog.pg_index AS i
            JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) i.indexrelid
             AND c.relname OPERATOR(pg_catalog.~) pg_catalog.format('_%s_number$', {table}::pg_catalog.oid)
            JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace)
   ON i.indrelid OPERATOR(pg_catalog.=) a.attrelid AND i.indkey[0] OPERATOR(pg_catalog.=) a.attnum
 WHERE a.attrelid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.=) {column}::pg_catalog.name
   AND NOT a.attisdropped
   AND CASE WHEN {drop_column} THEN a.atttypid OPERATOR(pg_catalog.=) 'pg_catalog.int8'::pg_catalog.regtype
                 AND a.attgenerated OPERATOR(pg_catalog.=) '' AND EXISTS (
                     SELECT FROM pg_catalog.pg_attrdef AS f JOIN pg_catalog.pg_depend AS d
                         ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_attrdef'::pg_catalog.regclass
                        AND d.objid OPERATOR(pg_catalog.=) f.oid
                     WHERE f.adrelid OPERATOR(pg_catalog.=) a.attrelid AND f.adnum OPERATOR(pg_catalog.=) a.attnum
                       AND d.refobjid OPERATOR(pg_catalog.=) pg_catalog.format('%I.xact_id(pg_catalog.int8)', {schema}::pg_catalog.name)::pg_catalog.regprocedure)
            ELSE c.oid IS NOT NULL END
 LIMIT 1)
