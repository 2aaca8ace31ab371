-- The key of a table: column, type, name of its index. The primary key's single column, unless another is asked for.
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), i.relname::text
FROM pg_index AS x
     JOIN pg_class AS i ON i.oid = x.indexrelid
     JOIN pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
WHERE x.indrelid = %(table)s::regclass
      AND (a.attname = %(key)s OR %(key)s = '' AND x.indisprimary AND x.indnkeyatts = 1)
ORDER BY x.indisprimary DESC, x.indisunique DESC, i.relname
LIMIT 1;
