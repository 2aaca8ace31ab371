-- The batch after a position, whether it is of no transactions, and the position after it.
SELECT pg_catalog.isempty(b.transactions), pg_catalog.to_jsonb(b.*), pg_catalog.to_jsonb(a.*)
FROM pg_catalog.jsonb_populate_record(NULL::{inorder}.feed_position, {position}::pg_catalog.jsonb) AS p
CROSS JOIN LATERAL {inorder}.feed_batch_after({table}::pg_catalog.oid::pg_catalog.regclass, p,
                                              {max_rows}::pg_catalog.int4) AS b
CROSS JOIN LATERAL {inorder}.feed_advance(p, b) AS a
