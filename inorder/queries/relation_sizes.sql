-- Bytes of a table and of its index, if it has one, main forks.
SELECT pg_relation_size(%(table)s::regclass), coalesce(pg_relation_size(to_regclass(%(index)s)), 0);
