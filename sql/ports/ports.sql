-- Functions that lock, examine and read tables. In the extension these functions are written in C. The other functions
-- for feeds are the same in both editions.
--
-- sql/plain/ports.sql has the bodies for the SQL edition. In the extension these functions are called as the owner of
-- the state; a function that checks the privileges of the caller has the caller as an argument.

-- Lock a table with its partitions, check that a read returns the right rows (table_proof.c), and return the table.
-- Raise an error if a check fails.
CREATE FUNCTION inorder_internal.lock_table(t inorder_internal.feed_table, caller oid)
RETURNS inorder_internal.feed_table
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- As lock_table(), for a call that may be part of a query with parallel workers.
CREATE FUNCTION inorder_internal.lock_counted(t inorder_internal.feed_table, caller oid)
RETURNS inorder_internal.feed_table
AS 'MODULE_PATHNAME', 'lock_table' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Check a locked table in the snapshot of the calling statement, and return its members.
CREATE FUNCTION inorder_internal.proved_members(t inorder_internal.feed_table, caller oid)
RETURNS @extschema@.feed_member[]
AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL UNSAFE;

-- Return the members. Raise an error unless the snapshot of the calling statement sees the files and partitions that
-- are read (files.c). For a table that is locked but was not checked, callers pass null as members.
CREATE FUNCTION inorder_internal.seen_members(relation regclass, members @extschema@.feed_member[])
RETURNS @extschema@.feed_member[]
AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL UNSAFE;

-- Return true if a column was checked together with the table, for an order or for shares. keep_proof_of_column()
-- records this.
CREATE FUNCTION inorder_internal.column_is_proved(
    t inorder_internal.feed_table, column_name text, number smallint, divides boolean
) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;

CREATE FUNCTION inorder_internal.keep_proof_of_column(t inorder_internal.feed_table, number smallint, divides boolean)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;

-- Run a query on one table with the privileges of the caller (query.c). Return its first row, which is an array of
-- strings; null if there is no row. If "walks" is true, the query reads the first rows using an index, and must not be
-- planned with a sort.
CREATE FUNCTION inorder_internal.as_caller(t inorder_internal.feed_table, query text, walks boolean, caller oid)
RETURNS text[]
AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL UNSAFE;

-- Run a query on one table with the privileges of the caller, and return the number that the query selects. If
-- "parallel" is true, the query may use parallel workers.
CREATE FUNCTION inorder_internal.count_as_caller(
    t inorder_internal.feed_table, query text, parallel boolean, caller oid
) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL UNSAFE;

-- Return an array with an element for each leaf. An element is true if the leaf has rows of the set of transactions
-- that has the same subscript in "numbers". The element is also true if this set is null, or if the rows cannot be
-- found using an index.
CREATE FUNCTION inorder_internal.leaves_with(t inorder_internal.feed_table, leaves oid[], numbers int8multirange[])
RETURNS boolean[]
AS 'MODULE_PATHNAME', 'leaves_with_numbers' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;

-- Return two results: whether a table has rows of some transactions, and whether it has rows with numbers that no
-- transaction has had yet. Return null if an index cannot answer this quickly (probe.c). In the functions below, null
-- likewise means that an index cannot provide the result.
CREATE FUNCTION inorder_internal.probe(t inorder_internal.feed_table, numbers int8multirange)
RETURNS boolean[]
AS 'MODULE_PATHNAME', 'probe_numbers' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;

-- A count that this session keeps.
--
--  amount   number of rows
--  folded   number of rows when may_fold() last returned true
--  counted  transactions whose rows are counted, and the state of the table
--  others   other transactions that may have rows
--  more     number of rows of the transactions in "others"; null if there are many
CREATE TYPE inorder_internal.known_count AS (
    amount bigint, folded bigint, counted @extschema@.feed_position, others int8multirange, more bigint
);

-- Return the count that this session keeps of a locked table. Return null if there is no such count, or if it is not
-- valid in the snapshot of the calling statement (counted.c).
CREATE FUNCTION inorder_internal.known_count(t inorder_internal.feed_table, caller oid)
RETURNS inorder_internal.known_count
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;

-- Return true if a query may fold. In that case, if the session keeps a count of the table, record in this count that
-- the given number of rows is folded.
CREATE FUNCTION inorder_internal.may_fold(relation oid, amount bigint) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- Keep a count of the rows of some transactions for this session. All rows of the table must be in one leaf.
CREATE FUNCTION inorder_internal.keep_count(
    relation oid, leaf oid, counted @extschema@.feed_position, amount bigint, folded bigint
) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- The end of a batch that is limited to a number of rows.
--
--  has_rows         true if the batch has rows
--  number           transaction of the last row within the limit; null if the batch has no more rows than the limit
--  place, last_key  place of that row among the rows of its transaction, and key of that row; null unless the next row
--                   is of the same transaction
CREATE TYPE inorder_internal.batch_end AS (has_rows boolean, number bigint, place bigint, last_key text[]);

