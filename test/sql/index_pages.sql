-- A page of 8 kB has 8192 - 24 (header) - 16 (special space) = 8152 bytes for
-- keys. One of bigint takes 16 and its line pointer 4; below version 18, 4 more
-- count as used, those of the next line pointer. The tables are temporary:
-- elsewhere VACUUM keeps what other sessions could still see.
CREATE TEMP TABLE pages (id bigint PRIMARY KEY);
CREATE FUNCTION pg_temp.used(keys int) RETURNS float8 IMMUTABLE LANGUAGE sql AS $$
    SELECT 100 * (20 * keys + CASE WHEN current_setting('server_version_num')::int < 180000 THEN 4 ELSE 0 END) / 8152::float8
$$;

-- Nothing but a metapage; then a root, which is a leaf.
SELECT * FROM btree_leaf_pages('pages_pkey');
INSERT INTO pages VALUES (1);
SELECT leaf_pages, empty_pages, deleted_pages, abs(avg_leaf_density - pg_temp.used(1)) < 1e-9 AS one_key
FROM btree_leaf_pages('pages_pkey');
SELECT btree_leaf_pages(NULL);

-- Packed to 90 percent: 366 keys and the high key fill 7340 of 8152 bytes, and 20 more would be above 7336.
TRUNCATE pages;
INSERT INTO pages SELECT generate_series(1, 366 * 50);
REINDEX INDEX pages_pkey;
SELECT leaf_pages, empty_pages, deleted_pages,
       abs(avg_leaf_density - (49 * pg_temp.used(367) + pg_temp.used(366)) / 50) < 1e-9 AS packed,
       round(avg_leaf_density) AS density
FROM btree_leaf_pages('pages_pkey');

-- Keys of 20 whole pages are deleted: VACUUM takes the pages out of the tree.
DELETE FROM pages WHERE id > 366 * 10 AND id <= 366 * 30;
VACUUM pages;
SELECT leaf_pages, empty_pages, deleted_pages,
       abs(avg_leaf_density - (29 * pg_temp.used(367) + pg_temp.used(366)) / 30) < 1e-9 AS packed
FROM btree_leaf_pages('pages_pkey');
-- Half the keys of every page: the pages stay.
DELETE FROM pages WHERE id % 2 = 0;
VACUUM pages;
SELECT leaf_pages, empty_pages, deleted_pages,
       abs(avg_leaf_density - (29 * pg_temp.used(184) + pg_temp.used(183)) / 30) < 1e-9 AS half
FROM btree_leaf_pages('pages_pkey');

-- What is not a btree index that has pages.
SELECT error_of($$SELECT btree_leaf_pages('pages')$$);
SELECT error_of($$SELECT btree_leaf_pages(0)$$);
CREATE INDEX pages_hash ON pages USING hash (id);
SELECT error_of($$SELECT btree_leaf_pages('pages_hash')$$);
CREATE TABLE pages_parts (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT error_of($$SELECT btree_leaf_pages('pages_parts_pkey')$$);

-- An index that a failed build left.
CREATE TABLE pages_twice AS SELECT 1 AS id FROM generate_series(1, 2);
CREATE UNIQUE INDEX CONCURRENTLY pages_invalid ON pages_twice (id);
SELECT error_of($$SELECT btree_leaf_pages('pages_invalid')$$);

-- Who may look: the owner, superusers and members of pg_stat_scan_tables.
CREATE ROLE inorder_looker;
CREATE TABLE pages_own (id bigint PRIMARY KEY);
SET ROLE inorder_looker;
SELECT error_of($$SELECT btree_leaf_pages('pages_own_pkey')$$);
RESET ROLE;
GRANT pg_stat_scan_tables TO inorder_looker;
SET ROLE inorder_looker;
SELECT error_of($$SELECT btree_leaf_pages('pages_own_pkey')$$);
RESET ROLE;
REVOKE pg_stat_scan_tables FROM inorder_looker;
ALTER TABLE pages_own OWNER TO inorder_looker;
SET ROLE inorder_looker;
SELECT error_of($$SELECT btree_leaf_pages('pages_own_pkey')$$);
RESET ROLE;

DROP TABLE pages, pages_parts, pages_twice, pages_own;
DROP ROLE inorder_looker;
