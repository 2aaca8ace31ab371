-- The type of the columns in which the state refers to tables. The type accepts missing tables, because a dump may
-- contain names of tables that do not exist in the database into which the dump is restored.
CREATE TYPE inorder_internal.table_ref;

CREATE FUNCTION inorder_internal.table_ref_in(cstring) RETURNS inorder_internal.table_ref
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION inorder_internal.table_ref_out(inorder_internal.table_ref) RETURNS cstring
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE TYPE inorder_internal.table_ref (
    INPUT = inorder_internal.table_ref_in, OUTPUT = inorder_internal.table_ref_out,
    INTERNALLENGTH = 4, PASSEDBYVALUE, ALIGNMENT = int4, STORAGE = plain
);
COMMENT ON TYPE inorder_internal.table_ref IS
'Internal type: the OID of a table, written as its name; a name that no table has is read as 0.';

CREATE CAST (inorder_internal.table_ref AS regclass) WITHOUT FUNCTION AS IMPLICIT;
COMMENT ON CAST (inorder_internal.table_ref AS regclass) IS 'the same table';
CREATE CAST (inorder_internal.table_ref AS oid) WITHOUT FUNCTION AS IMPLICIT;
COMMENT ON CAST (inorder_internal.table_ref AS oid) IS 'the OID of the table';
CREATE CAST (regclass AS inorder_internal.table_ref) WITHOUT FUNCTION AS ASSIGNMENT;
COMMENT ON CAST (regclass AS inorder_internal.table_ref) IS 'the same table';
