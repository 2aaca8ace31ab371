-- Functions of the user's whose text calls public functions of inorder, without a dependency; and whether something
-- else of the user's depends on them, such as a trigger.
WITH ours AS (
    SELECT p.oid, p.proname, p.pronamespace FROM pg_proc AS p
    WHERE p.pronamespace IN (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = ANY ({schemas}::name[]))
       OR EXISTS (SELECT FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'inorder'
                  WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
                    AND d.refclassid = 'pg_extension'::regclass)
), called AS (
    SELECT concat('\m(', string_agg(DISTINCT o.proname, '|'), ')"?\s*\(') AS pattern FROM ours AS o
    JOIN pg_namespace AS n ON n.oid = o.pronamespace AND n.nspname <> 'inorder_internal'
)
SELECT pg_describe_object('pg_proc'::regclass, p.oid, 0) AS described,
       EXISTS (SELECT FROM pg_depend AS d WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid) AS is_used
FROM pg_proc AS p CROSS JOIN called AS c
WHERE p.prosqlbody IS NULL AND p.oid NOT IN (SELECT o.oid FROM ours AS o) AND p.prosrc ~ c.pattern
ORDER BY 1
