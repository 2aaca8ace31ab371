-- The position after the next batch; null if no transaction has ended.
SELECT CASE WHEN NOT pg_catalog.isempty(b.transactions)
            THEN {inorder}.reader_advance(p, b)::pg_catalog.jsonb::pg_catalog.text END
FROM CAST({position}::pg_catalog.jsonb AS {inorder}.feed_position) AS p
CROSS JOIN LATERAL {inorder}.reader_next_batch({table}::pg_catalog.oid::pg_catalog.regclass, p,
                                              {max_rows}::pg_catalog.int4, {whole}::pg_catalog.bool) AS b
