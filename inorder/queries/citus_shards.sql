-- The shards of a distributed table, and where they are. Citus leaves out the schema public where it names one.
SELECT s.shardid,
       pg_catalog.concat(CASE WHEN n.nspname OPERATOR(pg_catalog.=) 'public' THEN 'public.' END,
                         pg_catalog.shard_name(s.logicalrelid, s.shardid)),
       p.groupid, d.nodename, d.nodeport, t.partmethod, s.shardminvalue, s.shardmaxvalue
FROM pg_catalog.pg_dist_partition AS t
JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) t.logicalrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
JOIN pg_catalog.pg_dist_shard AS s ON s.logicalrelid OPERATOR(pg_catalog.=) t.logicalrelid
JOIN pg_catalog.pg_dist_placement AS p ON p.shardid OPERATOR(pg_catalog.=) s.shardid
JOIN pg_catalog.pg_dist_node AS d ON d.groupid OPERATOR(pg_catalog.=) p.groupid
                                 AND d.noderole OPERATOR(pg_catalog.=) 'primary'
WHERE t.logicalrelid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid
ORDER BY s.shardid, p.groupid
