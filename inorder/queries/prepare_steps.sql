-- The statements that are still to do.
SELECT step
FROM {inorder}.feed_prepare({table}::pg_catalog.oid::pg_catalog.regclass, {column}::pg_catalog.name,
                            {method}::pg_catalog.name) WITH ORDINALITY AS s(step, place)
ORDER BY place
