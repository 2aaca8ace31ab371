-- The rows of a batch kept by the reader.
COPY (SELECT {columns}
      FROM pg_catalog.jsonb_populate_record(NULL::{inorder}.feed_batch, {batch}::pg_catalog.jsonb) AS b
      CROSS JOIN LATERAL {inorder}.feed_rows({table}::pg_catalog.oid::pg_catalog.regclass, b, NULL::{row_type}) AS e)
TO STDOUT WITH ({options})
