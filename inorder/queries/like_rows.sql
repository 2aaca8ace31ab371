-- Rows inserted into a table so far, updated, updated without an index entry, partition by partition.
SELECT coalesce(sum(n_tup_ins), 0)::bigint, coalesce(sum(n_tup_upd), 0)::bigint, coalesce(sum(n_tup_hot_upd), 0)::bigint
FROM (SELECT %(table)s::regclass::oid AS oid UNION SELECT relid FROM pg_partition_tree(%(table)s::regclass)) AS leaf
     JOIN pg_stat_all_tables ON relid = leaf.oid
GROUP BY leaf.oid
ORDER BY leaf.oid;
