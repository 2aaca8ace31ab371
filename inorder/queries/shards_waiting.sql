-- Those of several shards that have rows after the positions in them, by their places in the lists. Each is a look at an
-- index: to ask for a batch costs twenty times as much.
SELECT s.place
FROM ROWS FROM (pg_catalog.unnest({tables}::pg_catalog.oid[]), pg_catalog.unnest({positions}::pg_catalog.text[]))
     WITH ORDINALITY AS s(relation, position, place)
WHERE {inorder}.reader_wait(
    s.relation::pg_catalog.regclass,
    s.position::pg_catalog.jsonb::{inorder}.feed_position,
    '0'::pg_catalog.interval)
