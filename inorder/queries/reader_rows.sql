-- The query for the rows of a batch kept by the reader.
SELECT {inorder}.reader_batch_query({table}::pg_catalog.oid::pg_catalog.regclass,
                                 {batch}::pg_catalog.jsonb::{inorder}.feed_batch)
