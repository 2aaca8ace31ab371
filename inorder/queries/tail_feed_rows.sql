-- The rows of a feed's unfinished batch. Their type is that of the table, whose name is read as nothing else.
{inorder}.feed_batch_rows({name}::pg_catalog.text, {batch}::pg_catalog.int8,
                          (SELECT coalesce(r.*) FROM ONLY {table} AS r WHERE false), {owner}::pg_catalog.oid::pg_catalog.regrole)
