-- The query for the rows of a batch kept by the reader, and what of them is wanted.
SELECT {inorder}.reader_batch_query(t.relation, b), t.columns
FROM ({columns}) AS t
CROSS JOIN CAST({batch}::pg_catalog.jsonb AS {inorder}.feed_batch) AS b
