-- What a move would execute of roles that its role need not trust: functions, operators and types that triggers,
-- constraints, indexes, statistics, partition keys, policies, rules and generated columns of these tables use, and event
-- triggers. The planner evaluates what is constant in some of them for each query, and ALTER COLUMN TYPE and UPDATE the
-- others. A rule may write to a table that has triggers, and so is refused whatever it uses.
WITH RECURSIVE member AS (
    SELECT unnest({relations}::oid[]) AS oid UNION SELECT i.inhrelid FROM pg_inherits AS i JOIN member AS m ON m.oid = i.inhparent
), stranger AS (
    SELECT r.oid, r.rolname FROM pg_roles AS r
    WHERE NOT (r.rolsuper OR r.rolname IN (current_user, 'pg_database_owner')
               OR r.oid = (SELECT b.datdba FROM pg_database AS b WHERE b.datname = current_database()))
), part (classid, objid) AS (
    SELECT 'pg_class'::regclass, m.oid FROM member AS m
    UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index AS i JOIN member AS m ON m.oid = i.indrelid
    UNION ALL SELECT 'pg_trigger'::regclass, g.oid FROM pg_trigger AS g JOIN member AS m ON m.oid = g.tgrelid
    UNION ALL SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint AS k JOIN member AS m ON m.oid = k.conrelid
    UNION ALL SELECT 'pg_attrdef'::regclass, d.oid FROM pg_attrdef AS d JOIN member AS m ON m.oid = d.adrelid
              JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum AND a.attgenerated <> ''
    UNION ALL SELECT 'pg_statistic_ext'::regclass, s.oid FROM pg_statistic_ext AS s JOIN member AS m ON m.oid = s.stxrelid
    UNION ALL SELECT 'pg_rewrite'::regclass, w.oid FROM pg_rewrite AS w JOIN member AS m ON m.oid = w.ev_class
    UNION ALL SELECT 'pg_policy'::regclass, y.oid FROM pg_policy AS y JOIN member AS m ON m.oid = y.polrelid
    UNION ALL SELECT 'pg_event_trigger'::regclass, e.oid FROM pg_event_trigger AS e
)
SELECT DISTINCT format('%s, which uses %s of role %s', pg_describe_object(o.classid, o.objid, 0),
                       pg_describe_object(d.refclassid, d.refobjid, 0), r.rolname) AS described
FROM part AS o JOIN pg_depend AS d ON d.classid = o.classid AND d.objid = o.objid
JOIN stranger AS r ON r.oid = coalesce(
    (SELECT p.proowner FROM pg_proc AS p WHERE d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid),
    (SELECT p.oprowner FROM pg_operator AS p WHERE d.refclassid = 'pg_operator'::regclass AND p.oid = d.refobjid),
    (SELECT p.opcowner FROM pg_opclass AS p WHERE d.refclassid = 'pg_opclass'::regclass AND p.oid = d.refobjid),
    (SELECT t.typowner FROM pg_type AS t WHERE d.refclassid = 'pg_type'::regclass AND t.oid = d.refobjid))
UNION
-- The owner of a schema renames it whatever is locked in it, and puts another one in its place.
SELECT format('%s in a schema of role %s', c.oid::regclass, r.rolname)
FROM member AS m JOIN pg_class AS c ON c.oid = m.oid JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN stranger AS r ON r.oid = n.nspowner
UNION
SELECT format('%s, a table of role %s', pg_describe_object('pg_rewrite'::regclass, w.oid, 0), r.rolname)
FROM pg_rewrite AS w JOIN member AS m ON m.oid = w.ev_class JOIN pg_class AS c ON c.oid = m.oid
JOIN stranger AS r ON r.oid = c.relowner
ORDER BY 1
