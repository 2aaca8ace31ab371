-- Whether there are rows after a position, as soon as there are.
SELECT {inorder}.reader_wait({table}::pg_catalog.oid::pg_catalog.regclass,
                                 {position}::pg_catalog.jsonb::{inorder}.feed_position, {wait}::pg_catalog.interval)
