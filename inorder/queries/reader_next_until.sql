-- The position after the next batch of transactions that had ended at another position; null if there is none. What has
-- ended since counts as read while the batch is found, hence in one snapshot.
SELECT CASE WHEN NOT pg_catalog.isempty(b.transactions)
            THEN {inorder}.reader_advance(p, b)::pg_catalog.jsonb::pg_catalog.text END
FROM CAST({position}::pg_catalog.jsonb AS {inorder}.feed_position) AS p
CROSS JOIN CAST({until}::pg_catalog.jsonb AS {inorder}.feed_position) AS u
CROSS JOIN {inorder}.reader_start({table}::pg_catalog.oid::pg_catalog.regclass, 'now'::pg_catalog.text) AS latest
CROSS JOIN LATERAL {inorder}.reader_next_batch(
    {table}::pg_catalog.oid::pg_catalog.regclass,
    pg_catalog.jsonb_set(
        pg_catalog.jsonb_set(p::pg_catalog.jsonb, ARRAY['members'::pg_catalog.text],
                             latest::pg_catalog.jsonb OPERATOR(pg_catalog.->) 'members'::pg_catalog.text),
        ARRAY['transactions'::pg_catalog.text],
        pg_catalog.format('"%s"'::pg_catalog.text, p.transactions OPERATOR(pg_catalog.+)
            (latest.transactions OPERATOR(pg_catalog.-) u.transactions))::pg_catalog.jsonb)::{inorder}.feed_position,
    {max_rows}::pg_catalog.int4, {whole}::pg_catalog.bool) AS b
