-- The number of a feed's unfinished batch, or of the next.
SELECT {inorder}.feed_next_batch({name}::pg_catalog.text, {max_rows}::pg_catalog.int4, {owner}::pg_catalog.oid::pg_catalog.regrole)
