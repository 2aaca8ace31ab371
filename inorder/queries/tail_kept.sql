-- Whether a kept position and batch are read as they were written, and the position after the batch is what follows.
SELECT pg_catalog.jsonb_strip_nulls(p::pg_catalog.jsonb) OPERATOR(pg_catalog.=)
           pg_catalog.jsonb_strip_nulls({position}::pg_catalog.jsonb)
       AND pg_catalog.jsonb_strip_nulls(b::pg_catalog.jsonb) OPERATOR(pg_catalog.=)
           pg_catalog.jsonb_strip_nulls(coalesce({batch}::pg_catalog.jsonb, '{{}}'::pg_catalog.jsonb)),
       CASE WHEN {batch}::pg_catalog.jsonb IS NULL THEN true
            ELSE pg_catalog.jsonb_strip_nulls({inorder}.reader_advance(p, b)::pg_catalog.jsonb) OPERATOR(pg_catalog.=)
                 pg_catalog.jsonb_strip_nulls({after}::pg_catalog.jsonb) END
FROM pg_catalog.jsonb_populate_record(NULL::{inorder}.feed_position, {position}::pg_catalog.jsonb) AS p
CROSS JOIN pg_catalog.jsonb_populate_record(NULL::{inorder}.feed_batch,
                                            coalesce({batch}::pg_catalog.jsonb, '{{}}'::pg_catalog.jsonb)) AS b
