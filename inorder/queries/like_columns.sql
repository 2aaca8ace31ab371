-- Columns of a table: name, type, and of a domain the type below it; labels of an enum; whether the type is neither the
-- server's nor one of these; NOT NULL; expression of a generated column and its kind; default; identity; collation.
SELECT a.attname::text,
       CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod) ELSE format_type(a.atttypid, a.atttypmod) END,
       format_type(a.atttypid, a.atttypmod),
       (SELECT array_agg(enumlabel::text ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = b.oid),
       b.oid >= 16384 AND b.typtype <> 'e', a.attnotnull OR t.typnotnull,
       CASE WHEN a.attgenerated <> '' THEN pg_get_expr(d.adbin, d.adrelid) END, a.attgenerated::text,
       CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END, a.attidentity <> '',
       CASE WHEN a.attcollation <> b.typcollation AND a.attcollation < 16384 THEN a.attcollation::regcollation::text END,
       CASE WHEN a.attgenerated <> '' THEN EXISTS (
           SELECT FROM pg_depend WHERE classid = 'pg_attrdef'::regclass AND objid = d.oid
           AND refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass) AND refobjid >= 16384) ELSE false END
FROM pg_attribute AS a
     JOIN pg_type AS t ON t.oid = a.atttypid
     JOIN pg_type AS b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
     LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %(table)s::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;
