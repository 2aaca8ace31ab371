-- CHECK constraints of a table: name, definition, columns, whether they cannot be made elsewhere: they need what is not the
-- server's own, or call a function that is not immutable. The owner of the table may have made them for others to run.
SELECT conname::text, pg_get_constraintdef(oid),
       ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY (conkey)),
       EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_constraint'::regclass AND objid = c.oid AND refobjid >= 16384
               AND refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass))
       OR EXISTS (SELECT FROM regexp_matches(conbin::text, ':(?:op|)funcid (\d+)', 'g') AS f(id)
                  JOIN pg_proc AS p ON p.oid = f.id[1]::oid WHERE p.provolatile <> 'i')
FROM pg_constraint AS c
WHERE conrelid = %(table)s::oid AND contype = 'c'
ORDER BY conname;
