-- How full the leaf pages of an index are, where the server has no pgstattuple.

CREATE FUNCTION @extschema@.btree_leaf_pages(
    index regclass, OUT leaf_pages bigint, OUT empty_pages bigint, OUT deleted_pages bigint, OUT avg_leaf_density float8
)
RETURNS record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION @extschema@.btree_leaf_pages(regclass) IS
'Leaf pages of a btree index: how many there are; how many of the index are half dead (empty_pages) and deleted, '
'at any level; and how much of the leaf pages'' space is used, in percent (NULL where there are none). The same '
'figures as pgstatindex of pgstattuple, which rounds to two digits. Reads the whole index, a page at a time and '
'past most of the shared buffers, and locks out no writer; pages that come meanwhile are left out.
For the owner of the index and members of pg_stat_scan_tables. Errors: wrong_object_type (not a btree index, or '
'partitioned), object_not_in_prerequisite_state (index not valid), feature_not_supported (temporary index of '
'another session), insufficient_privilege, undefined_table.';