-- Find the end of a batch using the index on the number (end.c). Return null if no ranges of keys contain exactly the
-- rows of the batch.
CREATE FUNCTION inorder_internal.end_by_index(t inorder_internal.feed_table, b @extschema@.feed_batch, max_rows int)
RETURNS inorder_internal.batch_end
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;

-- Return a condition that all rows of some transactions satisfy, derived from the partitions that have such rows
-- (parts.c).
CREATE FUNCTION inorder_internal.parts_with_rows(t inorder_internal.feed_table, numbers int8multirange)
RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;

-- Return a condition that all rows of a partition of a table satisfy; "true" if nothing is known. With this condition,
-- the planner prunes other partitions.
CREATE FUNCTION inorder_internal.partition_bounds(relation regclass, member regclass) RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;

-- Count the rows of some transactions, at most 10,000 rows, in the btree indexes of a table. In the extension, the
-- privileges of the caller are not checked. All partitions are locked. Return null if the table has no such index, or
-- if there are too many ranges or partitions. Raise an error if the table cannot be read, or cannot be locked
-- immediately. "asked" is true if the caller named the table, and may read it.
CREATE FUNCTION inorder_internal.unread_rows(
    t inorder_internal.feed_table, numbers int8multirange, asked boolean
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = 1 AS $$
BEGIN
    IF inorder_internal.is_plain(t.relation) OR cardinality(inorder_internal.tree(t.relation)) <= 1000 THEN
        -- The owner of the state counts the rows, because row security hides no rows from that role.
        RETURN inorder_internal.count_by_index(
            inorder_internal.lock_table(t, quote_ident(current_user)::regrole::oid), numbers, 10000);
    END IF;
    RETURN NULL;
END $$;

-- Return the number of pages that this session has read so far. The number includes at least the pages of table t and
-- its indexes; callers compute differences. If "begins" is true, and the last probe was costly and found nothing, the
-- result is the number before this probe.
CREATE FUNCTION inorder_internal.pages_read(t inorder_internal.feed_table, begins boolean) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Count the rows of some transactions, up to a limit.
CREATE FUNCTION inorder_internal.count_by_index(t inorder_internal.feed_table, numbers int8multirange, most bigint)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;

-- Return the members that were checked. Raise an error if the members of the table have changed since then.
CREATE FUNCTION inorder_internal.unchanged_members(t inorder_internal.feed_table, remembered @extschema@.feed_member[])
RETURNS @extschema@.feed_member[]
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Return the row type of a table.
CREATE FUNCTION inorder_internal.type_of_rows(relation regclass) RETURNS oid
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- Return the type of a column; null if no column has this name.
CREATE FUNCTION inorder_internal.type_of_column(relation regclass, column_name name) RETURNS oid
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- Return true if the caller may read a table. If the result is true, the table is locked, and results about the table
-- remain valid.
CREATE FUNCTION inorder_internal.lock_readable(relation oid, caller oid) RETURNS boolean
AS 'MODULE_PATHNAME', 'lock_readable_table' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- Readers that move one feed take turns. If locking writes no WAL, begin_turn() locks the feed, and returns true.
-- Otherwise begin_turn() returns false, and take_turn() locks the feed when there are rows. The function take_turn()
-- returns true if no other reader has moved the feed since it had the given version.
CREATE FUNCTION inorder_internal.begin_turn(feed bigint) RETURNS boolean
AS 'MODULE_PATHNAME', 'lock_feed' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE FUNCTION inorder_internal.take_turn(feed bigint, version text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN true;

-- Before rows leave the database, ensure that a crash cannot undo the transactions that have ended. If keeps_commit is
-- true, and this transaction has written, its commit flushes the WAL, and a crash cannot undo this transaction either.
-- Returns true.
CREATE FUNCTION inorder_internal.make_durable(keeps_commit boolean) RETURNS boolean
AS 'MODULE_PATHNAME', 'make_durable_here' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- Wait until it is time for another search for rows; the first search begins immediately. Return false if the call has
-- waited for the given time. A monotonic clock measures this time (wait.c).
CREATE FUNCTION inorder_internal.await_look(seconds float8, is_first boolean) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- Lock a table with all its partitions.
CREATE FUNCTION inorder_internal.lock_tree(relation regclass, mode text) RETURNS void
AS 'MODULE_PATHNAME', 'lock_tree_in_mode' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- Execute DDL statements with the privileges of the caller.
CREATE FUNCTION inorder_internal.run_statements(statements text[], caller oid) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- Raise an error if the origin of the server differs from "origin", which the call read when it began (origin.c).
CREATE FUNCTION inorder_internal.expect_origin(origin text) RETURNS void
AS 'MODULE_PATHNAME', 'expect_same_origin' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- Return true if the position of a reader also moves past transactions without rows. Such a move requires a flush of
-- the WAL.
CREATE FUNCTION inorder_internal.passes_empty_batches() RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN true;
