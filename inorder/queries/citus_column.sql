-- The columns of a table with transaction numbers, whether each is generated, and whether an index on the whole table
-- begins with it.
SELECT a.attname, a.attgenerated OPERATOR(pg_catalog.=) 's',
       EXISTS (SELECT FROM pg_catalog.pg_index AS i
               WHERE i.indrelid OPERATOR(pg_catalog.=) a.attrelid AND i.indkey[0] OPERATOR(pg_catalog.=) a.attnum
                 AND i.indisvalid AND i.indpred IS NULL)
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_attrdef AS f ON f.adrelid OPERATOR(pg_catalog.=) a.attrelid AND f.adnum OPERATOR(pg_catalog.=) a.attnum
JOIN pg_catalog.pg_depend AS d ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_attrdef'::pg_catalog.regclass
                              AND d.objid OPERATOR(pg_catalog.=) f.oid
                              AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
JOIN pg_catalog.pg_proc AS p ON p.oid OPERATOR(pg_catalog.=) d.refobjid
JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
WHERE a.attrelid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid AND NOT a.attisdropped
  AND n.nspname OPERATOR(pg_catalog.=) {schema}::pg_catalog.name
  AND p.proname OPERATOR(pg_catalog.=) ANY (ARRAY['xact_id_generated', 'xact_id', 'uuid_xact_nextval']::pg_catalog.name[])
  AND ({column}::pg_catalog.name IS NULL OR a.attname OPERATOR(pg_catalog.=) {column}::pg_catalog.name)
ORDER BY a.attnum
