-- Which of these primary keys a table has, by their places in the list.
SELECT v.place
FROM pg_catalog.jsonb_array_elements({keys}::pg_catalog.jsonb) WITH ORDINALITY AS v(key, place)
CROSS JOIN LATERAL pg_catalog.jsonb_populate_record(NULL::{relation}, v.key) AS r
JOIN {relation} AS e ON {same}
