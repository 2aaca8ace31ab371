-- Move a feed over its unfinished batch.
SELECT {inorder}.feed_finish_batch({name}::pg_catalog.text, {batch}::pg_catalog.int8,
                                   owner => {owner}::pg_catalog.oid::pg_catalog.regrole)
