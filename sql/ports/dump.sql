-- The parts of the state that pg_dump includes.
--
-- The state of a dropped table is left out, because it would be dumped with an OID that may belong to another table in
-- the restored database.
SELECT pg_catalog.pg_extension_config_dump('inorder_internal.feed_table'::pg_catalog.regclass,
    'WHERE EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = relation)'::pg_catalog.text);
SELECT pg_catalog.pg_extension_config_dump('inorder_internal.feed'::pg_catalog.regclass,
    'WHERE EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = relation)'::pg_catalog.text);
SELECT pg_catalog.pg_extension_config_dump('inorder_internal.feed_state'::pg_catalog.regclass,
    'WHERE EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = relation)'::pg_catalog.text);
SELECT pg_catalog.pg_extension_config_dump('inorder_internal.worker_batch'::pg_catalog.regclass,
    'WHERE EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = relation)'::pg_catalog.text);
SELECT pg_catalog.pg_extension_config_dump('inorder_internal.counted_table'::pg_catalog.regclass,
    'WHERE EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = relation)'::pg_catalog.text);
