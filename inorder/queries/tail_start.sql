-- A position to begin with.
SELECT pg_catalog.to_jsonb(p.*) FROM {inorder}.feed_start({table}::oid::regclass, {start}) AS p
