-- The rows of a feed's unfinished batch.
COPY (SELECT {columns}
      FROM {inorder}.feed_batch_rows({name}::pg_catalog.text, {batch}::pg_catalog.int8, NULL::{row_type},
                                     {owner}::pg_catalog.oid::pg_catalog.regrole) AS e)
TO STDOUT WITH ({options})
