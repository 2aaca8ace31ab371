-- The columns of a table of the state that a row can be given.
SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type
FROM pg_attribute AS a
WHERE a.attrelid = ('inorder_internal.' || {table})::regclass AND a.attnum > 0 AND NOT a.attisdropped
  AND a.attgenerated = ''
ORDER BY a.attnum
