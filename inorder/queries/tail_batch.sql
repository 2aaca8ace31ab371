-- The batch after a position, the position after the batch, the query for its rows, and what of them is wanted; null if no
-- transaction has ended.
SELECT b::pg_catalog.jsonb, a::pg_catalog.jsonb, {inorder}.reader_batch_query(t.relation, b), t.columns
FROM ({columns}) AS t
CROSS JOIN CAST({position}::pg_catalog.jsonb AS {inorder}.feed_position) AS p
CROSS JOIN LATERAL {inorder}.reader_next_batch(t.relation, p, {max_rows}::pg_catalog.int4, {whole}::pg_catalog.bool) AS b
CROSS JOIN LATERAL {inorder}.reader_advance(p, b) AS a
WHERE NOT pg_catalog.isempty(b.transactions)
