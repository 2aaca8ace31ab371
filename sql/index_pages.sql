-- Leaf density of an index, for servers without pgstattuple.

CREATE FUNCTION @extschema@.btree_leaf_pages(
    index regclass, OUT leaf_pages bigint, OUT empty_pages bigint, OUT deleted_pages bigint, OUT avg_leaf_density float8
)
RETURNS record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION @extschema@.btree_leaf_pages(regclass) IS
'Leaf pages of a btree index: their number; the number of half-dead (empty_pages) and deleted pages at any level; and '
'the percentage of the leaf pages'' space that is used (NULL if there are none). The same figures as pgstatindex of '
'pgstattuple, which rounds to two digits. Reads the whole index, one page at a time, through a ring of buffers, and '
'does not block writers; pages added during the call are not counted.
For the owner of the index and members of pg_stat_scan_tables. Errors: wrong_object_type (not a btree index, or '
'partitioned), object_not_in_prerequisite_state (index not valid), feature_not_supported (temporary index of '
'another session), insufficient_privilege, undefined_table.';
