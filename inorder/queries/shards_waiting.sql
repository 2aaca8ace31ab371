-- Those of several shards that have rows after the positions in them, by their places in the lists. Each is a look at an
-- index: to ask for a batch costs twenty times as much.
SELECT s.place
FROM ROWS FROM (pg_catalog.unnest({tables}::pg_catalog.oid[]), pg_catalog.unnest({positions}::pg_catalog.text[]))
     WITH ORDINALITY AS s(relation, position, place)
WHERE {inorder}.reader_wait(
    s.relation::pg_catalog.regclass,
    pg_catalog.jsonb_populate_record(NULL::{inorder}.feed_position, s.position::pg_catalog.jsonb),
    '0'::pg_catalog.interval)
