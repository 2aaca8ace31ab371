#!/bin/sh
# A reader for inorder lab check. Replace the query with yours; docs/check-protocol.md describes the protocol.
while read -r poll; do
    psql -XqAt -v ON_ERROR_STOP=1 -v poll="$poll" <<'END' || exit
WITH poll AS (SELECT coalesce((:'poll'::jsonb ->> 'last')::bigint, 0) AS last),
     new_rows AS (SELECT id FROM events, poll WHERE id > last)
SELECT line FROM (
    SELECT id, to_jsonb(id) AS line FROM new_rows UNION ALL
    SELECT NULL, jsonb_build_object('last', greatest(last, (SELECT max(id) FROM new_rows))) FROM poll
) AS answer ORDER BY id NULLS LAST;
END
done
