-- Whether a kept position and batch are read as they were written, but for what a later version has added; and whether
-- the position after the batch is what follows.
SELECT p::pg_catalog.jsonb OPERATOR(pg_catalog.@>)
           (pg_catalog.jsonb_strip_nulls({position}::pg_catalog.jsonb) OPERATOR(pg_catalog.-) 'format'::pg_catalog.text)
       AND coalesce(b::pg_catalog.jsonb OPERATOR(pg_catalog.@>)
           (pg_catalog.jsonb_strip_nulls({batch}::pg_catalog.jsonb) OPERATOR(pg_catalog.-) 'format'::pg_catalog.text), true),
       CASE WHEN {batch}::pg_catalog.jsonb IS NULL THEN true
            ELSE {inorder}.reader_advance(p, b)::pg_catalog.jsonb OPERATOR(pg_catalog.@>)
           (pg_catalog.jsonb_strip_nulls({after}::pg_catalog.jsonb) OPERATOR(pg_catalog.-) 'format'::pg_catalog.text) END
FROM CAST({position}::pg_catalog.jsonb AS {inorder}.feed_position) AS p
CROSS JOIN CAST({batch}::pg_catalog.jsonb AS {inorder}.feed_batch) AS b
