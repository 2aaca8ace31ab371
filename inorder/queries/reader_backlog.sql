-- The transactions that have ended since a position, and an estimate of their rows.
SELECT b.transactions, b.rows_estimated
FROM {inorder}.reader_backlog({table}::pg_catalog.oid::pg_catalog.regclass,
                            {position}::pg_catalog.jsonb::{inorder}.feed_position) AS b
