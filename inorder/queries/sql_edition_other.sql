-- The schema of an SQL edition that sql_edition_schema.sql has left out, and its owner.
SELECT pg_catalog.quote_ident(n.nspname), pg_catalog.pg_get_userbyid(i.nspowner)
FROM pg_catalog.pg_namespace AS i
JOIN pg_catalog.pg_proc AS p ON p.proname = 'feed_guard' AND p.proowner = i.nspowner AND p.pronargs = 0
JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
WHERE i.nspname = 'inorder_internal'
