-- Whether there are rows after a position.
SELECT {inorder}.feed_wait_after({table}::pg_catalog.oid::pg_catalog.regclass,
                                 {inorder}.feed_position_of({position}::pg_catalog.jsonb), '0'::pg_catalog.interval)
