-- Functions that a query of a table may call although it does not name them: the planner evaluates constant expressions in
-- indexes, extended statistics and partition keys. Those of superusers and of the reader are left out.
WITH RECURSIVE tree AS (
    SELECT %(table)s::oid AS oid UNION SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = oid
), part AS (
    SELECT 'pg_class'::regclass AS class, oid FROM tree
    UNION ALL SELECT 'pg_class'::regclass, indexrelid FROM pg_index JOIN tree ON indrelid = oid
    UNION ALL SELECT 'pg_statistic_ext'::regclass, s.oid FROM pg_statistic_ext AS s JOIN tree ON stxrelid = tree.oid
)
SELECT DISTINCT p.oid::regprocedure::text
FROM part
     JOIN pg_depend AS d ON d.classid = part.class AND d.objid = part.oid
     LEFT JOIN pg_operator AS o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
     JOIN pg_proc AS p ON p.oid = CASE WHEN d.refclassid = 'pg_proc'::regclass THEN d.refobjid ELSE o.oprcode END
     JOIN pg_roles AS r ON r.oid = p.proowner OR r.oid = o.oprowner
WHERE NOT r.rolsuper AND r.rolname <> current_user
ORDER BY 1;
