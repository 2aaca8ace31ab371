-- like_checks: Return the CHECK constraints of a table: name, definition, columns, and true if the constraint cannot be
-- created on another server. Such a constraint needs an object that is not built in, or calls a function that is not
-- immutable. The owner of the table may have written this function to make other roles execute it.
SELECT conname::text, pg_get_constraintdef(oid),
       ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY (conkey)),
       EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_constraint'::regclass AND objid = c.oid AND refobjid >= 16384
               AND refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass))
       OR EXISTS (SELECT FROM regexp_matches(conbin::text, ':(?:op|)funcid (\d+)', 'g') AS f(id)
                  JOIN pg_proc AS p ON p.oid = f.id[1]::oid WHERE p.provolatile <> 'i')
FROM pg_constraint AS c
WHERE conrelid = %(table)s::oid AND contype = 'c'
ORDER BY conname;

-- like_columns: Return the columns of a table: name; type, for a domain its base type; declared type; labels of an
-- enum; true if the type is neither built in nor an enum; NOT NULL; expression and kind of a generated column; default;
-- identity; collation; true if the expression needs an object that is not built in.
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

-- like_indexes: Return the indexes of a table: name; definition after USING; key columns that are not expressions; all
-- columns in the definition; true for a unique index; true for the primary key; true for an exclusion constraint; true
-- if the index needs an object that is not built in.
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

-- like_owners: Return the roles, except superusers and the caller, that own a table, one of its partitions or children,
-- or the schema of any of them. Such a role could replace the table, or add an index with a function that the planner
-- calls.
WITH RECURSIVE tree AS (
    SELECT %(table)s::oid AS oid UNION SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = oid
)
SELECT DISTINCT r.rolname::text
FROM tree
     JOIN pg_class AS c ON c.oid = tree.oid
     JOIN pg_namespace AS n ON n.oid = c.relnamespace
     JOIN pg_database AS d ON d.datname = current_database()
     JOIN pg_roles AS r
         ON r.oid IN (c.relowner, CASE n.nspowner WHEN 'pg_database_owner'::regrole THEN d.datdba ELSE n.nspowner END)
WHERE NOT r.rolsuper AND r.rolname <> current_user
ORDER BY 1;

-- like_partitions: Return the partitions of a table, each after its parent: number, number of the parent, bounds,
-- partition key, and the columns in the key.
WITH tree AS (
    SELECT relid, parentrelid, level, row_number() OVER (ORDER BY level, relid) - 1 AS number
    FROM pg_partition_tree(%(table)s::oid)
)
SELECT tree.number, above.number, pg_get_expr(c.relpartbound, c.oid), pg_get_partkeydef(c.oid),
       ARRAY(SELECT attname::text FROM pg_partitioned_table JOIN pg_attribute
             ON attrelid = partrelid AND attnum = ANY (partattrs) WHERE partrelid = c.oid)
FROM tree
     JOIN pg_class AS c ON c.oid = tree.relid
     LEFT JOIN tree AS above ON above.relid = tree.parentrelid
ORDER BY tree.number;

-- like_relations: Return the relations of a table, with partitions and TOAST. The first value is "table", "TOAST", or
-- the name of the index (for a partition, the name of the partitioned index). It is followed by the file in the format
-- of pg_waldump, and by the size.
WITH leaf AS (
    SELECT %(table)s::regclass::oid AS oid UNION SELECT relid FROM pg_partition_tree(%(table)s::regclass)
), relation AS (
    SELECT 'table' AS what, c.oid FROM leaf JOIN pg_class AS c USING (oid)
    UNION ALL SELECT 'TOAST', reltoastrelid FROM leaf JOIN pg_class AS c USING (oid) WHERE reltoastrelid <> 0
    UNION ALL SELECT 'TOAST', indexrelid FROM leaf JOIN pg_class AS c USING (oid) JOIN pg_index ON indrelid = reltoastrelid
    UNION ALL SELECT (SELECT relname FROM pg_class WHERE oid = coalesce(pg_partition_root(indexrelid), indexrelid)), indexrelid
    FROM leaf JOIN pg_index ON indrelid = leaf.oid
)
SELECT relation.what::text,
       concat_ws('/', coalesce(nullif(c.reltablespace, 0), d.dattablespace), d.oid, pg_relation_filenode(c.oid)),
       pg_relation_size(c.oid)
FROM relation
     JOIN pg_class AS c ON c.oid = relation.oid
     JOIN pg_database AS d ON d.datname = current_database()
WHERE c.relkind IN ('r', 't', 'i');

-- like_rows: For each partition of a table, return the numbers of rows inserted, updated, and updated without new index
-- entries (HOT).
SELECT coalesce(sum(n_tup_ins), 0)::bigint, coalesce(sum(n_tup_upd), 0)::bigint, coalesce(sum(n_tup_hot_upd), 0)::bigint
FROM (SELECT %(table)s::regclass::oid AS oid UNION SELECT relid FROM pg_partition_tree(%(table)s::regclass)) AS leaf
     JOIN pg_stat_all_tables ON relid = leaf.oid
GROUP BY leaf.oid
ORDER BY leaf.oid;

-- like_table: Return facts about the table to imitate: kind, qualified name, privilege to read it, size, and counters
-- of changes. The OID was looked up with the user's search_path. Here the path is empty, so that all names are
-- qualified.
SELECT c.relkind::text, c.relpersistence::text, format('%%I.%%I', n.nspname, c.relname),
       has_table_privilege(c.oid, 'SELECT'), row_security_active(c.oid),
       pg_get_partkeydef(c.oid), coalesce(sum(pg_table_size(leaf.oid)), 0)::bigint,
       coalesce(sum(pg_relation_size(leaf.oid)), 0)::bigint / current_setting('block_size')::int,
       coalesce(sum(pg_total_relation_size(leaf.oid)), 0)::bigint,
       coalesce(sum(s.n_tup_ins), 0)::bigint, coalesce(sum(s.n_tup_upd), 0)::bigint,
       coalesce(sum(s.n_tup_hot_upd), 0)::bigint, coalesce(sum(s.n_tup_del), 0)::bigint,
       (SELECT count(*) FROM pg_constraint WHERE conrelid = c.oid AND contype = 'f'),
       (SELECT count(*) FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal),
       coalesce((SELECT option_value::int FROM pg_options_to_table(c.reloptions) WHERE option_name = 'fillfactor'), 0)
FROM pg_class AS c
     JOIN pg_namespace AS n ON n.oid = c.relnamespace
     CROSS JOIN LATERAL (SELECT c.oid AS oid WHERE c.relkind <> 'p'
                         UNION ALL SELECT relid FROM pg_partition_tree(c.oid) WHERE isleaf AND c.relkind = 'p') AS leaf
     LEFT JOIN pg_stat_all_tables AS s ON s.relid = leaf.oid
WHERE c.oid = %(table)s::oid
GROUP BY c.oid, n.oid, c.relkind, c.relpersistence, n.nspname, c.relname, c.reloptions;
