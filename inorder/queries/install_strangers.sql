-- What a move would execute of roles that its role need not trust: functions, operators and types that triggers,
-- constraints, indexes, statistics, partition keys and generated columns of these tables use. The planner evaluates what is
-- constant in some of them for each query, and ALTER COLUMN TYPE and UPDATE the others.
WITH member AS (
    SELECT c.oid, c.relname FROM pg_class AS c
    WHERE c.oid = ANY ({relations}::oid[])
       OR c.oid IN (SELECT p.relid FROM unnest({relations}::oid[]) AS r(oid), pg_partition_tree(r.oid) AS p)
), part (classid, objid) AS (
    SELECT 'pg_class'::regclass, m.oid FROM member AS m
    UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index AS i JOIN member AS m ON m.oid = i.indrelid
    UNION ALL SELECT 'pg_trigger'::regclass, g.oid FROM pg_trigger AS g JOIN member AS m ON m.oid = g.tgrelid
    UNION ALL SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint AS k JOIN member AS m ON m.oid = k.conrelid
    UNION ALL SELECT 'pg_attrdef'::regclass, d.oid FROM pg_attrdef AS d JOIN member AS m ON m.oid = d.adrelid
              JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum AND a.attgenerated <> ''
    UNION ALL SELECT 'pg_statistic_ext'::regclass, s.oid FROM pg_statistic_ext AS s JOIN member AS m ON m.oid = s.stxrelid
    UNION ALL SELECT 'pg_rewrite'::regclass, w.oid FROM pg_rewrite AS w JOIN member AS m ON m.oid = w.ev_class
)
SELECT DISTINCT format('%s, which uses %s of role %s', pg_describe_object(o.classid, o.objid, 0),
                       pg_describe_object(d.refclassid, d.refobjid, 0), r.rolname) AS described
FROM part AS o JOIN pg_depend AS d ON d.classid = o.classid AND d.objid = o.objid
JOIN pg_roles AS r ON r.oid = coalesce(
    (SELECT p.proowner FROM pg_proc AS p WHERE d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid),
    (SELECT p.oprowner FROM pg_operator AS p WHERE d.refclassid = 'pg_operator'::regclass AND p.oid = d.refobjid),
    (SELECT p.opcowner FROM pg_opclass AS p WHERE d.refclassid = 'pg_opclass'::regclass AND p.oid = d.refobjid),
    (SELECT t.typowner FROM pg_type AS t WHERE d.refclassid = 'pg_type'::regclass AND t.oid = d.refobjid))
WHERE NOT (r.rolsuper OR r.rolname = current_user
           OR r.oid = (SELECT b.datdba FROM pg_database AS b WHERE b.datname = current_database()))
ORDER BY 1
