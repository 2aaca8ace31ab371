-- Bytes of a table and of its index, main forks.
SELECT pg_relation_size(%(table)s::regclass), pg_relation_size(%(index)s::regclass);
