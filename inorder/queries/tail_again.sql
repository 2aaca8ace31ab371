-- The query for the rows of a batch kept by the reader.
SELECT {inorder}.feed_rows_query({table}::pg_catalog.oid::pg_catalog.regclass,
                                 pg_catalog.jsonb_populate_record(NULL::{inorder}.feed_batch, {batch}::pg_catalog.jsonb))
