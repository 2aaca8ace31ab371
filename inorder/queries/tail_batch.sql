-- The batch after a position, the position after the batch, and the query for its rows; null if no transaction has ended.
SELECT {inorder}.feed_to_jsonb(b), {inorder}.feed_to_jsonb(a), {inorder}.feed_rows_query({table}::pg_catalog.oid::pg_catalog.regclass, b)
FROM pg_catalog.jsonb_populate_record(NULL::{inorder}.feed_position, {position}::pg_catalog.jsonb) AS p
CROSS JOIN LATERAL {inorder}.feed_batch_after({table}::pg_catalog.oid::pg_catalog.regclass, p,
                                              {max_rows}::pg_catalog.int4, {whole}::pg_catalog.bool) AS b
CROSS JOIN LATERAL {inorder}.feed_advance(p, b) AS a
WHERE NOT pg_catalog.isempty(b.transactions)
