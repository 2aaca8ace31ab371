#!/bin/sh
# A reader for inorder lab check. Replace the query by yours; docs/check-protocol.md has the lines.
while read -r poll; do
    psql -XqAt -v ON_ERROR_STOP=1 -v poll="$poll" <<'END' || exit
WITH asked AS (SELECT coalesce((:'poll'::jsonb ->> 'last')::bigint, 0) AS last),
     found AS (SELECT id FROM events, asked WHERE id > last)
SELECT line FROM (
    SELECT id, to_jsonb(id) AS line FROM found UNION ALL
    SELECT NULL, jsonb_build_object('last', greatest(last, (SELECT max(id) FROM found))) FROM asked
) AS answer ORDER BY id NULLS LAST;
END
done
