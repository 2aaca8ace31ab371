-- The parts of the batch between two positions, and the WAL that a standby must have replayed to read them.
SELECT part::pg_catalog.jsonb::pg_catalog.text,
       CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
            ELSE pg_catalog.pg_current_wal_flush_lsn() END::pg_catalog.text
FROM {inorder}.reader_batch_between({start}::pg_catalog.jsonb::{inorder}.feed_position,
                                  {until}::pg_catalog.jsonb::{inorder}.feed_position) AS w
CROSS JOIN LATERAL {inorder}.reader_split({table}::pg_catalog.oid::pg_catalog.regclass, w,
                                        {parts}::pg_catalog.int4) AS part
WHERE NOT pg_catalog.isempty(part.transactions)
