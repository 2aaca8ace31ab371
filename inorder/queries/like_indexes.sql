-- Indexes of a table: name, what comes behind USING, its key columns that are no expressions, all columns it mentions,
-- whether it is unique, the primary key, an exclusion constraint; whether it needs what is not the server's own.
SELECT i.relname::text,
       substr(pg_get_indexdef(i.oid), length(format('CREATE %%sINDEX %%I ON %%s%%I.%%I USING ',
           CASE WHEN x.indisunique THEN 'UNIQUE ' END, i.relname, CASE WHEN i.relkind = 'I' THEN 'ONLY ' END,
           n.nspname, t.relname)) + 1),
       ARRAY(SELECT attname::text FROM unnest(x.indkey::int2[]) WITH ORDINALITY AS k (num, place)
             JOIN pg_attribute ON attrelid = t.oid AND attnum = k.num WHERE k.place <= x.indnkeyatts ORDER BY k.place),
       ARRAY(SELECT DISTINCT a.attname::text FROM pg_depend AS d JOIN pg_attribute AS a
             ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
             WHERE d.classid = 'pg_class'::regclass AND d.objid = i.oid AND d.refobjid = t.oid
             UNION SELECT attname::text FROM pg_constraint JOIN pg_attribute ON attrelid = t.oid AND attnum = ANY (conkey)
             WHERE conindid = i.oid AND conrelid = t.oid),
       x.indisunique, x.indisprimary, x.indisexclusion,
       EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = i.oid AND refobjid >= 16384
               AND refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass,
                                  'pg_collation'::regclass, 'pg_am'::regclass))
FROM pg_index AS x
     JOIN pg_class AS i ON i.oid = x.indexrelid
     JOIN pg_class AS t ON t.oid = x.indrelid
     JOIN pg_namespace AS n ON n.oid = t.relnamespace
WHERE x.indrelid = %(table)s::oid AND x.indislive AND (x.indisvalid OR i.relkind = 'I')
ORDER BY x.indisprimary DESC, i.relname;
