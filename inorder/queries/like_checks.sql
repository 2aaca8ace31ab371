-- CHECK constraints of a table: name, definition, columns, whether they need what is not the server's own.
SELECT conname::text, pg_get_constraintdef(oid),
       ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY (conkey)),
       EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_constraint'::regclass AND objid = c.oid AND refobjid >= 16384
               AND refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass))
FROM pg_constraint AS c
WHERE conrelid = %(table)s::oid AND contype = 'c'
ORDER BY conname;
