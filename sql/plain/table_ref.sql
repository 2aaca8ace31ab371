-- The type by which the state names a table. A dump has its name; if there is no such table where it is restored, that
-- row is an error.
CREATE DOMAIN inorder_internal.table_ref AS regclass;
COMMENT ON DOMAIN inorder_internal.table_ref IS 'Internal type. A table, as regclass: its oid, in a dump its name.';
