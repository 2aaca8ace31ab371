-- The file of a relation as pg_waldump takes it: tablespace, database, file number; no row without the relation.
SELECT concat_ws('/', coalesce(nullif(c.reltablespace, 0), d.dattablespace), d.oid, pg_relation_filenode(c.oid))
FROM pg_class AS c, pg_database AS d
WHERE c.oid = to_regclass(%(index)s) AND d.datname = current_database();
