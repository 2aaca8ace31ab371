-- Whether there are rows after a position, as soon as there are.
SELECT {inorder}.feed_wait_after({table}::pg_catalog.oid::pg_catalog.regclass,
                                 {inorder}.feed_position_of({position}::pg_catalog.jsonb), {wait}::pg_catalog.interval)
