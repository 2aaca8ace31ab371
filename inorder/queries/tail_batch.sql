-- The batch after a position, and the position after the batch; null if no transaction has ended. The query for the rows,
-- in the same transaction, finds the batch in a setting.
SELECT pg_catalog.set_config('inorder_tail.batch', pg_catalog.to_jsonb(b.*)::pg_catalog.text, true),
       CASE WHEN NOT pg_catalog.isempty(b.transactions) THEN pg_catalog.to_jsonb(a.*) END
FROM pg_catalog.jsonb_populate_record(NULL::{inorder}.feed_position, {position}::pg_catalog.jsonb) AS p
CROSS JOIN LATERAL {inorder}.feed_batch_after({table}::pg_catalog.oid::pg_catalog.regclass, p,
                                              {max_rows}::pg_catalog.int4, {whole}::pg_catalog.bool) AS b
CROSS JOIN LATERAL {inorder}.feed_advance(p, b) AS a
